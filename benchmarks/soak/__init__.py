"""Simulated days of tenants' life on the real servers of the sandbox, by one seed, with invariants after each event."""
