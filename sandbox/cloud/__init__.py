"""Doubles of cloud providers, and the Kubernetes provider."""
