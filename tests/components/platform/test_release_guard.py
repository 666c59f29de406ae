"""The dead man's switch as the platform deploys it: only with an image, with the rights that it uses, started as the
command allows.
"""

import copy
import json
import shlex
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from components.platform import release_guard
from components.platform.namespaces import NAMESPACES, PodSecurity
from headway.cli.main import app
from headway.release import guard
from headway.wire import RELEASE_GUARD_LEASE, SAFE_RELEASE, WATCHED_UNTIL

IMAGE = "registry.example.com/headway@sha256:" + "ab" * 32
FOUND = {manifest.role: manifest.body for manifest in release_guard.manifests(IMAGE)}
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NAMES = st.sampled_from(["http", "name", "weights", "split", "route", "match", "headers", "destination", "weight", "mirror"]) | st.text()


class Recorder:
    """An API server that remembers what was asked, as an authoriser sees it: verb, group, resource, name."""

    def now(self) -> datetime:
        return NOW

    def __init__(self) -> None:
        self.asked: set[tuple[str, str, str, str | None]] = set()

    def items(self, path: str) -> list[dict[str, Any]]:
        self._saw("list", path)
        return [{"metadata": {"name": "vision"}}]

    def each(self, path: str, **_: Any) -> Iterator[dict[str, Any]]:
        self._saw("list", path)
        arms = [
            {"destination": {"host": f"d-{r}"}, "headers": {"response": {"set": {"x-model-release": r}}}, "weight": w}
            for r, w in (("r1", 90), ("r2", 10))
        ]
        notes = {WATCHED_UNTIL: "2026-11-21T11:00:00Z", SAFE_RELEASE: "r1"}
        head = {"name": "defects", "namespace": "vision", "annotations": notes}
        yield {"metadata": head, "spec": {"http": [{"name": "weights", "route": arms}]}}

    def request(self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str) -> None:
        self._saw({"PATCH": "patch"}[method], path)

    def _saw(self, verb: str, path: str) -> None:
        parts = path.partition("?")[0].strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        rest = rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest
        self.asked.add((verb, group, rest[0], rest[1] if len(rest) > 1 else None))


def allowed(verb: str, group: str, resource: str, name: str | None) -> bool:
    return any(
        verb in rule["verbs"]
        and group in rule["apiGroups"]
        and resource in rule["resources"]
        and ("resourceNames" not in rule or name in rule["resourceNames"])
        for rule in FOUND["rights"]["rules"]
    )


def test_the_guard_may_do_all_that_it_does_and_touch_no_other_lease() -> None:
    api: Any = Recorder()
    assert guard.tenants(api) == ("vision",)
    assert guard.ReleaseGuard(api, "vision", "test", lambda: NOW, lambda: 0.0).look().taken == ("defects",)
    assert {("patch", "networking.istio.io", "virtualservices", "defects"), ("list", "", "namespaces", None)} <= api.asked
    assert all(allowed(*one) for one in api.asked)
    assert not allowed("patch", "coordination.k8s.io", "leases", "node-health")
    assert not any(allowed(verb, "", "secrets", None) for verb in ("get", "list", "create"))
    assert not any("*" in rule[key] for rule in FOUND["rights"]["rules"] for key in ("verbs", "resources", "apiGroups"))


def test_the_guard_renews_the_lease_without_which_no_release_begins() -> None:
    assert allowed("patch", "coordination.k8s.io", "leases", RELEASE_GUARD_LEASE)


def test_what_the_guard_writes_is_a_lease_that_says_who_guards() -> None:
    class Server(Recorder):
        def request(self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str) -> None:
            if "/leases/" in path:
                self.said = (method, path, query, content_type, body)

        def each(self, path: str, **_: Any) -> Iterator[dict[str, Any]]:
            yield from ()

        def get(self, path: str) -> dict[str, Any]:
            assert path == self.said[1]
            return self.said[-1]

    api: Any = Server()
    assert guard.ReleaseGuard(api, "vision", "me", lambda: NOW, lambda: 0.0).look() == guard.GuardLook((), ())
    path = "/apis/coordination.k8s.io/v1/namespaces/vision/leases/headway-release-guard"
    # Server-side apply takes a lease over from whoever wrote it by hand.
    assert api.said[:4] == ("PATCH", path, {"fieldManager": "headway-release", "force": "true"}, "application/apply-patch+yaml")
    lease = api.said[4]
    assert (lease["apiVersion"], lease["kind"], lease["metadata"]) == (
        "coordination.k8s.io/v1",
        "Lease",
        {"name": "headway-release-guard", "namespace": "vision"},
    )
    assert lease["spec"] == {"holderIdentity": "me", "leaseDurationSeconds": 60, "renewTime": "2026-11-21T12:00:00.000000Z"}
    assert guard.guarded(api, "vision", NOW + timedelta(seconds=59)) == "me"
    assert guard.guarded(api, "vision", NOW + timedelta(seconds=60)) is None


def test_one_tenant_that_cannot_be_looked_at_leaves_no_other_unguarded() -> None:
    from headway.cli.release_guard import look
    from headway.environment.port import OutOfReachError

    class Torn(Recorder):
        def items(self, path: str) -> list[dict[str, Any]]:
            return [{"metadata": {"name": name}} for name in ("assist", "vision")]

        def each(self, path: str, **_: Any) -> Iterator[dict[str, Any]]:
            if "/assist/" in path:
                raise OutOfReachError("HTTP 503")
            return super().each(path)

    said: list[str] = []
    api: Any = Torn()
    assert look(api, None, said.append), "else its probe would end the guard of those who answer"
    assert [line.partition(":")[0] for line in said] == ["vision/defects"]


@given(odd=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda of: st.lists(of) | st.dictionaries(NAMES, of)))
def test_whatever_stands_in_one_route_the_others_are_guarded(odd: Any) -> None:
    class Odd(Recorder):
        def each(self, path: str, **_: Any) -> Iterator[dict[str, Any]]:
            first = {"metadata": {"name": "a", "annotations": {WATCHED_UNTIL: odd, SAFE_RELEASE: "r1"}}, "spec": odd}
            second = {"metadata": {"name": "b", "annotations": odd}, "spec": {"http": odd}}
            yield from (first, second, *super().each(path))

    api: Any = Odd()
    assert guard.ReleaseGuard(api, "vision", "test", lambda: NOW, lambda: 0.0).look().taken == ("defects",)


def test_a_route_with_a_weight_beyond_all_numbers_leaves_the_others_guarded() -> None:
    class Odd(Recorder):
        def each(self, path: str, **_: Any) -> Iterator[dict[str, Any]]:
            (good,) = super().each(path)
            odd = copy.deepcopy(good)
            odd["metadata"]["name"], odd["spec"]["http"][0]["route"][1]["weight"] = "a", float("inf")
            yield from (odd, good)

    api: Any = Odd()
    seen = guard.ReleaseGuard(api, "vision", "test", lambda: NOW, lambda: 0.0).look()
    assert seen.taken == ("defects",)
    assert [missed.partition(":")[0] for missed in seen.missed] == ["a"]


def test_a_tenant_with_routes_without_end_has_a_turn_and_no_longer() -> None:
    class Endless(Recorder):
        def each(self, path: str, **how: Any) -> Iterator[dict[str, Any]]:
            assert how["until"] == guard.TENANT_SECONDS and how["page"] * 2**20 * 3 / 2 < how["largest"] < 2**25, "it has 192 MiB of memory"
            while True:
                yield from super().each(path)

    ticks, api = count(), Endless()
    seen = guard.ReleaseGuard(cast(Any, api), "vision", "test", lambda: NOW, lambda: float(next(ticks))).look()
    assert len(seen.taken) == guard.TENANT_SECONDS and seen.missed == ("the other routes: after 10 s it is the next tenant's turn",)


@pytest.mark.parametrize("renewed", ["never", "2026-11-21T12:00:00", "9999-01-01T00:00:00Z", 7, None])
def test_a_lease_that_no_guard_writes_guards_nobody(renewed: Any) -> None:
    class Lease(Recorder):
        def get(self, path: str) -> dict[str, Any]:
            return {"spec": {"renewTime": renewed, "holderIdentity": "me", "leaseDurationSeconds": 10**9}}

    api: Any = Lease()
    assert guard.guarded(api, "vision", NOW) is None


def test_the_guards_container_is_started_with_options_that_the_command_knows() -> None:
    (container,) = FOUND["guard"]["spec"]["template"]["spec"]["containers"]
    shown = CliRunner().invoke(app, ["release", "guard", "--help"], env={"COLUMNS": "200"}).output
    assert container["args"][:2] == ["release", "guard"]
    assert all(option in shown for option in container["args"] if option.startswith("--"))
    assert container["image"] == IMAGE
    assert shlex.quote(release_guard.LOOKED) in container["livenessProbe"]["exec"]["command"]


def test_the_guard_outlives_a_node_and_needs_no_privilege() -> None:
    deployment = FOUND["guard"]["spec"]
    pod = deployment["template"]["spec"]
    assert deployment["replicas"] == 2 and deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert pod["topologySpreadConstraints"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
    (namespace,) = [each for each in NAMESPACES if each.name == FOUND["guard"]["metadata"]["namespace"]]
    assert namespace.level is PodSecurity.RESTRICTED
    assert json.dumps(FOUND["account"])
