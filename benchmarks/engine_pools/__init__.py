"""Pools of engines in simulation: prompts of traces and bursts, engines with prefix caches and batches, and who sends which prompt where."""
