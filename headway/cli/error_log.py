"""Where the traceback of what nobody foresaw lies: people are told of it in a line."""

import traceback
from pathlib import Path

from headway.environment import selection
from headway.private_folder import private_folder
from headway.problem import UserError


def keep(error: Exception) -> Path:
    """Write the traceback to the newest error's file, or to standard error where there can be none; where it is."""
    folder = selection.logs()
    try:
        path = private_folder(folder) / "headway-error.log"
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    except (OSError, UserError):
        traceback.print_exception(error)
        return Path("the lines above")
    return path
