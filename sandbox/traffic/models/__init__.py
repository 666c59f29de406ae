"""The models that the sandbox serves: small, made by deterministic code, with answers that are known."""
