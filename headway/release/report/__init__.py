"""A release on one page, for people who were not there."""
