"""Tests of `components/platform`."""
