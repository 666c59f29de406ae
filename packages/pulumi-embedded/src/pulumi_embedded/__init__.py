"""Pulumi programs without an account: an embedded engine and doubles of providers, in one Python process."""

VERSION = "0.1.0"
