"""Logs of pods that run as processes: the node agent keeps a file for each container, also of pods that are gone. Lines in
them have no time of their own."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from headway.environment.container_logs import LogLine, LogQuery

LARGEST_TAIL = 4 * 2**20
"""Bytes of a file that are read at once."""


class KeptLog(NamedTuple):
    """The file of one container."""

    tenant: str
    pod: str
    container: str
    path: Path


def kept(folder: Path) -> Iterator[KeptLog]:
    """Every file below the agent's `folder`, sorted."""
    for path in sorted(folder.glob("*/*/*.log")):
        yield KeptLog(path.parts[-3], path.parts[-2], path.stem, path)


class FileReader:
    """One query on those files."""

    def __init__(self, folder: Path, query: LogQuery) -> None:
        self._folder, self._query = folder, query
        self._at: dict[Path, int] = {}
        self._read = False

    def read(self) -> Sequence[LogLine]:
        # No line has a time, so whoever printed last comes last: the newest lines are those that are kept.
        logs = sorted((log for log in kept(self._folder) if self._wanted(log)), key=lambda log: log.path.stat().st_mtime_ns)
        found = [line for log in logs for line in self._new(log)]
        if self._read:
            return found
        self._read = True
        return found[-self._query.most :]

    def _wanted(self, log: KeptLog) -> bool:
        """A pod's name begins with its model and its release (`components/model_service/release.py`)."""
        query = self._query
        if log.tenant != query.tenant or (query.container and log.container != query.container) or not log.pod.startswith(query.pod):
            return False
        named = re.match(r"(?P<model>.+?)-(?P<release>r[0-9a-f]{10})(-|$)", log.pod)
        if query.model and (named is None or named["model"] != query.model):
            return False
        if query.release and (named is None or named["release"] != query.release):
            return False
        written = datetime.fromtimestamp(log.path.stat().st_mtime, UTC)
        return written >= query.since

    def _new(self, log: KeptLog) -> Iterator[LogLine]:
        """Whole lines that were written since the last look; of a long file its end."""
        with log.path.open("rb") as file:
            size = file.seek(0, 2)
            start = self._at.get(log.path, max(0, size - LARGEST_TAIL))
            file.seek(min(start, size))
            content = file.read(LARGEST_TAIL)
        whole = content.rfind(b"\n") + 1
        self._at[log.path] = min(start, size) + whole
        for line in content[:whole].decode(errors="replace").splitlines():
            yield LogLine(None, log.pod, log.container, line)
