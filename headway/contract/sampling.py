"""Samples of requests: what `data.sample` and `data.log_fields` of a contract let be kept, and the form in which it is kept. Pure.

A replica's own proxy writes one line of JSON for each request that is sampled (`components/model_service/sampling.py`); collectors mask what
looks like a secret or an address, and store it in the telemetry bucket below `prefix(...)`, in gzipped objects of such lines by minute. The
sandbox's proxy appends the same lines, unmasked, to `TENANT.MODEL.jsonl` in the folder `samples` of its logs.

What a reader can rely on:
- Nothing is kept without consent: a contract that names no field, or a share of zero, has no samples at all (`Data.sampled`).
- Whether a request is sampled is a function of its id alone (`chosen`), so every proxy that sees a request decides alike. A mirrored copy has
  the id of the request that it copies: the records of one id are the answer that a user got and the one that nobody saw.
- `request` and `response` are the bodies without every field that `log_fields` does not name. A contract that names all fields that its
  model needs (`request.inputs`) leaves requests that can be asked again; any other leaves requests that cannot.
- Bodies are kept whole or not at all: JSON of at most `BODY_BYTES`. Of gRPC, streams and larger bodies there is no `request` or `response`.

The trap: a sample is what somebody in the tenant's network wrote, masked (`****`) and perhaps lost on the way. Its absence proves nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headway.bounded_json import bounded_json
from headway.contract.units import Duration, Share

BODY_BYTES = 65_536
PREFIX = "samples"
KEPT_DAYS = (1, 3, 7, 14, 30, 60, 90, 180, 365)
"""For how long samples can be kept: each has a rule of the bucket's lifecycle. A retention between two is rounded down."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One request at one replica. `workload` is the replica's Deployment, which names release and arm; `time` is when it came (RFC 3339)."""

    request_id: str
    workload: str
    time: str
    mirrored: bool
    status: int
    request: Mapping[str, Any] | None
    response: Mapping[str, Any] | None


def chosen(request_id: str, share: Share) -> bool:
    """Whether a request is sampled: by the last eight hexadecimal digits of its id, which are uniform in the ids that proxies make."""
    digits = request_id[-8:]
    return re.fullmatch(r"[0-9A-Fa-f]{8}", digits) is not None and int(digits, 16) < threshold(share)


def threshold(share: Share) -> int:
    """The number below which those digits must be."""
    return round(share.fraction * 2**32)


def kept_days(retention: Duration) -> int:
    """How long samples are kept: the longest of `KEPT_DAYS` that is no longer than `retention`."""
    return max(days for days in KEPT_DAYS if days * 86_400 <= retention.whole_seconds)


def prefix(tenant: str, model: str, retention: Duration) -> str:
    """Where a model's samples lie in the telemetry bucket, with a closing slash; below it `%Y/%m/%d/%H/%M/`, in UTC."""
    return f"{PREFIX}/{place(tenant, model, retention)}/"


def place(tenant: str, model: str, retention: Duration) -> str:
    """The part of the prefix that is said of each request."""
    return f"{kept_days(retention)}d/{tenant}/{model}"


def samples(lines: Iterable[str]) -> Iterator[Sample]:
    """The records in `lines`; what is none is left out, for a line may have been cut off."""
    for line in lines:
        try:
            found = bounded_json(line)
            yield Sample(
                request_id=str(found["request_id"]),
                workload=str(found["workload"]),
                time=str(found["time"]),
                mirrored=bool(found["mirrored"]),
                status=int(found["status"]),
                request=_document(found.get("request")),
                response=_document(found.get("response")),
            )
        except (ValueError, KeyError, TypeError, OverflowError):
            continue


def part_at(body: Any, pointer: str) -> Any:
    """The part of a body that a JSON Pointer (RFC 6901) names. Raises LookupError where there is none."""
    for raw in pointer.split("/")[1:]:
        step = raw.replace("~1", "/").replace("~0", "~")
        try:
            body = body[int(step)] if isinstance(body, list) else body[step]
        except (KeyError, IndexError, TypeError, ValueError):
            raise LookupError(pointer) from None
    return body


def flat_numbers(value: Any) -> list[float] | None:
    """All numbers of a nested list, in order; None where something in it is no number, or larger than any."""
    if isinstance(value, list):
        parts = [flat_numbers(element) for element in value]
        return None if any(part is None for part in parts) else [number for part in parts for number in part or ()]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return [float(value)]
    except OverflowError:
        return None


def _document(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None
