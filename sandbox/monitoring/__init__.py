"""Real Prometheus and Alertmanager of the sandbox: what they read, and keeping them running."""
