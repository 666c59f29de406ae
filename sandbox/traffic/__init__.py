"""Real traffic in miniature: Triton behind Envoy, on loopback, for the services that a profile names."""
