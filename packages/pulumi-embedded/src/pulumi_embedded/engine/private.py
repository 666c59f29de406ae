"""A folder of state or secrets: its owner alone may enter, whoever made it."""

import os
import stat
from pathlib import Path

from pulumi_embedded.engine.errors import EngineError


def private(folder: Path) -> Path:
    """Make the folder, or close one that others may enter. Raises EngineError for one of another user."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise EngineError(
            f"{folder} belongs to user {found.st_uid}, and this is user {os.geteuid()}: whoever owns it may read and change state; "
            "run it as that user, or name a folder of your own with PULUMI_BACKEND_URL or PULUMI_EMBEDDED_HOME"
        )
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        folder.chmod(0o700)
    return folder
