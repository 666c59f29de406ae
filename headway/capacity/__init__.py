"""Capacity: what an environment holds and costs."""
