"""Samples of requests as the sandbox's proxies append them to one file."""

import io
from pathlib import Path

from headway.contract.sampling import Sample
from headway.environment.request_samples import MOST_BYTES, UnreadableSamplesError, within


class SampleFile:
    """Lines of one file."""

    late_seconds = 2.0

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self, start: float, end: float) -> list[Sample]:
        try:
            with self._file.open("rb") as lines:
                size = lines.seek(0, io.SEEK_END)
                lines.seek(max(0, size - MOST_BYTES))
                text = lines.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return []
        except OSError as failure:
            raise UnreadableSamplesError(f"{self._file.name} cannot be read: {failure.strerror}") from None
        return list(within(text.splitlines(), start, end))
