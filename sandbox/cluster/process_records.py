"""What is known of a process that was started: `<name>.json` says what was started, `<name>.stat` which process that
is.

The second file is the kernel's line about the process (`/proc/self/stat`), written by the process itself before it
becomes its program.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from sandbox.cluster import linux, whole_file

_POLL_SECONDS = 0.05
_LAUNCH_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class ProcessRecord:
    name: str
    executable: str
    fingerprint: str
    boot: str
    ports: tuple[int, ...]
    since: str
    stop_seconds: float


class ProcessRecords:
    """The records in one folder, by the names of the processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> tuple[ProcessRecord, ...]:
        """Every record, by name."""
        found = (self.read(path.stem) for path in sorted(self._folder.glob("*.json")))
        return tuple(record for record in found if record is not None)

    def read(self, name: str) -> ProcessRecord | None:
        text = text_of(self._record_file(name))
        if not text:
            return None
        data: dict[str, Any] = json.loads(text)
        data["ports"] = tuple(data["ports"])
        return ProcessRecord(**data)

    def write(self, record: ProcessRecord) -> None:
        whole_file.replace(self._record_file(record.name), json.dumps(asdict(record), indent=2) + "\n")

    def forget(self, name: str) -> None:
        for path in (self.stat_file(name), self._record_file(name)):
            path.unlink(missing_ok=True)

    def running(self, record: ProcessRecord) -> linux.Stat | None:
        """The process of the record, when it is still that process."""
        line = text_of(self.stat_file(record.name)).strip()
        if not line or record.boot != linux.boot_id():
            return None
        was = linux.parse_stat(line)
        now = linux.stat(was.pid)
        return now if now is not None and now.started == was.started else None

    def await_launch(self, record: ProcessRecord) -> None:
        """A command that was killed while it launched has left a process that is about to say who it is, or none."""
        deadline = monotonic() + _LAUNCH_SECONDS
        young = datetime.now(UTC) - datetime.fromisoformat(record.since) < timedelta(minutes=1)
        while young and not text_of(self.stat_file(record.name)) and monotonic() < deadline:
            sleep(_POLL_SECONDS)

    def stat_file(self, name: str) -> Path:
        return self._folder / f"{name}.stat"

    def _record_file(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def text_of(path: Path) -> str:
    """The text of a file; empty when there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
