"""Tests of `components/tenant`."""
