"""Faults that are put into a running demonstration for whoever is on call, and are surely taken out again."""
