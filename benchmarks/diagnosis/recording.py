"""Incidents of the real bed, recorded: each fault that can be rehearsed, put into the demonstration that runs (Triton, Envoy, Prometheus, KEDA,
users who never stop), and what a diagnosis would have read at three moments. And how a diagnosis does on what was recorded, without the bed.

`make demo-traffic`, then `make record-incidents`: the faults in an order drawn by a seed, the next one once no page fires and a little after, so
that the hour before holds incidents that are over. It goes on where it was interrupted. A record is what `headway.diagnosis.gathering` read, as JSON.
"""

import argparse
import gzip
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from headway.diagnosis.gathering import gather
from headway.diagnosis.hypotheses import HYPOTHESES
from headway.diagnosis.observed import Observed
from headway.diagnosis.reasoning import Diagnosis, diagnoses
from headway.release.service_place import place
from sandbox.cluster.processes import Supervisor
from sandbox.layout import HOME_VARIABLE, Layout
from sandbox.rehearsal import pages
from sandbox.rehearsal.catalogue import FAULTS, Fault

RECORDED = Path(__file__).parent / "recorded"
LOOKS = (60.0, 90.0, 150.0)
"""Seconds after the fault was put in."""
_PAUSE_SECONDS = 60.0
_QUIET_SECONDS = 900.0
"""So long a page may go on to fire after its fault is out: it would hide the next one's."""
_HOUR = 3600.0
_LAYERS = {each.name: each.layer for each in HYPOTHESES}


@dataclass(frozen=True, kw_only=True)
class Record:
    """One fault on the bed. Times in seconds after it was put in."""

    fault: str
    paged: float | None
    """When the first alert was told."""
    explained: float | None
    """When the right cause was told, unattended."""
    looks: tuple[Observed, ...]


_AS_JSON = TypeAdapter(Record)


def read(file: Path) -> Record:
    return _AS_JSON.validate_json(gzip.decompress(file.read_bytes()))


def write(record: Record, file: Path) -> None:
    file.write_bytes(gzip.compress(_AS_JSON.dump_json(record, exclude_defaults=True), mtime=0))


def record(fault: Fault, state: Path, project: Path) -> Record:
    """Put it in, look, and take it out. The rehearsal's own lines say when people were told what."""
    command = [str(project / ".venv" / "bin" / "headway"), "rehearse", fault.name, "-e", "sandbox", "--minutes", "10"]
    environment = {**os.environ, HOME_VARIABLE: str(state), "PYTHONUNBUFFERED": "1"}
    said: list[tuple[float, str]] = []
    with subprocess.Popen(
        [*command, "--project", str(project)], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        stream = child.stdout
        reader = threading.Thread(target=lambda: said.extend((time.time(), line) for line in stream))
        reader.start()
        began = _put_in(said, child)
        looks = list[Observed]()
        for after in LOOKS:
            time.sleep(max(began + after - time.time(), 0.0))
            looks.append(gather(place(fault.service, "sandbox", project), at=time.time(), since=_HOUR))
        child.send_signal(signal.SIGINT)
        reader.join()
    right = next(each.says for each in HYPOTHESES if each.name == fault.cause) if fault.cause else None
    return Record(
        fault=fault.name,
        paged=_first(said, began, lambda line: line.startswith(("PAGE ", "TICKET "))),
        explained=_first(said, began, lambda line: line.startswith("CAUSE ") and right is not None and right in line),
        looks=tuple(looks),
    )


def _put_in(said: Sequence[tuple[float, str]], child: "subprocess.Popen[str]") -> float:
    """When the rehearsal said that the fault is in."""
    while child.poll() is None:
        if said and (broken := [moment for moment, line in said if line.startswith("You are on call.")]):
            return broken[0]
        time.sleep(0.2)
    raise SystemExit("".join(line for _, line in said))


def _first(said: Sequence[tuple[float, str]], began: float, fits: Callable[[str], bool]) -> float | None:
    return next((round(moment - began, 1) for moment, line in said if moment >= began and fits(line)), None)


def _until_quiet(state: Path, project: Path) -> None:
    port = Supervisor(Layout(project=project, state=state, cache=state)).port("prometheus")
    end = time.monotonic() + _QUIET_SECONDS
    while time.monotonic() < end and any(each.severity == "page" for each in pages.raised(port) or ()):
        time.sleep(5.0)
    time.sleep(_PAUSE_SECONDS)


def table(records: Sequence[Record]) -> Iterator[str]:
    """By look: how many causes are exact, named at all, and of the right layer."""
    yield f"{len(records)} incidents of {len({each.fault for each in records})} faults on the real bed"
    for number, after in enumerate(LOOKS):
        found = [(FAULTS[each.fault].cause, diagnoses(each.looks[number])) for each in records]
        named = [(truth, {each.cause for each in said if each.cause}) for truth, said in found]
        exact = sum(causes == ({truth} if truth else set()) for truth, causes in named)
        within = sum(truth in causes if truth else not causes for truth, causes in named)
        layer = sum(_LAYERS[truth] in {each.layer for each in said} if truth else True for truth, said in found)
        yield f"  {after:>4.0f} s after: {exact} exact, {within} named, {layer} of its layer"
        yield from (
            f"        {truth or 'nothing'} was called {_words(said)}" for truth, said in found if truth not in {each.cause for each in said}
        )
    told = sorted(each.explained for each in records if each.explained is not None)
    if told:
        yield f"  told unattended: {len(told)} of {len(records)}, in {told[len(told) // 2]:.0f} s (median), {told[-1]:.0f} s (longest)"


def _words(said: Sequence[Diagnosis]) -> str:
    return ", ".join(each.cause or f"{each.verdict} ({each.symptom})" for each in said)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diagnosis.recording", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="all of them otherwise")
    parser.add_argument("--state", type=Path, default=Path(".headway/demo/state"), help="of the demonstration that runs")
    parser.add_argument("--into", type=Path, default=RECORDED)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--read", action="store_true", help="record nothing, and say how a diagnosis does on what there is")
    words = parser.parse_args()
    project = Path.cwd()
    if not words.read:
        words.into.mkdir(exist_ok=True)
        os.environ[HOME_VARIABLE] = str(words.state.resolve())
        wanted = [(run, FAULTS[name]) for run in range(words.runs) for name in words.faults or FAULTS]
        random.Random(words.seed).shuffle(wanted)
        for run, fault in wanted:
            file = words.into / f"{fault.name}-{run}.json.gz"
            if file.exists():
                continue
            incident = record(fault, words.state.resolve(), project)
            write(incident, file)
            print("\n".join(table([incident])), flush=True)
            _until_quiet(words.state.resolve(), project)
    if found := [read(file) for file in sorted(words.into.glob("*.json.gz"))]:
        print("\n".join(table(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
