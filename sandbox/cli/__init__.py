"""The command group `headway sandbox`."""
