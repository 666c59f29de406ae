"""Simulated days of tenants' life on the real servers of the sandbox, by one seed, with invariants after each event.

Run on 2026-11-28, load 10 to 19, ended early by `MINUTES`: seed 1, 791 events, 3.7 simulated hours in 12 min, 15
releases rolled back; seed 2, 440 events, 2.1 h in 5 min, 7 rolled back; seed 3, 241 events, 1.1 h in 4 min, 5 rolled
back and 1 promoted. No invariant broke. 24 hours were never run.
"""
