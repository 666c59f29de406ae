"""The rules, one module a domain."""
