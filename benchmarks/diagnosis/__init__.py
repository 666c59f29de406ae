"""How often a diagnosis is right, on services that are played request by request."""
