"""A fuzzer for each parser that reads what others write: `make fuzz`. The table is `tests.fuzz.table`."""
