"""Each metric defined once: query per source, unit, direction."""
