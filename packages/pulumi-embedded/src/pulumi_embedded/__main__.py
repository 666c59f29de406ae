"""`pulumi-embedded ARGUMENTS`, or `python -m pulumi_embedded ARGUMENTS`: answers as `pulumi`, with the doubles of the installed SDKs."""

from pulumi_embedded import standalone
from pulumi_embedded.engine.cli import run_and_exit


def main() -> None:
    """The console command."""
    standalone.prepare(standalone.home())
    run_and_exit(standalone.providers)


if __name__ == "__main__":
    main()
