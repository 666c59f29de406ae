"""What a measure is: one question to Prometheus, with its unit and what its series are told apart by; and how most of them are asked."""

from dataclasses import dataclass
from enum import StrEnum

NEVER_ZERO = "1e-9"
"""Of a divisor; 0 by it is 0."""


class FigureUnit(StrEnum):
    """In which a measure is told."""

    PER_SECOND = "/s"
    SECONDS = "s"
    SHARE = "share"
    BYTES = "bytes"
    TOKENS = "tokens"
    COUNT = ""
    MEGAHERTZ = "MHz"


class Sight(StrEnum):
    """What one series of a measure is about: its label is what tells them apart."""

    SERVICE = ""
    POD = "pod"
    GPU = "UUID"
    NODE = "node"
    NEIGHBOUR = "neighbour"
    """Another pod on a node of the service, as namespace and name; one of another namespace has a number instead (`other_tenants`)."""
    GROUP = "node_group"
    """A group of nodes that the autoscaler scales."""


ANSWERED = 'response_code=~"0|2..|504"'
"""What callers got an answer to, left before, or waited for in vain: 504 is what the proxy says when a route's time has passed (Envoy,
`source/common/router/router.cc`, `timeout_response_code_`), so it comes last of all. Who is refused or told of another error hears so at once:
their times in the mean, an hour in which half of all fail would look fast, and its end slow."""

HOST = "Hostname"
"""The label by which DCGM's exporter names a GPU's node."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """`query` holds $gateway, $named, $replicas, $pods, $containers, $scalers, $scaled, $devices (label matchers of the service there), $others
    (of other tenants), $by and $window."""

    name: str
    says: str
    """Its name among people, as in "requests 41/s before, 80/s since"."""
    unit: FigureUnit
    query: str
    sight: Sight = Sight.SERVICE


def measure(name: str, says: str, unit: FigureUnit, query: str, sight: Sight = Sight.SERVICE) -> Measure:
    return Measure(name=name, says=says, unit=unit, query=query, sight=sight)


def share(of: str, flags: str) -> str:
    """Of the mesh's requests with the labels `of`, the share that has `flags` too; 0 where none has."""
    counted = f"sum(rate(istio_requests_total{{{of},{flags}}}[$window]) or 0 * rate(istio_requests_total{{{of}}}[$window]))"
    return f"{counted} / clamp_min(sum(rate(istio_requests_total{{{of}}}[$window])), {NEVER_ZERO})"


def mean(total: str, count: str, scale: str = "", where: str = "$pods") -> str:
    """Of a sum and a count, what one has; nothing where there was none."""
    return f"sum $by (rate({total}{{{where}}}[$window])){scale} / (sum $by (rate({count}{{{where}}}[$window])) > 0)"
