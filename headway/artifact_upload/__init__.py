"""Puts the files of an artifact into an environment's bucket, once."""
