"""From files to contracts, or to every problem that is in them, each with its line and column."""
