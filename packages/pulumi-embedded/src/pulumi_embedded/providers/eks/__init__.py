"""The double of the pulumi eks provider."""
