"""Requests to a service that has no replica: held until one serves."""
