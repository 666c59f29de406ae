"""Carries a release out: what is next follows from the ledger alone, and one step at a time is done, verified and written down."""
