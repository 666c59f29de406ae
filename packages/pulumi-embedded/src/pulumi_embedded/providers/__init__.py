"""Doubles of providers: they check, plan and remember as the real ones do, on one machine."""
