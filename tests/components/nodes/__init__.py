"""Tests of `components/nodes`."""
