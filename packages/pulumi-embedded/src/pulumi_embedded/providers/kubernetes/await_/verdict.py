"""What a judge answers, and what it may look at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

POD = ObjectKind("", "v1", "Pod")
EVENT = ObjectKind("", "v1", "Event")


class ReadinessState(StrEnum):
    """Where an object stands on its way to ready."""

    READY = "ready"
    WAITING = "waiting"
    SETTLING = "settling"
    """Ready if it stays as it is for `SETTLE_SECONDS`, and for whoever looks only once."""
    FAILED = "failed"
    """It will not become ready by itself."""


@dataclass(frozen=True, slots=True)
class ReadinessVerdict:
    """`text` says what is missing, or what went wrong; empty when ready. `version` tells a settling state from the next."""

    state: ReadinessState
    text: str = ""
    version: str = ""

    @property
    def holds(self) -> bool:
        """Whether nothing is missing now."""
        return self.state in (ReadinessState.READY, ReadinessState.SETTLING)


SETTLE_SECONDS = 10.0
"""Seconds that the endpoints of a Service must stay unchanged (pulumi-kubernetes, provider/pkg/await/service.go)."""
READY = ReadinessVerdict(ReadinessState.READY)


def waiting(text: str) -> ReadinessVerdict:
    return ReadinessVerdict(ReadinessState.WAITING, text)


def settling(text: str, version: str) -> ReadinessVerdict:
    return ReadinessVerdict(ReadinessState.SETTLING, text, version)


def failed(text: str) -> ReadinessVerdict:
    return ReadinessVerdict(ReadinessState.FAILED, text)


class Lookup(Protocol):
    """The cluster as a judge sees it."""

    def get(self, kind: ObjectKind, namespace: str, name: str) -> Properties | None: ...

    def find(self, kind: ObjectKind, namespace: str = "", *, labels: str = "", fields: str = "") -> Sequence[Properties]: ...

    def serves(self, group: str, version: str) -> bool: ...


Judge = Callable[[Properties, Lookup], ReadinessVerdict]


def at(value: Any, *keys: str) -> Any:
    """The nested value, or None."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def condition(live: Properties, type: str) -> Properties:
    """The status condition of that type; empty when it is not there."""
    for found in at(live, "status", "conditions") or ():
        if found.get("type") == type:
            return found
    return {}


def said(found: Properties) -> str:
    """A condition's or event's message with its reason."""
    reason, message = found.get("reason", ""), str(found.get("message", "")).strip()
    return f"{reason}: {message}" if reason and message else reason or message


def selector(spec: Any) -> str:
    """A LabelSelector object in the query's spelling."""
    terms = [f"{key}={value}" for key, value in sorted((at(spec, "matchLabels") or {}).items())]
    for term in at(spec, "matchExpressions") or ():
        key, values = term["key"], f"({','.join(term.get('values') or ())})"
        terms.append(
            {"In": f"{key} in {values}", "NotIn": f"{key} notin {values}", "Exists": key, "DoesNotExist": f"!{key}"}[term["operator"]]
        )
    return ",".join(terms)


def last_warning(live: Properties, look: Lookup) -> str:
    """The latest warning event about the object, or nothing."""
    fields = f"involvedObject.uid={at(live, 'metadata', 'uid')},type=Warning"
    events = look.find(EVENT, at(live, "metadata", "namespace") or "default", fields=fields)
    latest = max(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), default=None)
    return said(latest) if latest else ""
