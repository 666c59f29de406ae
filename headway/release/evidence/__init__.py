"""What happened, as counted by Prometheus: `reading` has the words and the pure part, `reader` asks."""
