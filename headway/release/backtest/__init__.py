"""A rollout policy, rehearsed: on a service's own history, or on simulated services."""
