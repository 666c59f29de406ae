"""Releases that move traffic only as fast as the evidence allows."""
