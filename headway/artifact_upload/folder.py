"""The files of a folder that becomes an artifact: every one of them, or a refusal. What is left out silently is missed by a replica."""

import os
from pathlib import Path

from headway.problem import Exit, UserError


def files_below(folder: Path) -> tuple[Path, ...]:
    """Every file below `folder`, sorted; a link to a file counts as one. Raises UserError for a folder that is none, is empty, or holds
    what cannot be read or uploaded.
    """
    if not folder.is_dir():
        raise UserError(
            f"There is no folder {folder}.", "Nothing was read.", "Name the folder that holds the artifact's files.", Exit.USAGE
        )
    found, odd = list[Path](), list[Path]()
    for place, folders, names in os.walk(folder, onerror=_unreadable):
        for path in (*(Path(place, name) for name in folders), *(Path(place, name) for name in names)):
            if path.is_file():
                found.append(path)
            elif path.is_symlink() or not path.is_dir():
                odd.append(path)
    if odd:
        raise UserError(
            f"{' and '.join(map(str, sorted(odd)[:3]))} {'is' if len(odd) == 1 else 'are'} neither file nor folder: a link to a folder or to "
            "nothing, or a pipe.",
            "An artifact could only leave that out, and no replica would find it.",
            "Put the files themselves there.",
            Exit.REFUSED,
        )
    if not found:
        raise UserError(f"{folder} holds no file.", "There is nothing to serve.", "Put the model's files there first.", Exit.USAGE)
    return tuple(sorted(found))


def _unreadable(error: OSError) -> None:
    raise UserError(
        f"{error.filename} cannot be read: {error.strerror}.", "Its files would be missing in the artifact.", "Make it readable."
    ) from error
