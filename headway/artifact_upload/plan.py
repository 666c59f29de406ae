"""What is uploaded: each file with its digests, divided into parts that follow from its size alone.

The same file is divided alike at each attempt, so a part that S3 already has is known again by its SHA-256. The trap: for a multipart upload
S3 keeps no SHA-256 of the whole, but one of the parts' (S3 user guide, "Checking object integrity": composite checksums).
"""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from headway.problem import UserError

MIB = 2**20
PART_BYTES = 16 * MIB
MOST_PARTS = 10_000
"""S3 takes no more (S3 user guide, "Amazon S3 multipart upload limits")."""


@dataclass(frozen=True, kw_only=True)
class FileUpload:
    """One file as it was when it was read."""

    source: Path
    path: str
    """Below the artifact's prefix."""
    size: int
    sha256: str
    """Of the whole file, hexadecimal."""
    parts: tuple[bytes, ...]
    """SHA-256 of each part; one for a file that is written at once."""

    @property
    def part_bytes(self) -> int:
        return part_bytes(self.size)

    @property
    def whole(self) -> bool:
        """Whether one request carries it."""
        return len(self.parts) == 1

    @property
    def checksum(self) -> str:
        """What S3 reports for the finished object: base64 of the file's digest, or of the digest of its parts' digests."""
        return encoded(self.parts[0] if self.whole else hashlib.sha256(b"".join(self.parts)).digest())

    def length(self, number: int) -> int:
        """Bytes of part `number`, counted from 1."""
        return min(self.part_bytes, self.size - (number - 1) * self.part_bytes)

    def read(self, number: int) -> bytes:
        """Part `number`. Raises UserError when the file is no longer what was described."""
        with self.source.open("rb") as file:
            file.seek((number - 1) * self.part_bytes)
            data = file.read(self.part_bytes)
        if hashlib.sha256(data).digest() != self.parts[number - 1]:
            raise UserError(
                f"{self.source} has changed while it was uploaded.",
                "Its digest in the contract would be that of other content; the object was not completed.",
                "Leave the folder alone, and run the command again.",
            )
        return data


def part_bytes(size: int) -> int:
    """How a file of `size` bytes is divided: 16 MiB, or as much as the number of parts allows, in whole MiB."""
    return max(PART_BYTES, -(-size // MOST_PARTS // MIB) * MIB)


def planned(source: Path, path: str) -> FileUpload:
    """Read `source` once. Raises OSError."""
    whole, parts = hashlib.sha256(), list[bytes]()
    size = source.stat().st_size
    with source.open("rb") as file:
        read = 0
        while piece := file.read(part_bytes(size)):
            whole.update(piece)
            parts.append(hashlib.sha256(piece).digest())
            read += len(piece)
    if not parts:
        parts.append(whole.digest())
    return FileUpload(source=source, path=path, size=read, sha256=whole.hexdigest(), parts=tuple(parts))


def encoded(digest: bytes) -> str:
    """As S3 writes checksums."""
    return base64.b64encode(digest).decode()
