"""Tests of `components/network`."""
