"""HOW: Pulumi component resources and the pure builders they call."""
