"""Asks a model server for an answer whose value is known, and says by its exit status whether the answer was right.

Runs inside the serving container, from a ConfigMap, on the standard library alone: `python3 probe.py startup|ready|live CONFIG`.
What the modes mean:

- startup: every model reports ready, has answered its warm-up at the declared maximum within the budget and with device memory to spare,
  and answers every golden request correctly. It works for one slice of time and goes on where the last slice ended.
- ready: the driver asks for no recovery of any of its GPUs, as it does after a fatal Xid, and the first golden request is answered
  correctly. A server that is busy (timeout, 429, 503) stays ready while it finishes work: taking it out would only move its load to others.
- live: something is answered, or work is finished. A wrong answer is no reason to restart; readiness withdraws it from traffic.

The trap this exists for: a server whose model process is dead answers 200 on all its health endpoints and 500 on every inference.
"""

import http.client
import json
import math
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

BUSY = (429, 503)
PAUSE_SECONDS = 1.0
DRIVER_SECONDS = 3
"""A driver that hangs is asked again at the next probe; the server's own answer then decides."""
ACTIONS = ("Reset", "Reboot", "Drain P2P", "Drain and Reset")
PERCENTILE = 0.99
PROVEN = "proven"
"""A file beside the memories: this server has passed its startup probe. Whoever starts the next one takes it away (`fate.py`)."""

Json = Any


class NotYet(Exception):  # noqa: N818  (a state, not a defect: the kubelet asks again)
    """The probe fails now; the text says why."""


class Busy(NotYet):
    """The server turned the request away or did not answer in time: not wrong, not right."""


class Wrong(NotYet):
    """The server answered, and not what it should."""


LARGEST_ANSWER = 256 * 2**20
LARGEST_JSON, LARGEST_TEXT = 64 * 2**20, 16 * 2**20
MOST_VALUES = 3_000_000
"""Commas and brackets of an answer that is read as JSON: what it takes in memory follows these, and not its bytes."""
DEEPEST = 64
LARGEST_PAGE = 16 * 2**20
"""Bytes of a page of metrics."""


# Asking ---------------------------------------------------------------------------------------------------------------------------------


def over_grpc(base: str, request: Json) -> Json:
    """The answer of a server that speaks gRPC only, by the script beside this one; `model` is asked unless the body names another."""
    import importlib.util

    place = importlib.util.spec_from_file_location("inference", Path(__file__).with_name("inference.py"))
    inference: Any = importlib.util.module_from_spec(place)  # pyright: ignore[reportArgumentType]
    place.loader.exec_module(inference)  # pyright: ignore[reportOptionalMemberAccess]
    host, _, port = base.partition("://")[2].partition(":")
    body = json.loads(Path(request["file"]).read_text()) if "file" in request else request["body"]
    try:
        return inference.exchange(host, int(port), {"model_name": request["model"], **body}, request["timeout_seconds"])
    except inference.Failed as failed:
        raise (Busy if failed.busy else NotYet)(str(failed)) from None
    except TimeoutError:
        raise Busy(f"{inference.METHOD} did not answer within {request['timeout_seconds']} s") from None
    except OSError as error:
        raise NotYet(f"{base} cannot be reached: {error}") from None


class Straight(urllib.request.HTTPRedirectHandler):
    """A server that sends its callers elsewhere is not obeyed."""

    def redirect_request(self, req: Json, fp: Json, code: Json, msg: Json, headers: Json, newurl: Json) -> None:
        return


# Nor is a proxy that some variable names: what is asked is in this pod or AWS, and credentials are for nobody between.
STRAIGHT = urllib.request.build_opener(Straight, urllib.request.ProxyHandler({}))


def exchange(base: str, request: Json) -> Json:
    """The answer to `request` as JSON, or as text where it is none. See `body_of` for the bodies."""
    if base.startswith("grpc://"):
        return over_grpc(base, request)
    data, headers = body_of(request)
    asked = urllib.request.Request(base + request["path"], data=data, headers=headers)  # noqa: S310
    try:
        _, raw = whole(asked, request["timeout_seconds"], LARGEST_ANSWER)
        if raw is None:
            raise NotYet(f"{request['path']} answered with more than {LARGEST_ANSWER} bytes")
    except urllib.error.HTTPError as error:
        try:
            said = error.read(300).decode(errors="replace").strip()
        except (OSError, http.client.HTTPException):
            said = ""
        reason = f"{request['path']} answered {error.code}: {said}"
        raise (Busy if error.code in BUSY else NotYet)(reason) from None
    except TimeoutError:
        raise Busy(f"{request['path']} did not answer within {request['timeout_seconds']} s") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        kind = Busy if isinstance(reason, TimeoutError) else NotYet
        raise kind(f"{request['path']} cannot be reached: {reason}") from None
    return read(raw)


def whole(asked: Json, seconds: float, most: int) -> "tuple[int, bytes | bytearray | None]":
    """Status, and all that a server answers within `seconds`, however slowly it drips; None for more than `most` bytes. Raises as urllib does."""
    until, content = time.monotonic() + seconds, bytearray()
    with STRAIGHT.open(asked, timeout=seconds) as answer:
        while len(content) <= most:
            piece = answer.read1(1 << 16)
            if not piece:
                return answer.status, content
            content += piece
            if time.monotonic() > until:
                raise TimeoutError
        return answer.status, None


def read(raw: "bytes | bytearray") -> Json:
    """An answer as JSON; as text where it is none, or where reading it would take more memory than a probe has."""
    if len(raw) <= LARGEST_JSON and sum(map(raw.count, (b",", b"[", b"{"))) <= MOST_VALUES:
        try:
            found = json.loads(raw.decode())
            if shallow(found):
                return found
        except (ValueError, RecursionError):
            pass
    return raw[:LARGEST_TEXT].decode(errors="replace")


def shallow(value: Json) -> bool:
    """Whether it is nested no deeper than judging it follows."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            part
            for outer in level
            if isinstance(outer, (dict, list))
            for part in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(part, (dict, list))
        ]
    return not level


def body_of(request: Json) -> "tuple[bytes | None, dict[str, str]]":
    """Body and headers: `body` as it stands or `file` of the artifact, `zeros` as tensors of zeros in binary form, `tokens` as a prompt of that many tokens.

    The last two are made here because a batch at maximum shape is larger than a ConfigMap may be. Binary tensor data is an extension of
    the Open Inference Protocol that Triton speaks; a string of length 0 is four zero bytes, so zeros are valid for every element type.
    """
    headers = {"content-type": "application/json"}
    if "zeros" in request:
        tensors = [
            {"name": t["name"], "shape": t["shape"], "datatype": t["datatype"], "parameters": {"binary_data_size": t["bytes"]}}
            for t in request["zeros"]
        ]
        head = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": True}}).encode()
        headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(len(head))}
        return head + bytes(sum(t["bytes"] for t in request["zeros"])), headers
    if "tokens" in request:
        return json.dumps({**request["body"], "prompt": [1] * request["tokens"]}).encode(), headers
    if "file" in request:
        return Path(request["file"]).read_bytes(), headers
    body = request.get("body")
    return (None if body is None else json.dumps(body).encode()), headers


# Judging --------------------------------------------------------------------------------------------------------------------------------


def at(answer: Json, pointer: str) -> Json:
    """The part of `answer` that a JSON Pointer (RFC 6901) names."""
    for raw in pointer.split("/")[1:]:
        step = raw.replace("~1", "/").replace("~0", "~")
        try:
            answer = answer[int(step)] if isinstance(answer, list) else answer[step]
        except (KeyError, IndexError, TypeError, ValueError):
            raise Wrong(f"the answer has nothing at {pointer!r}") from None
    return answer


def numbers(value: Json) -> "list[float]":
    """All numbers of a nested list, in order."""
    if isinstance(value, list):
        return [number for element in value for number in numbers(element)]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Wrong(f"the answer holds {str(value)[:80]!r} where a number is expected")
    try:
        return [float(value)]
    except OverflowError:
        raise Wrong("the answer holds a whole number that is larger than any float") from None


def near(found: Json, expect: Json) -> None:
    got, wanted = numbers(found), expect["value"]
    if len(got) != len(wanted):
        raise Wrong(f"the answer holds {len(got)} numbers, golden has {len(wanted)}")
    for index, (have, want) in enumerate(zip(got, wanted)):  # noqa: B905  (images with Python 3.8 know no `strict`)
        allowed = max(expect["absolute"], expect["relative"] * abs(want))
        if not abs(have - want) <= allowed:  # not "greater than": NaN must not pass
            raise Wrong(f"number {index} of the answer is {have!r}, golden is {want!r} within {allowed!r}")


def top(found: Json, expect: Json) -> None:
    got = numbers(found)
    if any(math.isnan(number) for number in got) or not got or got.index(max(got)) != expect["index"]:
        raise Wrong(f"the largest number of the answer is not at {expect['index']}")


def cosine(found: Json, expect: Json) -> None:
    got, wanted = numbers(found), expect["value"]
    if len(got) != len(wanted):
        raise Wrong(f"the answer holds {len(got)} numbers, golden has {len(wanted)}")
    lengths = math.sqrt(sum(a * a for a in got)) * math.sqrt(sum(b * b for b in wanted))
    similarity = sum(a * b for a, b in zip(got, wanted)) / lengths if lengths else 0.0  # noqa: B905
    if not similarity >= expect["at_least"]:
        raise Wrong(f"the answer's cosine similarity to golden is {similarity:.6f}, at least {expect['at_least']} is asked")


def exact(found: Json, expect: Json) -> None:
    if found != expect["value"] or isinstance(found, bool) is not isinstance(expect["value"], bool):
        raise Wrong(f"the answer is {str(found)[:200]!r}, golden is {str(expect['value'])[:200]!r}")


def contains(found: Json, expect: Json) -> None:
    for part in expect["parts"]:
        if part.casefold() not in str(found).casefold():
            raise Wrong(f"the answer does not contain {part!r}")


def schema(found: Json, expect: Json) -> None:
    conforms(found, expect["document"], "")


TYPES: "dict[str, Any]" = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": str,
}
SCHEMA_KEYWORDS = frozenset(
    [
        "type",
        "const",
        "enum",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
        "$schema",
        "$id",
        "title",
        "description",
    ]
)
"""What `conforms` evaluates (or may skip, being annotation). Rendering refuses a contract whose schema uses any other."""


def conforms(found: Json, document: Json, where: str) -> None:
    """Raise Wrong unless `found` is valid by `document`, a JSON Schema of SCHEMA_KEYWORDS."""
    here = where or "/"
    kind = document.get("type")
    if kind is not None:
        kinds = kind if isinstance(kind, list) else [kind]
        fits = any(isinstance(found, TYPES[k]) and (k == "boolean" or not isinstance(found, bool)) for k in kinds)
        if not fits:
            raise Wrong(f"{here} is no {' or '.join(kinds)}")
    if "const" in document and found != document["const"]:
        raise Wrong(f"{here} is not {document['const']!r}")
    if "enum" in document and found not in document["enum"]:
        raise Wrong(f"{here} is none of {document['enum']!r}")
    if isinstance(found, dict):
        for name in document.get("required", []):
            if name not in found:
                raise Wrong(f"{here} lacks {name!r}")
        known = document.get("properties", {})
        for name, value in found.items():
            rest = document.get("additionalProperties", True)
            if name in known:
                conforms(value, known[name], f"{where}/{name}")
            elif rest is False:
                raise Wrong(f"{here} has {name!r}, which the schema does not know")
            elif isinstance(rest, dict):
                conforms(value, rest, f"{where}/{name}")
    if isinstance(found, list):
        bounds(len(found), document, "minItems", "maxItems", f"{here} has as many items as")
        for index, value in enumerate(found if "items" in document else []):
            conforms(value, document["items"], f"{where}/{index}")
    if isinstance(found, str):
        bounds(len(found), document, "minLength", "maxLength", f"{here} is as long as")
        if "pattern" in document and not re.search(document["pattern"], found):
            raise Wrong(f"{here} does not match {document['pattern']!r}")
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        bounds(found, document, "minimum", "maximum", f"{here} is")


def bounds(value: float, document: Json, low: str, high: str, what: str) -> None:
    if low in document and not value >= document[low]:
        raise Wrong(f"{what} {value}, at least {document[low]} is asked")
    if high in document and not value <= document[high]:
        raise Wrong(f"{what} {value}, at most {document[high]} is allowed")


COMPARISONS = {"exact": exact, "near": near, "top": top, "cosine": cosine, "contains": contains, "schema": schema}


def golden(base: str, request: Json) -> None:
    """One golden request: answered, and rightly."""
    answer = exchange(base, request)
    try:
        COMPARISONS[request["expect"]["compare"]](at(answer, request["answer"]), request["expect"])
    except Wrong as wrong:
        raise Wrong(f"golden request {request['name']}: {wrong}") from None


# Remembering ----------------------------------------------------------------------------------------------------------------------------


def instance() -> str:
    """Tells one start of this container from the next: both see the same state folder, and only the first was warmed up."""
    try:
        return Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


class Memory:
    """Small facts between two runs of this script, as files of the pod's scratch volume."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / instance()
        self.folder.mkdir(parents=True, exist_ok=True)

    def recall(self, key: str, default: Json) -> Json:
        try:
            return json.loads((self.folder / key).read_text())
        except (OSError, ValueError):
            return default

    def keep(self, key: str, value: Json) -> None:
        partial = self.folder / f"{key}.{time.monotonic_ns()}"
        partial.write_text(json.dumps(value))
        partial.replace(self.folder / key)


def last_progress(config: Json, memory: Memory, mode: str, now: float) -> "tuple[bool, float]":
    """Whether the server's counters of finished work moved since `mode` last looked, and how many seconds ago they last did."""
    try:
        _, page = whole(config["progress"]["url"], config["progress"]["timeout_seconds"], LARGEST_PAGE)
        lines = (page or b"").decode(errors="replace").splitlines()
        names = tuple(config["progress"]["counters"])
        total = sum(float(line.rsplit(None, 1)[1]) for line in lines if re.split(r"[{\s]", line, maxsplit=1)[0] in names)
    except (OSError, ValueError, IndexError, http.client.HTTPException):
        total = None
    before = memory.recall(f"progress-{mode}", {"total": 0.0, "moved": now})
    moved = total is not None and total > before["total"]
    memory.keep(f"progress-{mode}", {"total": before["total"] if total is None else total, "moved": now if moved else before["moved"]})
    return moved, 0.0 if moved else now - before["moved"]


# The three questions --------------------------------------------------------------------------------------------------------------------


def devices(field: str) -> "list[str]":
    """What the driver says of each visible device; nothing where none answers (simulated nodes, CPU builds)."""
    query = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, timeout=DRIVER_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def device_memory_mib() -> "list[int]":
    """Memory in use on each visible device that tells it; a MIG instance does not."""
    return [int(line) for line in devices("memory.used") if line.isdigit()]


def recovery_wanted() -> "list[str]":
    """What the driver asks to be done to each device whose fault it cannot handle: Reset, Reboot, Drain P2P, Drain and Reset.

    It asks after a fatal Xid, from driver 570 on; older ones answer that they do not know the question, which says nothing.
    """
    return [line for line in devices("gpu_recovery_action") if line in ACTIONS]


def warm(config: Json, plan: Json, memory: Memory, deadline: float) -> None:
    """Send what is left of the warm-up before `deadline`; the 99th percentile of the last half must stay within the budget."""
    key = f"warm-{plan['name']}"
    seconds = memory.recall(key, [])
    while len(seconds) < plan["requests"]:
        if time.monotonic() > deadline:
            raise NotYet(f"{plan['name']}: {len(seconds)} of {plan['requests']} warm-up requests done")
        began = time.monotonic()
        exchange(config["base"], plan["request"])
        seconds.append(time.monotonic() - began)
        memory.keep(key, seconds)
    measured = sorted(seconds[len(seconds) // 2 :])
    slowest = measured[max(0, math.ceil(PERCENTILE * len(measured)) - 1)]
    if slowest > plan["budget_seconds"]:
        memory.keep(key, [])
        raise NotYet(
            f"{plan['name']}: warm-up at maximum shape took {slowest:.3f} s at p99, the contract allows {plan['budget_seconds']} s"
        )


def startup_once(config: Json, memory: Memory, deadline: float) -> None:
    for path in config["ready"]:
        exchange(config["base"], {"path": path, "timeout_seconds": config["timeout_seconds"]})
    try:
        prove(config, memory, deadline)
    except Busy:
        raise
    except NotYet as reason:
        remember_failure(config, memory, str(reason))
        raise


def remember_failure(config: Json, memory: Memory, why: str) -> None:
    """Count how often in a row a server that says it is ready did not prove it; a warm-up that gets on begins the count anew.

    For whoever waits for this replica: waiting does not change such an answer.
    """
    done = sum(len(memory.recall(f"warm-{plan['name']}", [])) for plan in config["warmup"])
    before = memory.recall("failing", {"done": -1, "times": 0})
    memory.keep("failing", {"done": done, "times": before["times"] + 1 if done == before["done"] else 1, "why": why})


def prove(config: Json, memory: Memory, deadline: float) -> None:
    """Warm-up, memory and golden answers."""
    for plan in config["warmup"]:
        warm(config, plan, memory, deadline)
    limit = config["memory_limit_mib"]
    used = device_memory_mib() if limit is not None else []
    if limit is not None and used and max(used) > limit:
        raise NotYet(f"after warm-up a device holds {max(used)} MiB; the envelope less its headroom is {limit} MiB")
    for request in config["golden"]:
        golden(config["base"], request)


def startup(config: Json, memory: Memory) -> None:
    deadline = time.monotonic() + config["slice_seconds"]
    while True:
        try:
            startup_once(config, memory, deadline)
            Path(config["state"], PROVEN).touch()
            return
        except NotYet:
            if time.monotonic() + PAUSE_SECONDS > deadline:
                raise
        time.sleep(PAUSE_SECONDS)


def ask(config: Json, memory: Memory, now: float) -> "tuple[str, str]":
    """(right|wrong|busy|failed, why) of the first golden request; a fresh answer to the other mode counts, so that it is asked once."""
    last = memory.recall("asked", {"at": 0.0, "outcome": "", "why": ""})
    if last["outcome"] and 0 <= now - last["at"] < config["fresh_seconds"]:
        return last["outcome"], last["why"]
    outcome, why = "right", ""
    try:
        golden(config["base"], config["golden"][0])
    except Wrong as reason:
        outcome, why = "wrong", str(reason)
    except Busy as reason:
        outcome, why = "busy", str(reason)
    except NotYet as reason:
        outcome, why = "failed", str(reason)
    memory.keep("asked", {"at": now, "outcome": outcome, "why": why})
    return outcome, why


def ready(config: Json, memory: Memory) -> None:
    wanted = recovery_wanted()
    if wanted:
        raise NotYet(f"the driver asks to {wanted[0].lower()} a GPU of this replica: it has a fatal fault, whatever the server answers")
    now = time.time()
    outcome, why = ask(config, memory, now)
    moved, _ = last_progress(config, memory, "ready", now)
    if outcome in ("wrong", "failed") or (outcome == "busy" and not moved):
        raise NotYet(why if outcome != "busy" else f"{why}; and nothing was finished since the last probe")


def live(config: Json, memory: Memory) -> None:
    now = time.time()
    outcome, why = ask(config, memory, now)
    moved, still_seconds = last_progress(config, memory, "live", now)
    if outcome in ("right", "wrong") or moved:
        return
    if outcome == "failed" or still_seconds >= config["no_progress_seconds"]:
        raise NotYet(f"{why}; and nothing was finished for {still_seconds:.0f} s")


MODES = {"startup": startup, "ready": ready, "live": live}


def main(arguments: "list[str]") -> int:
    mode, path = arguments
    config = json.loads(Path(path).read_text())
    try:
        MODES[mode](config, Memory(Path(config["state"])))
    except NotYet as reason:
        print(f"{mode}: {reason}")  # noqa: T201  (the kubelet shows it as the event's text)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
