"""Where the program begins: a Ctrl-C while the rest is loaded ends it as any later one does, without a traceback."""

import sys


def main() -> None:
    """Entry point of `headway`."""
    try:
        from headway.cli.main import main as command
    except KeyboardInterrupt:
        sys.exit(130)
    command()
