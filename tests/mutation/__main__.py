"""`make mutants`: changes the rooms that decide in one place at a time (mutmut), and counts which changes their tests notice.

MUTANTS says how many mutants a room gets, drawn by MUTANTS_SEED; MUTANT_ROOMS which rooms, divided by commas;
MUTANTS_AT_ONCE how many are tried at a time. What survived is written with its difference into
`.mutants/ROOM/survivors.txt`, to be read: each wants a test, or is no difference.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.mutation.copying import CHECKOUT, copied, say
from tests.mutation.rooms import ROOMS, Room, changes_words_only, drawn

COUNT = int(os.environ.get("MUTANTS", "200"))
SEED = int(os.environ.get("MUTANTS_SEED", "1"))
AT_ONCE = os.environ.get("MUTANTS_AT_ONCE", "2")
_NOTICED = {1, 3, -24, 24, 36, 152, 255}
"""Exit codes of mutmut 3.8: tests failed (1, 3), or ran too long. The others: survived (0), no test reaches the function (33)."""
_SOURCES = ["headway", "components", "policies", "stacks", "sandbox", "benchmarks"]


def prepared(name: str, room: Room) -> Path:
    """A copy of the checkout's files whose configuration names the room."""
    place = CHECKOUT / ".mutants" / name.replace(" ", "-")
    files = copied(place)
    beside = sorted({each.split("/")[0] for each in files} - {*_SOURCES, "tests", "pyproject.toml"})
    settings = {
        "source_paths": _SOURCES,
        "only_mutate": list(room.files),
        "also_copy": beside,
        "pytest_add_cli_args_test_selection": list(room.tests),
        "pytest_add_cli_args": ["-m", "not slow", "-p", "no:randomly", "--timeout=900", *(f"--deselect={each}" for each in room.without)],
        "track_dependencies": False,
        "use_git_change_detection": False,
        "timeout_multiplier": 10,
    }
    with (place / "pyproject.toml").open("a") as project:
        project.write("\n[tool.mutmut]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    return place


def mutmut(place: Path, *words: str, expected: str = "") -> str:
    """What mutmut says; stops with its last lines if it could not do its work, unless they say what was expected."""
    ended = subprocess.run(
        [sys.executable, "-m", "mutmut", *words], cwd=place, capture_output=True, text=True, errors="replace", check=False
    )
    said = ended.stdout + ended.stderr
    if ended.returncode and (not expected or expected not in said):
        sys.exit(f"error: mutmut {words[0]} failed in {place.name}.\n{said[-3000:]}")
    return ended.stdout


def exit_codes(place: Path) -> dict[str, int | None]:
    codes: dict[str, int | None] = {}
    for each in sorted((place / "mutants").rglob("*.py.meta")):
        codes |= json.loads(each.read_text())["exit_code_by_key"]
    return codes


def tried(name: str, room: Room) -> str:
    """Try a room's mutants; the line that tells how it went."""
    place = prepared(name, room)
    mutmut(place, "run", "none", expected="nothing matches")  # it has no command that makes the mutants and tries none
    chosen = drawn(exit_codes(place), COUNT, SEED)
    mutmut(place, "run", "--max-children", AT_ONCE, *chosen)
    codes = exit_codes(place)
    kinds: Counter[str] = Counter()
    with (place / "survivors.txt").open("w") as survivors:
        for key in chosen:
            code = codes[key]
            if code in _NOTICED:
                kinds["noticed"] += 1
                continue
            difference = mutmut(place, "show", key)
            kinds["words" if changes_words_only(difference) else "survived"] += 1
            survivors.write(f"{key} (exit code {code})\n{difference}\n")
    return (
        f"{name:18} {len(chosen):5} of {len(codes):5}  noticed {kinds['noticed']:4}  survived {kinds['survived']:4}, in words only {kinds['words']:4}"
        f"  score {kinds['noticed'] / len(chosen):.1%}, without words {kinds['noticed'] / max(1, len(chosen) - kinds['words']):.1%}"
    )


def main() -> int:
    chosen = [each.strip() for each in os.environ.get("MUTANT_ROOMS", "").split(",") if each.strip()] or list(ROOMS)
    if unknown := [each for each in chosen if each not in ROOMS]:
        say(f"error: there is no room {', '.join(unknown)}; nothing was tried. Name some of: {', '.join(ROOMS)}.")
        return 2
    for name in chosen:
        say(tried(name, ROOMS[name]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
