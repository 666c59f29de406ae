"""`make fuzz`: tries each parser with inputs that coverage guides (atheris, which is libFuzzer for Python), each in a process of its own.

FUZZ_INPUTS says how many inputs a parser gets, FUZZ_SECONDS how long at most, FUZZ_PARSERS which ones. An input at which a parser fails, takes
more than 5 s or lets the process grow above 500 MB goes into `tests/fuzz/corpus`, which a quick test replays.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.parser import CORPUS, MEBIBYTES, SECONDS, FuzzedParser
from tests.fuzz.table import PARSERS, TABLES

INPUTS = int(os.environ.get("FUZZ_INPUTS", "2000"))
LONGEST = float(os.environ.get("FUZZ_SECONDS", "100000"))
LARGEST = 1 << 16
"""Bytes of an input. What is larger is bounded by sizes, which have tests of their own."""
_DONE, _AT = re.compile(r"Done (\d+) runs"), re.compile(r"^#(\d+)\t", re.MULTILINE)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def tried(parser: FuzzedParser) -> bool:
    """Try one parser and say how it went; whether nothing was wrong."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headway-fuzz-") as work:
        seeds = Path(work, "seeds")
        seeds.mkdir()
        for number, seed in enumerate((*parser.seeds, *(each.read_bytes() for each in parser.failed_once))):
            (seeds / str(number)).write_bytes(seed)
        words = [
            f"-runs={INPUTS}",
            f"-max_total_time={LONGEST:.0f}",
            f"-timeout={SECONDS}",
            f"-rss_limit_mb={MEBIBYTES}",
            f"-max_len={LARGEST}",
        ]
        words += [f"-artifact_prefix={work}/", "-print_final_stats=0", "-verbosity=1", "-seed=1", str(seeds)]
        ended = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.target", TABLES[parser.name], parser.name, *words],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        said = ended.stdout + ended.stderr
        failed = [each for each in Path(work).iterdir() if each.is_file()]
        for each in failed:
            target = CORPUS / parser.name / each.name.rpartition("-")[2][:12]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(each.read_bytes())
            said += f"\nkept as {target}"
    inputs = max(map(int, (*_DONE.findall(said), *_AT.findall(said))), default=0)
    well = ended.returncode == 0 and not failed
    say(f"{parser.name:30} {inputs:9} inputs {time.monotonic() - began:7.0f} s  {'well' if well else 'FAILED'}")
    if not well:
        say("\n".join(line for line in said.splitlines() if not line.startswith("#"))[-4000:])
    return well


def main() -> int:
    chosen = os.environ.get("FUZZ_PARSERS", "").replace(",", " ").split() or sorted(PARSERS)
    if unknown := [each for each in chosen if each not in PARSERS]:
        say(f"error: there is no parser {', '.join(unknown)}; nothing was tried. Name some of: {', '.join(sorted(PARSERS))}.")
        return 2
    failed = [name for name in chosen if not tried(PARSERS[name])]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
