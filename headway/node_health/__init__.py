"""Health of GPU nodes: which are broken, what is to be done about each, and whether a pool offers what it should."""
