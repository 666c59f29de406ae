"""Tests of `components/cluster`."""
