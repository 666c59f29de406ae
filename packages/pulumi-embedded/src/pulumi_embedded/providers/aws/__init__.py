"""The double of the pulumi aws provider."""
