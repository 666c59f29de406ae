"""The port: everything that Headway asks of the environment in which it works, and where each environment answers."""
