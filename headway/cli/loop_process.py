"""What the commands of loops have in common: which cluster they ask, how they speak, and that a signal ends them."""

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headway.problem import UserError, on_one_line


def told_to_end() -> threading.Event:
    """Set once the process is told to end, by SIGINT or SIGTERM, which do nothing else from now on."""
    ending = threading.Event()

    def end(_number: int, _frame: object) -> None:
        ending.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return ending


def kubeconfig(*, in_cluster: bool) -> str | None:
    """The path of the kubeconfig; None for the pod's own service account."""
    return None if in_cluster else os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


@contextmanager
def reaching() -> Generator[None]:
    """Say by UserError that a kubeconfig cannot be used."""
    from headway.environment.kubernetes import UnusableKubeconfigError

    try:
        yield
    except UnusableKubeconfigError as failure:
        raise UserError(
            f"No cluster can be reached: {failure.reason}.", "Nothing was started.", "Set KUBECONFIG, or run it in a pod."
        ) from None


def say(line: str) -> None:
    """As one line that is no order to a terminal: loops speak of what tenants wrote."""
    sys.stdout.write(f"{on_one_line(line)}\n")
    sys.stdout.flush()
