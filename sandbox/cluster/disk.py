"""A full disk, told as such wherever it strikes."""

import errno
from collections.abc import Generator
from contextlib import contextmanager

from headway.problem import UserError


def is_full(error: OSError) -> bool:
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def telling_when_full(doing: str) -> Generator[None]:
    """Turn the operating system's word for a full disk inside the block into a UserError; every other error passes."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise full(doing, str(error)) from None


def full(doing: str, said: str) -> UserError:
    return UserError(
        f"The disk filled up while {doing}.",
        f"It stopped there ({said}); what was complete is kept.",
        "Free some space, or point HEADWAY_CACHE and HEADWAY_SANDBOX_HOME at a larger disk, and run the command again.",
    )
