"""What healthy means: how long a start may take, what warmup must prove, which answers are right, when a replica is stuck.

The trap: an open port and a 200 from a health page prove neither that the model is loaded nor that it answers; golden requests do.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from headway.contract.answer_schema import SCHEMA_KEYWORDS, unreadable
from headway.contract.part import Count, Name, Number, Part, between
from headway.contract.units import Duration, Share
from headway.problem import Problem, problem

LONGEST_DRAIN = Duration.parse("520s")
"""Node repair forces the end after ten minutes, and the cluster admits a grace period of nine: 20 s of it are a replica's leaving and its end
(`components/model_service/pod.py`)."""


class Warmup(Part):
    """Synthetic requests at the declared maximum, before a replica takes traffic."""

    requests: Annotated[Count, Field(le=10_000)]
    """How many requests are sent; the last half is measured."""
    p99: Annotated[Duration, between(Duration.parse("1ms"), Duration.parse("1h"))]
    """Largest latency of the measured half at its 99th percentile, at maximum shape."""
    memory_headroom: Annotated[Share, between(Share(0), Share.parse("50%"))] = Share.parse("5%")
    """Part of the envelope's GPU memory that must still be free after warmup."""


class Exact(Part):
    """The answer is this value."""

    compare: Literal["exact"]
    """`exact`: equal, to the letter and to the bit."""
    value: JsonValue
    """The correct answer."""


class Near(Part):
    """The answer is a number, or a list of numbers, within a tolerance."""

    compare: Literal["near"]
    """`near`: each number within `relative` of the expected one, or within `absolute`."""
    value: Annotated[tuple[Number, ...], Field(min_length=1, max_length=100_000)]
    """The correct numbers."""
    relative: Annotated[Number, Field(ge=0, le=1)] = 0.0
    """Largest relative difference."""
    absolute: Annotated[Number, Field(ge=0)] = 0.0
    """Largest absolute difference."""

    def violations(self) -> Iterator[Problem]:
        if not self.relative and not self.absolute:
            yield problem(
                "near-needs-a-tolerance",
                "relative",
                fact="no tolerance is given",
                consequence="GPUs do not repeat sums bit for bit, so correct answers would count as wrong",
                remedy="Give relative or absolute, or use compare: exact",
            )


class Top(Part):
    """The largest number of the answer is at this place: the label of a classifier."""

    compare: Literal["top"]
    """`top`: the index of the largest number."""
    index: Annotated[int, Field(strict=True, ge=0, le=10_000_000)]
    """The place of the largest number, counted from 0."""


class Cosine(Part):
    """The answer is a vector that points the same way."""

    compare: Literal["cosine"]
    """`cosine`: cosine similarity to the expected vector."""
    value: Annotated[tuple[Number, ...], Field(min_length=2, max_length=100_000)]
    """The correct vector."""
    at_least: Annotated[Number, Field(gt=0, le=1)]
    """Smallest similarity."""


class Contains(Part):
    """The answer is a text with these parts: for models that word the same answer differently."""

    compare: Literal["contains"]
    """`contains`: every part occurs, whatever the case."""
    parts: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...], Field(min_length=1, max_length=50)]
    """Texts that must occur."""


class SchemaMatch(Part):
    """The answer has a form, whatever its content."""

    compare: Literal["schema"]
    """`schema`: valid by a JSON Schema, in the part of it that the probes evaluate."""
    document: dict[str, JsonValue]
    """The schema."""

    def violations(self) -> Iterator[Problem]:
        for path, fact in unreadable(self.document):
            yield problem(
                "schema-can-be-evaluated",
                "document",
                *path,
                fact=fact,
                consequence="The probes could not judge the answer: a wrong answer could pass, or no replica could ever be ready",
                remedy=f"Use {', '.join(sorted(SCHEMA_KEYWORDS))} only, or another comparison",
            )


Expectation = Annotated[Exact | Near | Top | Cosine | Contains | SchemaMatch, Field(discriminator="compare")]


class Golden(Part):
    """A request with a known correct answer. Startup, liveness and the release gate use it."""

    name: Name
    """Its name in reports."""
    model: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")] | None = None
    """Which of the server's models it asks, of Triton's or of vLLM's adapters; may be left out when there is one, and for vLLM's base."""
    request: dict[str, JsonValue] | None = None
    """The request body, in the protocol of the runtime. Either this or `file`."""
    file: Annotated[str, Field(max_length=255)] | None = None
    """A JSON file of the artifact that holds the request body: for images and other large inputs."""
    answer: Annotated[str, Field(pattern=r"^(/([^/~]|~[01])*)*$", max_length=255, examples=["/outputs/0/data"])]
    """Where in the response body the answer is: a JSON Pointer (RFC 6901), such as `/outputs/0/data`."""
    expect: Expectation
    """What the answer must be."""

    def violations(self) -> Iterator[Problem]:
        if (self.request is None) == (self.file is None):
            yield problem(
                "golden-has-one-request",
                "request",
                fact="both request and file are given" if self.request is not None else "neither request nor file is given",
                consequence="It is not clear which request is to be sent",
                remedy="Write the request body under request, or name a JSON file of the artifact under file",
            )


class Liveness(Part):
    """When a running replica is declared stuck and restarted."""

    interval: Annotated[Duration, between(Duration.parse("5s"), Duration.parse("10m"))]
    """Time between two synthetic requests."""
    timeout: Annotated[Duration, between(Duration.parse("100ms"), Duration.parse("5m"))]
    """Longest time that one synthetic request may take."""
    failures: Annotated[Count, Field(ge=2, le=20)]
    """Failures in a row that lead to a restart; at least 2, because one slow answer is no proof."""
    no_progress: Annotated[Duration, between(Duration.parse("10s"), Duration.parse("1h"))]
    """The replica is stuck when requests wait and none has finished for this long, whatever the health page says."""


class Health(Part):
    """What healthy means for this model."""

    @property
    def valued(self) -> Golden | None:
        """The first golden request that is compared with a value, and so says how two answers are compared; None where all have a form only."""
        return next((golden for golden in self.golden if isinstance(golden.expect, Exact | Near | Top | Cosine)), None)

    startup_budget: Annotated[Duration, between(Duration.parse("10s"), Duration.parse("4h"))]
    """Longest time from pod start to ready: image, artifact, engine start, warmup. The startup probe gives up after it."""
    engine_start: Annotated[Duration, between(Duration.parse("1s"), Duration.parse("2h"))]
    """Measured time from process start to loaded model, with all files local; part of the start-up budget."""
    warmup: Warmup
    """What a replica must prove before it takes traffic."""
    golden: Annotated[tuple[Golden, ...], Field(min_length=1, max_length=100)]
    """Requests with known answers; the first one is also the liveness and readiness request."""
    liveness: Liveness
    """When a running replica counts as stuck."""
    drain: Annotated[Duration, between(Duration.parse("5s"), LONGEST_DRAIN)]
    """Time for running requests to finish after a replica has left rotation; the rest of 10 minutes, when node repair forces the end."""

    def violations(self) -> Iterator[Problem]:
        for name, times in Counter(golden.name for golden in self.golden).items():
            if times > 1:
                yield problem(
                    "golden-named-once",
                    "golden",
                    value=name,
                    fact=f"golden request {name} is named {times} times",
                    consequence="Reports could not say which one failed",
                    remedy="Give each its own name",
                )
        if self.liveness.timeout > self.liveness.interval:
            yield problem(
                "liveness-timeout-within-interval",
                "liveness",
                "timeout",
                value=self.liveness.timeout,
                fact=f"the timeout {self.liveness.timeout} is longer than the interval {self.liveness.interval}",
                consequence="Synthetic requests would pile up on a slow replica and slow it further",
                remedy=f"Use at most {self.liveness.interval}, or a longer interval",
            )
        if self.engine_start >= self.startup_budget:
            yield problem(
                "startup-budget-holds-the-engine",
                "startup_budget",
                value=self.startup_budget,
                fact=f"the engine's start alone takes {self.engine_start} of the start-up budget of {self.startup_budget}",
                consequence="The startup probe would kill every replica before it is ready, again and again",
                remedy="Raise startup_budget to hold image, artifact, engine start and warmup (`headway check --explain` lists them)",
            )
