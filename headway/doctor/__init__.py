"""The doctor: what would stop the first apply of an environment, found before it and without changing anything."""
