"""Model registries: what they know of a version, behind one interface, and whether a contract says the same."""
