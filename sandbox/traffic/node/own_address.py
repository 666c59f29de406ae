"""Runs a script whose servers listen on every address, on one: `python3 -I own_address.py ADDRESS SCRIPT ARGUMENTS...`.

In a pod every address is the pod's own; here pods share the machine's, and two that listen on all would take each other's port. Standard
library alone.
"""

import runpy
import socket
import sys
from typing import Any


def main(address: str, script: str) -> None:
    bind = socket.socket.bind

    def bound(own: socket.socket, place: Any) -> None:
        bind(own, (address, *place[1:]) if isinstance(place, tuple) and place[0] in ("", "0.0.0.0") else place)  # noqa: S104

    socket.socket.bind = bound  # pyright: ignore[reportAttributeAccessIssue]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    del sys.argv[0]
    own = sys.argv.pop(0)
    main(own, sys.argv[0])
