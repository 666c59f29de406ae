"""Real KEDA of the sandbox: its operator and its metrics adapter as processes against the local API server."""
