"""Tests of `components/observability`."""
