"""What the platform promises in seconds and bytes, measured as whole processes. `python -m benchmarks` writes docs/benchmarks.md."""
