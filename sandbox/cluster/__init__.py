"""A real Kubernetes control plane on loopback, built from its Go modules."""
