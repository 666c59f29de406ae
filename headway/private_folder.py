"""A folder of state, logs or keys: its owner alone may enter, whatever the files in it allow."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from headway.problem import Exit, UserError


def private_folder(path: Path, named_by: str = "XDG_STATE_HOME") -> Path:
    """Make the folder, or close one that others may enter. `named_by` is the variable that names another one. Raises
    UserError for one of another user and where none can be made, OSError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError, PermissionError) as failure:
        raise UserError(
            f"No folder {path} can be made: {failure.strerror}.",
            "There is nowhere to keep state; nothing was done.",
            f"Name a folder of your own with {named_by}.",
        ) from None
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise UserError(
            f"{path} belongs to user {_name(found.st_uid)}, and this is user {_name(os.geteuid())}.",
            "Files of both would mix there: keys that one cannot read, and state that one cannot change. Nothing was done.",
            f"Run it as that user, without sudo; or name a folder of your own with {named_by}.",
            Exit.REFUSED,
        )
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        path.chmod(0o700)
    return path


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where Headway keeps files of its own on a machine of production: `headway` in the user's state folder, by the
    XDG specification."""
    given = environment.get("XDG_STATE_HOME")
    return (Path(given) if given else Path(environment.get("HOME") or "~").expanduser() / ".local" / "state") / "headway"


def told_to_root(place: Path) -> str:
    """What root is told in a folder of somebody else, who could change none of the files that are made there."""
    owner = place.stat().st_uid
    if os.geteuid() != 0 or owner == 0:
        return ""
    return f"you are root, and {place} belongs to user {_name(owner)}: files that are made there will be root's. Run it as that user"


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
