"""Simulated services under release, to try a rollout policy, a gate or a contract on."""
