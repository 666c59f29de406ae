"""What happened to a service, as Prometheus counted it. `reader` asks Prometheus; `reading` is the pure part."""
