"""Which engine of a pool answers a request to a language model: prefix caches and load, weighed in tokens of prefill."""
