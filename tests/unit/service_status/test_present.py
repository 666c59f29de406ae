"""What each version of a service does now, from series as the platform records them."""

from collections.abc import Mapping, Sequence
from math import nan

from headway.service_status.present import PresentFigures, asked

MESH = {"request_rate": 55.0, "error_ratio": 0.01, "latency:p99": 0.148}
SERVER = {"queue_time": 0.012, "compute_time": 0.12}


def recorded(release: str, values: Mapping[str, float]) -> list[tuple[Mapping[str, str], float]]:
    return [({"__name__": f"headway:{name}", "release": release}, value) for name, value in values.items()]


Answer = Sequence[tuple[Mapping[str, str], float]]


def answering(mesh: Answer, server: Answer = (), refused: Answer = ()) -> tuple[PresentFigures, ...]:
    def ask(query: str) -> Answer:
        return refused if "istio_requests_total" in query else mesh if 'source="mesh"' in query else server

    return asked(ask, "vision", "defects")


def test_a_version_has_its_rate_failures_latency_and_where_time_goes() -> None:
    (found,) = answering(recorded("r1", MESH), recorded("r1", SERVER))
    assert found == PresentFigures(release="r1", rate=55.0, errors=0.01, p99=0.148, queue=0.012, compute=0.12)


def test_versions_that_nobody_asks_now_are_left_out() -> None:
    mesh = [*recorded("r2", MESH), *recorded("r1", {"request_rate": 0.0, "latency:p99": nan}), *recorded("r0", {"error_ratio": 0.0})]
    assert [each.release for each in answering(mesh)] == ["r2"]


def test_what_nobody_measures_or_is_no_number_is_unknown() -> None:
    (found,) = answering(recorded("r1", {"request_rate": 5.0, "latency:p99": nan}))
    assert (found.errors, found.p99, found.queue, found.compute) == (None, None, None, None)


def test_what_the_gateway_refuses_is_told_by_code_though_nothing_else_is_asked() -> None:
    def of(code: str, value: float) -> tuple[Mapping[str, str], float]:
        return {"destination_service_name": "defects-r1", "response_code": code}, value

    (found,) = answering(recorded("r1", {"request_rate": 0.0}), refused=[of("429", 2.0), of("401", 30.0)])
    assert found == PresentFigures(release="r1", rate=0.0, refused=(("401", 30.0), ("429", 2.0)))
