"""Keeps secrets out of texts that others wrote: a provider's error may quote a password, a program may print one.

A secret document, such as a kubeconfig, is more than its credentials: its type (`kind: Config`) is no secret, and must not blot out the words
of others. So what a credential's key holds is searched for anywhere, and a line of a document as a whole only.
"""

import contextlib
import json
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pulumi_embedded.engine.model import Events, PolicyEvent, Severity, StepEvent
from pulumi_embedded.engine.values import MASK, SECRET, SIGNATURE

SHORTEST: Final = 4
"""Shorter secrets are not searched for: masking every `1` or `yes` would make texts unreadable and tell which value is secret."""

TYPE_META: Final = frozenset({"apiVersion", "kind"})
"""What Kubernetes calls the type of any object, in whatever secret it stands (TypeMeta of k8s.io/apimachinery)."""
_CREDENTIAL: Final = re.compile(r"""(?:token|password|secret|key|key-data)["']?\s*:\s*["']?([^\s"',{}]{8,})""", re.IGNORECASE)
"""Key and value of a credential in YAML or JSON: `token`, `password` and `client-key-data` are those of a kubeconfig that client-go tags
with a datapolicy (tools/clientcmd/api/v1/types.go), the others those that people choose."""


class Redactor:
    """Implements model.Events: hands everything on, with the secrets it has met replaced in every text."""

    def __init__(self, sink: Events, secrets: Iterable[str] = ()) -> None:
        self._sink = sink
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._ordered: tuple[str, ...] = ()
        self._lines: dict[str, re.Pattern[str]] = {}
        self._unread: deque[StepEvent] = deque()
        self._learn(secrets)

    def clean(self, text: str) -> str:
        # Steps are searched for secrets only when a text comes along: most runs have few texts and thousands of steps.
        while self._unread:
            with contextlib.suppress(IndexError):
                self._meet(self._unread.popleft())
        for secret in self._ordered:
            if secret in text:
                text = text.replace(secret, MASK)
        for line, alone in tuple(self._lines.items()):
            if line in text:
                text = alone.sub(MASK, text)
        return text

    def started(self, step: StepEvent) -> None:
        self._unread.append(step)
        self._sink.started(step)

    def finished(self, step: StepEvent) -> None:
        self._unread.append(step)
        self._sink.finished(step)

    def failed(self, step: StepEvent) -> None:
        self._unread.append(step)
        self._sink.failed(step)

    def status(self, urn: str, message: str) -> None:
        self._sink.status(urn, self.clean(message))

    def diagnostic(self, severity: Severity, message: str, urn: str = "", *, ephemeral: bool = False, stream: int = 0) -> None:
        self._sink.diagnostic(severity, self.clean(message), urn, ephemeral=ephemeral, stream=stream)

    def policy(self, event: PolicyEvent) -> None:
        cleaned = self.clean(event.message)
        self._sink.policy(
            PolicyEvent(urn=event.urn, policy=event.policy, pack=event.pack, version=event.version, level=event.level, message=cleaned)
        )

    def _meet(self, step: StepEvent) -> None:
        found: set[str] = set()
        for resource in (step.old, step.new):
            if resource is not None:
                _collect(resource.inputs, found)
                _collect(resource.outputs, found)
        self._learn(found)

    def _learn(self, secrets: Iterable[str]) -> None:
        known = set(secrets)
        found = known | {value for secret in known for value in _CREDENTIAL.findall(secret)}
        new = {form for secret in found if len(secret) >= SHORTEST for form in (secret, json.dumps(secret)[1:-1])}
        lines = {form for secret in known for line in _lines(secret) for form in (line, json.dumps(line)[1:-1])}
        if new - self._known or lines - self._lines.keys():
            with self._lock:
                self._known |= new
                self._ordered = tuple(sorted(self._known, key=lambda secret: (-len(secret), secret)))
                self._lines = {**self._lines, **{line: re.compile(rf"(?<!\w){re.escape(line)}(?!\w)") for line in lines}}


def _lines(secret: str) -> Iterator[str]:
    """What may be quoted of a secret of several lines, without the words that say what it is."""
    whole = secret.strip().splitlines()
    for line in map(str.strip, whole if len(whole) > 1 else ()):
        if len(line) > 2 * SHORTEST and line.partition(":")[0].strip("\"'- ") not in TYPE_META:
            yield line


def _collect(value: Any, found: set[str], *, inside: bool = False) -> None:
    if isinstance(value, dict):
        if value.get(SIGNATURE) == SECRET:
            _collect(value.get("value"), found, inside=True)
        else:
            for key, inner in value.items():
                if not (inside and key in TYPE_META):
                    _collect(inner, found, inside=inside)
    elif isinstance(value, list):
        for inner in value:
            _collect(inner, found, inside=inside)
    elif inside and isinstance(value, str):
        found.add(value)
