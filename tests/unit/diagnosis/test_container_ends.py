"""How a model server ended, as its pod's status and events tell."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from components.model_service.scripts import probe
from headway.contract.runtime import Engine
from headway.diagnosis.container_ends import how_it_ended
from headway.diagnosis.facts import StateKind
from headway.diagnosis.states import NOTHING_FINISHED, states
from headway.wire import RUNTIME
from tests.unit.service_status.test_pending import container, pod

AT = datetime(2026, 11, 29, 1, 0, tzinfo=UTC).timestamp()
UNLOADED = """\
I1129 model_lifecycle.cc: loading: classifier:1
E1129 00:50:01.1 1 model_lifecycle.cc:654] "failed to load 'classifier' version 1: Internal: onnx runtime error 2: no opset 99"
error: creating server: Internal - failed to load all models
"""
"""As Triton prints it."""
NO_CACHE = """\
ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
"""As vLLM prints it."""
DEAD = "model process 71 (/models/classifier/1/model.py) has ended, and the server with it: it would answer 500 from now on\n"
"""As `fate.py` prints it."""


def _at(minute: int) -> str:
    return f"2026-11-29T00:{minute:02d}:00Z"


def ended(code: int, said: str = "", *, ready: int | None = None, engine: Engine = Engine.TRITON, name: str = "server") -> dict[str, Any]:
    """A pod whose server ran from minute 40 to 50. `ready`: the minute at which it last became so or ceased; None: now it is."""
    last = {"reason": "Error" if code else "Completed", "exitCode": code, "startedAt": _at(40), "finishedAt": _at(50), "message": said}
    conditions = [
        {"type": "Initialized", "status": "True", "lastTransitionTime": _at(5)},
        {"type": "Ready", "status": "True" if ready is None else "False", "lastTransitionTime": _at(ready or 55)},
    ]
    status = container(state={"running": {}}, restartCount=3, lastState={"terminated": last}) | {"name": name}
    found: dict[str, Any] = pod("p", on="n", conditions=conditions, containerStatuses=[status])
    found["metadata"]["labels"] = {RUNTIME: engine.value}
    return found


def how(found: dict[str, Any], *events: dict[str, Any]) -> tuple[StateKind, str]:
    return how_it_ended(found, found["status"]["containerStatuses"][0], events)


def killing(probe: str) -> dict[str, Any]:
    message = f"Container server failed {probe} probe, will be restarted"
    return {"involvedObject": {"name": "p"}, "message": message, "lastTimestamp": _at(50)}


@pytest.mark.parametrize(
    ("engine", "said", "why"),
    [
        (Engine.TRITON, UNLOADED, "failed to load 'classifier' version 1: Internal: onnx runtime error 2: no opset 99"),
        (Engine.VLLM, NO_CACHE, "ValueError: No available memory for the cache blocks"),
    ],
)
def test_a_server_that_cannot_load_its_model_says_why(engine: Engine, said: str, why: str) -> None:
    kind, words = how(ended(1, said, ready=4, engine=engine))
    assert kind is StateKind.LOAD_FAILED
    assert why in words


def test_a_server_that_was_ready_when_it_ended_had_loaded_its_model() -> None:
    assert how(ended(1, UNLOADED, ready=50))[0] is StateKind.ENDED


def test_a_server_that_is_ready_again_has_loaded_its_model() -> None:
    assert how(ended(1, UNLOADED))[0] is StateKind.ENDED


@pytest.mark.parametrize("code", [137, 143])
def test_a_server_that_somebody_kills_while_it_loads_is_killed(code: int) -> None:
    assert how(ended(code, ready=4))[0] is StateKind.ENDED


def test_a_server_that_never_passes_its_startup_probe_has_not_loaded() -> None:
    assert how(ended(137, ready=4), killing("startup"))[0] is StateKind.LOAD_FAILED


def test_a_server_that_served_once_and_hangs_in_its_next_start_hangs() -> None:
    assert how(ended(137, ready=30), killing("startup"))[0] is StateKind.PROBE_KILLED


def test_a_dead_process_of_tritons_python_backend_is_named_as_it_was_said() -> None:
    kind, words = how(ended(1, DEAD, ready=50))
    assert kind is StateKind.PROCESS_DIED
    assert "/models/classifier/1/model.py" in words


def test_vllm_that_shuts_down_by_itself_had_lost_its_engine() -> None:
    assert how(ended(0, ready=50, engine=Engine.VLLM))[0] is StateKind.PROCESS_DIED
    assert how(ended(0, ready=50))[0] is StateKind.ENDED


def test_what_a_container_beside_the_server_prints_says_nothing_of_it() -> None:
    assert how(ended(1, DEAD, ready=4, name="worker"))[0] is StateKind.ENDED


def test_what_opens_something_is_not_repeated() -> None:
    _, words = how(ended(1, "OSError: no such host in https://ci:hunter2@models.example/x\n", ready=4))
    assert "hunter2" not in words


def test_a_replica_that_waits_to_be_started_again_is_told_once() -> None:
    waits = ended(1, UNLOADED, ready=4)
    waits["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    assert [each.kind for each in states([], [waits], [], [], [], at=AT)] == [StateKind.LOAD_FAILED]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("/v2/models/classifier/infer answered 500: stub is dead", StateKind.PROBE_FAILING),
        ("ready: infer did not answer within 3.0 s; and nothing was finished since the last probe", StateKind.HANGING),
    ],
)
def test_a_server_that_runs_and_fails_its_probe_says_what_the_probe_found(said: str, kind: StateKind) -> None:
    runs = pod("p", on="n", containerStatuses=[container(state={"running": {}}, ready=False)])
    runs["metadata"]["creationTimestamp"] = _at(10)
    message = f"Readiness probe failed: {said}"
    event = {"involvedObject": {"name": "p"}, "reason": "Unhealthy", "message": message, "lastTimestamp": _at(58)}
    (found,) = states([], [runs], [], [], [event], at=AT)
    assert (found.kind, said in found.words) == (kind, True)


def test_the_probe_says_of_a_server_that_hangs_what_is_looked_for() -> None:
    assert Path(probe.__file__).read_text().count(NOTHING_FINISHED) == 2
