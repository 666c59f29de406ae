"""Tests of `components/model_service`."""
