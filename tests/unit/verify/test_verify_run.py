"""A verification keeps what each check saw and removes what it made, however it ends."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from headway.environment.api_answer import ApiAnswer
from headway.environment.port import OutOfReachError
from headway.problem import Exit, Problem, UserError
from headway.verify import attestation
from headway.verify.catalogue import CHECKS, VerifyCheck, chosen
from headway.verify.outcome import Sighting, VerifyResult, VerifyState, together
from headway.verify.probe import Probe
from headway.verify.run import run
from headway.verify.site import Site

WRONG = Problem(rule="x", fact="It is open", consequence="Somebody enters", remedy="Close it", subject="door")


@dataclass
class Cluster:
    """An API server of paths. What is created stays until its namespace is deleted, unless deletion is refused."""

    made: dict[str, Any] = field(default_factory=dict[str, Any])
    refuses: int = 0
    away: bool = False

    def answer(self, method: str, path: str, query: Any = None, body: Any = None, *_: Any) -> ApiAnswer:
        if self.away:
            raise OutOfReachError("ConnectTimeout")
        if method == "POST":
            self.made[f"{path}/{body['metadata']['name']}"] = body
            return ApiAnswer(status=201, content=json.dumps(body).encode())
        if method == "DELETE":
            if self.refuses:
                return ApiAnswer(status=self.refuses, content=b'{"message": "may not delete"}')
            self.made = {key: value for key, value in self.made.items() if not key.startswith(path)}
            return ApiAnswer(status=200, content=b"{}")
        return ApiAnswer(status=200 if path in self.made else 404, content=b"{}")

    def get(self, path: str) -> Any:
        return self.made.get(path)


def site(cluster: Cluster, image: str = "registry.test/headway@sha256:0") -> Site:
    now = iter(range(10_000))
    environment: Any = SimpleNamespace(kubernetes=cluster)
    return Site(
        environment=environment,
        namespace="headway-verify-1",
        began="2026-11-23T15:00:00Z",
        pools=(),
        clock=lambda: float(next(now)),
        sleep=lambda _: None,
        say=lambda _: None,
        image=image,
    )


def check(look: Callable[[Site], Sighting]) -> VerifyCheck:
    return VerifyCheck(name="it", says="it holds", minutes=1, look=look)


def result(look: Callable[[Site], Sighting], where: Site | None = None) -> VerifyResult:
    (found,) = run(where or site(Cluster()), [check(look)], lambda: datetime(2026, 11, 23, tzinfo=UTC), lambda _: None)
    return found


def raising(error: Exception) -> Callable[[Site], Sighting]:
    def look(_: Site) -> Sighting:
        raise error

    return look


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (Sighting(evidence=("a",)), VerifyState.PASSED),
        (Sighting(evidence=("a",), not_shown=("b",)), VerifyState.NOT_SHOWN),
        (Sighting(not_shown=("b",), unanswered=("c",)), VerifyState.UNANSWERED),
        (Sighting(evidence=("a",), unanswered=("c",), problems=(WRONG,)), VerifyState.FAILED),
        (Sighting(), VerifyState.NOTHING),
    ],
)
def test_only_what_was_wholly_seen_has_passed(seen: Sighting, state: VerifyState) -> None:
    assert seen.state is state
    assert together([seen, Sighting()]).state is state


@pytest.mark.parametrize("error", [OutOfReachError("HTTP 503"), UserError("No.", "So what.", "Do it."), KeyError("items")])
def test_a_check_that_cannot_go_on_concludes_nothing(error: Exception) -> None:
    assert result(raising(error)).state is VerifyState.UNANSWERED


def test_what_was_made_is_removed() -> None:
    cluster = Cluster()
    here = site(cluster)
    here.start([Probe(name="p", task="ask")])
    assert list(cluster.made) == ["/api/v1/namespaces/headway-verify-1", "/api/v1/namespaces/headway-verify-1/pods/p"]
    assert here.close() == ""
    assert cluster.made == {}


def test_nothing_is_removed_where_nothing_was_made() -> None:
    assert site(Cluster(away=True)).close() == ""


@pytest.mark.parametrize(("refuses", "away", "why"), [(403, False, "may not delete"), (0, True, "does not answer: ConnectTimeout")])
def test_what_cannot_be_removed_is_named_with_its_remedy(refuses: int, away: bool, why: str) -> None:
    cluster = Cluster(refuses=refuses)
    here = site(cluster)
    here.start([Probe(name="p", task="ask")])
    cluster.away = away
    left = here.close()
    assert why in left and "kubectl delete namespace headway-verify-1" in left


def test_a_probe_needs_an_image_and_says_where_it_comes_from() -> None:
    seen = result(lambda where: where.start([Probe(name="p", task="ask")]) or Sighting(), site(Cluster(), image=""))
    assert seen.state is VerifyState.UNANSWERED
    assert "--image" in seen.sighting.unanswered[0]


def record(*results: VerifyResult) -> dict[str, Any]:
    return attestation.document(
        environment="prod", actor="me", commit="c", began="2026-11-23T15:00:00Z", ended="2026-11-23T15:30:00Z", versions={}, results=results
    )


def test_an_attestation_that_was_changed_is_refused() -> None:
    whole = record(result(lambda _: Sighting(evidence=("a",), problems=(WRONG,))))
    assert attestation.read(json.dumps(whole).encode(), "f")["state"] == "failed"
    assert whole["checks"][0]["problems"][0]["remedy"] == "Close it"
    whole["state"] = "passed"
    with pytest.raises(UserError, match="is not as it was written"):
        attestation.read(json.dumps(whole).encode(), "f")
    with pytest.raises(UserError, match="is no verification"):
        attestation.read(b"{}", "f")


def test_the_worst_check_is_the_verdict() -> None:
    well, bad = result(lambda _: Sighting(evidence=("a",))), result(lambda _: Sighting(problems=(WRONG,)))
    assert record(well, bad)["state"] == "failed"
    assert record(well, result(lambda _: Sighting(not_shown=("b",))))["state"] == "not shown here"
    assert attestation.key("prod", "2026-11-23T15:00:00Z") == "verifications/prod/2026-11-23T150000Z.json"


def test_all_checks_together_take_an_hour_at_most() -> None:
    assert sum(each.minutes for each in CHECKS) <= 60
    assert [each.name for each in chosen(["mig", "scrapes"])] == ["scrapes", "mig"]
    with pytest.raises(UserError, match="There is no check speed") as refused:
        chosen(["speed"])
    assert refused.value.exit is Exit.USAGE
