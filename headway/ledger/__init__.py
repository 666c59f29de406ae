"""The release ledger: immutable releases, and events that are numbered, chained by hash and never overwritten."""
