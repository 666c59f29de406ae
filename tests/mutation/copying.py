"""A copy of the checkout, as it stands on the disk, in which files may be broken on purpose."""

import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def copied(place: Path) -> list[str]:
    """Copy what git knows to `place`, anew; answers the files."""
    shutil.rmtree(place, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout
    files = [each for each in listed.split("\0") if each and (CHECKOUT / each).is_file()]
    for each in files:
        target = place / each
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / each, target)
    return files


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
