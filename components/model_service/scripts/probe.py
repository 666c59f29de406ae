"""Asks a model server for an answer whose value is known, and says by its exit status whether the answer was right.

Runs inside the serving container, from a ConfigMap, on the standard library alone: `python3 probe.py startup|ready|live CONFIG`.
What the modes mean:

- startup: every model reports ready, has answered its warm-up at the declared maximum shape within the budget and without taking more
  device memory than its envelope, and answers every golden request correctly. Steps that passed are remembered, not repeated.
- ready: the first golden request of every model is answered correctly. A server that is busy (timeout, 429, 503) stays ready as long as
  it makes progress: taking it out would only move its load to others.
- live: something is answered, or progress is made. A wrong answer is not a reason to restart; readiness withdraws it from traffic.

The trap this exists for: a server whose model process is dead answers 200 on all its health endpoints and 500 on every inference.
"""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

BUSY = (429, 503)

Json = Any


class NotYet(Exception):  # noqa: N818  (a state, not a defect: the kubelet asks again)
    """The probe fails now; the text says why."""


class Busy(NotYet):
    """The server turned the request away or did not answer in time: not wrong, not right."""


def exchange(base: str, request: Json) -> Json:
    """The JSON answer to `request`: path, optional body (its presence makes it a POST), timeout in seconds."""
    body = request.get("body")
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", **request.get("headers", {})}
    asked = urllib.request.Request(base + request["path"], data=data, headers=headers, method=request.get("method"))  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=request["timeout_seconds"]) as answer:  # noqa: S310
            text = answer.read()
    except urllib.error.HTTPError as error:
        reason = f"{request['path']} answered {error.code}: {error.read(300).decode(errors='replace').strip()}"
        raise (Busy if error.code in BUSY else NotYet)(reason) from None
    except TimeoutError:
        raise Busy(f"{request['path']} did not answer within {request['timeout_seconds']} s") from None
    except (urllib.error.URLError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        kind = Busy if isinstance(reason, TimeoutError) else NotYet
        raise kind(f"{request['path']} cannot be reached: {reason}") from None
    try:
        return json.loads(text) if text.strip() else None
    except ValueError:
        return text.decode(errors="replace")


def select(answer: Json, path: list[Json]) -> Json:
    """Walk `path`: a string is a key, a number an index, a one-entry object picks the list element that has this entry."""
    for step in path:
        try:
            if isinstance(step, dict):
                ((key, value),) = step.items()
                answer = next(element for element in answer if element[key] == value)
            else:
                answer = answer[step]
        except (KeyError, IndexError, TypeError, StopIteration):
            raise NotYet(f"the answer has no {step!r} on the way {path!r}") from None
    return answer


def numbers(value: Json) -> list[float]:
    """All numbers of a nested list, in order."""
    if isinstance(value, list):
        return [number for element in value for number in numbers(element)]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise NotYet(f"the answer holds {value!r} where a number is expected")
    return [float(value)]


def compare(answer: Json, check: Json) -> None:
    """Raise NotYet unless the selected part is what `check` says: close (with tolerances), equals, contains or matches."""
    found = select(answer, check["at"])
    where = "/".join(str(step) for step in check["at"])
    if "close" in check:
        wanted, got = numbers(check["close"]), numbers(found)
        if len(wanted) != len(got):
            raise NotYet(f"{where} holds {len(got)} numbers, golden has {len(wanted)}")
        for index, (want, have) in enumerate(zip(wanted, got)):  # noqa: B905  (the image may carry Python 3.8)
            allowed = check["absolute"] + check["relative"] * abs(want)
            if not abs(have - want) <= allowed:  # NaN compares false, so it is refused
                raise NotYet(f"{where}[{index}] is {have!r}, golden is {want!r}, allowed difference {allowed!r}")
    if "equals" in check and found != check["equals"]:
        raise NotYet(f"{where} is {found!r}, golden is {check['equals']!r}")
    if "contains" in check and check["contains"] not in str(found):
        raise NotYet(f"{where} does not contain {check['contains']!r}")
    if "matches" in check and not re.search(check["matches"], str(found)):
        raise NotYet(f"{where} does not match {check['matches']!r}")


def golden(base: str, request: Json) -> None:
    """One golden request: answered, and every check of it holds."""
    answer = exchange(base, request)
    for check in request["checks"]:
        compare(answer, check)


def progress(config: Json, state: Path, mode: str) -> bool:
    """True when the server's own counters of finished work moved since this mode last asked."""
    asked = urllib.request.Request(config["progress"]["url"])  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=config["progress"]["timeout_seconds"]) as answer:  # noqa: S310
            lines = answer.read().decode(errors="replace").splitlines()
    except (OSError, ValueError):
        return False
    names = tuple(config["progress"]["counters"])
    total = sum(float(line.rsplit(None, 1)[1]) for line in lines if re.split(r"[{\s]", line, maxsplit=1)[0] in names)
    seen = state / f"progress-{mode}"
    before = float(seen.read_text()) if seen.exists() else 0.0
    seen.write_text(repr(total))
    return total > before


def device_memory_mib() -> "int | None":
    """Memory in use on the visible device, or None where no driver tells (simulated nodes, CPU builds)."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
        return sum(int(line) for line in text.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def warm(base: str, model: Json) -> None:
    """Warm-up at the declared maximum shape: the last `measured` of `requests` must stay within the budget."""
    plan = model["warmup"]
    seconds: list[float] = []
    for _ in range(plan["requests"]):
        began = time.monotonic()
        exchange(base, plan["request"])
        seconds.append(time.monotonic() - began)
    slowest = max(seconds[-plan["measured"] :])
    if slowest > plan["budget_seconds"]:
        raise NotYet(f"{model['name']}: a warm-up request at maximum shape took {slowest:.3f} s, budget {plan['budget_seconds']} s")


def startup(config: Json, state: Path) -> None:
    base = config["base"]
    for model in config["models"]:
        warmed = state / f"warm-{model['name']}"
        if not warmed.exists():
            if model.get("ready"):
                exchange(base, {"path": model["ready"], "timeout_seconds": model["timeout_seconds"]})
            if model.get("warmup"):
                warm(base, model)
            warmed.write_text("")
        for request in model["golden"]:
            golden(base, request)
    limit = config.get("memory_limit_mib")
    used = device_memory_mib() if limit is not None else None
    if limit is not None and used is not None and used > limit:
        raise NotYet(f"after warm-up the device holds {used} MiB, the envelope allows {limit} MiB")


def ready(config: Json, state: Path) -> None:
    for model in config["models"]:
        try:
            golden(config["base"], model["golden"][0])
        except Busy as busy:
            if not progress(config, state, "ready"):
                raise NotYet(f"{model['name']}: {busy}; and nothing was finished since the last probe") from None
        except NotYet as wrong:
            raise NotYet(f"{model['name']}: {wrong}") from None


def live(config: Json, state: Path) -> None:
    for model in config["models"]:
        try:
            exchange(config["base"], model["golden"][0])
        except NotYet as silent:
            if not progress(config, state, "live"):
                raise NotYet(f"{model['name']}: {silent}; and nothing was finished since the last probe") from None


MODES = {"startup": startup, "ready": ready, "live": live}


def main(arguments: "list[str]") -> int:
    mode, path = arguments
    config = json.loads(Path(path).read_text())
    state = Path(config["state"])
    try:
        state.mkdir(parents=True, exist_ok=True)
        MODES[mode](config, state)
    except NotYet as reason:
        print(f"{mode}: {reason}")  # noqa: T201  (the kubelet shows it as the event's text)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
