"""Tests of `components/addons`."""
