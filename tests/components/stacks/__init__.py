"""Tests of `stacks`."""
