"""Runs one build command under the guard, line by line: every line goes to the log and to a callback.

Owns the reading of failures too: what a person should do when a download, the disk or the compiler says no.
"""

import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headway.problem import UserError
from sandbox.cluster import disk
from sandbox.cluster.locks import interrupted

_GUARD = Path(__file__).with_name("build_guard.py")
_TAIL_LINES = 4
_CANCEL_POLL_SECONDS = 0.2


class CommandError(Exception):
    """The command ended with a code other than 0. `tail` holds its last lines."""

    def __init__(self, argv: Sequence[str], code: int, tail: Sequence[str]) -> None:
        super().__init__(f"{' '.join(argv[:3])} ended with {code}")
        self.code, self.tail = code, tuple(tail)


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    log: Path,
    on_line: Callable[[str], None],
    cancel: threading.Event | None = None,
) -> None:
    """Run to the end, or until `cancel` is set; CommandError when it fails, UserError (INTERRUPTED) when it was
    cancelled.

    However this process ends, the command and its children end with it.
    """
    tail: deque[str] = deque(maxlen=50)
    with (
        log.open("a", encoding="utf-8") as sink,
        subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), *argv],
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        sink.write(f"$ {' '.join(argv)}\n")
        if cancel is not None:
            threading.Thread(target=_kill_when, args=(cancel, process), daemon=True).start()
        try:
            for line in process.stdout or ():
                sink.write(line)
                tail.append(line.rstrip())
                on_line(line.rstrip())
        finally:
            if process.stdin:
                process.stdin.close()  # ends the guard's command, where it is still running
    if cancel is not None and cancel.is_set():
        raise interrupted(f"running {' '.join(argv[:2])}")
    if process.returncode:
        raise CommandError(argv, process.returncode, tail)


def _kill_when(cancel: threading.Event, process: "subprocess.Popen[str]") -> None:
    while process.poll() is None:
        if cancel.wait(_CANCEL_POLL_SECONDS):
            process.terminate()  # the guard passes it on to the whole group
            return


_UNREACHABLE = re.compile(
    r"dial tcp|no such host|i/o timeout|connection (refused|reset)|proxyconnect|TLS handshake|network is unreachable|403 Forbidden"
    r"|5\d\d (Internal|Bad Gateway|Service|Gateway)|Failed to (fetch|download)|error sending request|Could not find a version|dns error",
    re.IGNORECASE,
)
_DISK = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_CHECKSUM = re.compile(r"checksum mismatch|SECURITY ERROR|hash mismatch|do not match the hashes", re.IGNORECASE)
_KILLED = re.compile(r"signal: killed|out of memory|cannot allocate memory", re.IGNORECASE)


def explain(error: CommandError, *, doing: str, log: Path) -> UserError:
    """The failure of a build command as fact, consequence, remedy; the log holds every line."""
    said = "\n".join(error.tail)
    last = " | ".join(line for line in error.tail[-_TAIL_LINES:] if line) or f"no output, exit code {error.code}"
    consequence = f"No partial result is kept; the last lines of the tool: {last} (the whole log: {log})"
    if is_disk_full(error):
        return disk.full(doing, last)
    if _CHECKSUM.search(said):
        return UserError(
            f"A download does not match the checksum in the lock file, while {doing}.",
            consequence,
            "Check the proxy between this machine and the registry (GOPROXY, PIP_INDEX_URL); do not change the lock file to make it pass.",
        )
    if _UNREACHABLE.search(said):
        return UserError(
            f"A package registry cannot be reached, while {doing}.",
            consequence,
            "Check the network and its settings (`go env GOPROXY`, HTTPS_PROXY), then run the command again: it continues where it stopped.",
        )
    if _KILLED.search(said):
        return UserError(
            f"The compiler was killed, most likely for lack of memory, while {doing}.",
            consequence,
            "Leave at least 4 GiB of memory free and run the command again: it continues where it stopped.",
        )
    return UserError(
        f"{doing[:1].upper()}{doing[1:]} failed.",
        consequence,
        "Read the log; if versions in go.mod were changed, run `go mod tidy` in the folder of that set.",
    )


def is_disk_full(error: CommandError) -> bool:
    return any(_DISK.search(line) for line in error.tail)
