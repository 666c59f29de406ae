"""A full disk, told as such wherever it strikes."""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headway.errors import UserError


@contextmanager
def telling_full_disk(doing: str, folder: Path) -> Generator[None]:
    """Turn the operating system's ENOSPC or EDQUOT inside the block into a UserError; every other error passes."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise full(doing, folder) from None


def full(doing: str, folder: Path) -> UserError:
    return UserError(
        f"the disk under {folder} filled up while {doing}",
        "it stopped half-way; what was complete is kept, and running the command again goes on from there",
        "free some space and run the command again",
    )
