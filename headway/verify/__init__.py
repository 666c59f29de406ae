"""What an environment does after an apply, shown and not assumed: each check looks, judges and keeps what it saw."""
