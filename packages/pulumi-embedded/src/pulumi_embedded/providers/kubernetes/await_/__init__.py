"""Readiness per kind: pure judges of what the API server shows, and the one loop that waits for their verdict."""
