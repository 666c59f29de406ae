"""Golden requests: the script that replicas carry, asked by the driver, of a server that really answers."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from components.model_service import pod as rendered
from components.model_service import probing
from components.model_service.scripts import probe
from headway.environment.port import OutOfReachError
from headway.release.driver import labelled
from headway.release.driver.golden_answers import CONTAINER, FAILURES, GoldenAnswers, asked, failing, in_a_tick, judged
from headway.release.driver.labelled import LabelledComparison, compared
from headway.wire import SCRIPTS_FOLDER
from sandbox.layout import Layout
from sandbox.traffic.node.spec import PodSpec
from sandbox.traffic.pod_exec import NotRunError, executed
from tests.loopback import Handler, served

PROBE = Path(probing.__file__).parent / "scripts" / "probe.py"
POD = {"metadata": {"name": "defects-r1-abc"}}
GOLDEN: tuple[dict[str, Any], ...] = (
    {"name": "scratch", "path": "/infer", "body": {"ask": "scratch"}, "answer": "/data", "expect": {"compare": "top", "index": 1}},
    {"name": "dent", "path": "/infer", "body": {"ask": "dent"}, "answer": "/label", "expect": {"compare": "exact", "value": "dent"}},
)
ANY: Any = None
RIGHT: Mapping[str, Any] = {"data": [0.1, 0.9], "label": "dent"}


@contextmanager
def answering(answer: Any, status: int = 200, heard: list[Any] | None = None) -> Generator[str]:
    class Server(Handler):
        def do_POST(self) -> None:
            body = json.loads(self.body())
            if heard is not None:
                heard.append(body)
            self.reply(status, json.dumps(answer))

    with served(Server) as url:
        yield url


@pytest.fixture
def replica(tmp_path: Path) -> Callable[[str], Callable[..., str]]:
    """A pod's configuration on this machine; what is run in it is run here."""

    def made(base: str) -> Callable[..., str]:
        shutil.copy(PROBE, tmp_path / "probe.py")
        golden = [{**one, "timeout_seconds": 5} for one in GOLDEN]
        (tmp_path / "probe.json").write_text(json.dumps({"base": base, "golden": golden}), encoding="utf-8")

        def run(pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
            words = [str(tmp_path) if word == SCRIPTS_FOLDER else word for word in arguments]
            return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=seconds, check=True).stdout

        return run

    return made


@pytest.mark.parametrize(
    ("answer", "status", "pairs", "mismatches", "invalid", "silent"),
    [
        (RIGHT, 200, 4, 0, 0, 0),
        ({**RIGHT, "label": "scratch"}, 200, 4, 2, 0, 0),
        ({**RIGHT, "data": []}, 200, 4, 2, 2, 0),
        ({**RIGHT, "data": [float("nan"), 1]}, 200, 4, 2, 2, 0),
        ({"label": "dent"}, 200, 4, 2, 2, 0),
        (RIGHT, 503, 0, 0, 0, 4),
    ],
    ids=["right", "another label", "nothing", "no number", "malformed", "busy"],
)
def test_answers_are_judged_by_the_script_that_the_replica_carries(
    replica: Callable[[str], Callable[..., str]], answer: Any, status: int, pairs: int, mismatches: int, invalid: int, silent: int
) -> None:
    with answering(answer, status) as base:
        found = asked([POD], replica(base), 20.0, most=4)
    assert (found.pairs, found.mismatches, found.invalid, found.silent) == (pairs, mismatches, invalid, silent)
    assert bool(found.examples) is (mismatches + silent > 0)


def test_ticks_ask_all_golden_requests_in_turn_at_a_bounded_rate(
    replica: Callable[[str], Callable[..., str]],
) -> None:
    heard: list[Any] = []
    with answering(RIGHT, heard=heard) as base:
        for tick in range(2):
            asked([POD], replica(base), 20.0, most=1, first=tick)
    assert [one["ask"] for one in heard] == ["scratch", "dent"]
    assert [in_a_tick(seconds) for seconds in (300.0, 60.0, 15.0, 4.0, 1.0)] == [25, 25, 7, 2, 1]


def answers(pairs: int, mismatches: int, invalid: int = 0) -> GoldenAnswers:
    return GoldenAnswers(replicas=1, pairs=pairs, mismatches=mismatches, invalid=invalid, silent=0, examples=("dent: wrong",))


@pytest.mark.parametrize(
    ("found", "tolerated", "passed"),
    [
        (answers(25, 0), 0.0, True),
        (answers(25, 1), 0.04, True),
        (answers(25, 2), 0.04, False),
        (answers(25, 1), 0.005, False),
        (answers(25, 1, invalid=1), 0.5, False),
    ],
)
def test_some_answers_may_differ_as_the_contract_says_and_none_be_malformed(found: GoldenAnswers, tolerated: float, passed: bool) -> None:
    assert judged(found, tolerated).passed is passed


def test_no_answer_at_all_is_neither_a_pass_nor_a_failure() -> None:
    with pytest.raises(OutOfReachError, match="no golden request was answered"):
        judged(answers(0, 0), 0.5)


def test_one_replica_that_cannot_be_asked_does_not_hide_the_others() -> None:
    def run(pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
        if pod["metadata"]["name"] == "a":
            raise OutOfReachError("exec in a: exit 137")
        return json.dumps(["dent", "right", ""])

    pods = [{"metadata": {"name": name}} for name in "abcde"]
    found = asked(pods, run, 1.0)
    assert (found.replicas, found.pairs) == (2, 2)
    with pytest.raises(OutOfReachError, match="exit 137"):
        asked(pods[:1], run, 1.0)
    with pytest.raises(OutOfReachError, match="no replica is ready"):
        asked([], run, 1.0)


def starting(folder: Path, base: str, times: int, warmups: int = 0) -> Callable[..., str]:
    """A replica whose startup probe has looked so often, each time for a twentieth of a second."""
    plan = {"name": "defects", "requests": warmups, "budget_seconds": 5, "request": {**GOLDEN[0], "timeout_seconds": 5}}
    config = {"base": base, "state": str(folder / "state"), "slice_seconds": 0.05, "ready": [], "memory_limit_mib": None}
    config |= {"warmup": [plan] if warmups else [], "golden": [{**one, "timeout_seconds": 5} for one in GOLDEN]}
    shutil.copy(PROBE, folder / "probe.py")
    (folder / "probe.json").write_text(json.dumps(config), encoding="utf-8")
    for _ in range(times):
        with pytest.raises(probe.NotYet):
            probe.startup(config, probe.Memory(folder / "state"))

    def run(pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
        words = [str(folder) if word == SCRIPTS_FOLDER else word for word in arguments]
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=seconds, check=True).stdout

    return run


@pytest.mark.parametrize(
    ("answer", "status", "times", "hopeless"),
    [
        ({**RIGHT, "label": "scratch"}, 200, FAILURES, True),
        ({**RIGHT, "label": "scratch"}, 200, FAILURES - 1, False),
        (RIGHT, 500, FAILURES, True),
        (RIGHT, 503, FAILURES, False),
    ],
    ids=["wrong", "wrong, not often enough", "its process is dead", "busy"],
)
def test_a_ready_server_that_keeps_failing_its_proof_is_not_waited_for(
    tmp_path: Path, answer: Any, status: int, times: int, hopeless: bool
) -> None:
    with answering(answer, status) as base:
        said = failing([POD], starting(tmp_path, base, times))
    assert (said is not None) is hopeless
    assert not hopeless or f"{FAILURES} times in a row" in str(said)


def test_a_warm_up_that_gets_on_is_waited_for_however_long_it_takes(tmp_path: Path) -> None:
    with answering(RIGHT) as base:
        assert failing([POD], starting(tmp_path, base, FAILURES, warmups=1_000_000)) is None


def test_replicas_are_given_up_only_when_each_of_them_says_so() -> None:
    def run(pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
        return json.dumps({"times": FAILURES if pod["metadata"]["name"] == "a" else 1, "why": "wrong"})

    def silent(pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
        raise OutOfReachError("exec: the container has ended")

    first, second = {"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}
    assert failing([first], run) == f"{FAILURES} times in a row, though its server says that it is ready: wrong"
    assert failing([first, second], run) is None
    assert failing([first], silent) is None
    assert failing([], run) is None


STABLE_POD = {"metadata": {"name": "defects-r0-abc"}}
NEAR = {"compare": "near", "value": [0.9, 0.1], "absolute": 0.01, "relative": 0.0}
BOTH: tuple[dict[str, Any], ...] = (*GOLDEN, {"name": "filed", "path": "/infer", "answer": "/data", "expect": NEAR})


def two_versions(folder: Path, new: str, stable: str) -> Callable[..., str]:
    """Replicas of two versions; only the new one has the requests, one of them in a file of its artifact."""
    (folder / "request.json").write_text(json.dumps({"ask": "filed"}), encoding="utf-8")
    golden = [{**one, "timeout_seconds": 5} for one in BOTH]
    golden[-1]["file"] = str(folder / "request.json")
    for pod, base, requests in ((POD, new, golden), (STABLE_POD, stable, [])):
        place = folder / pod["metadata"]["name"]
        place.mkdir()
        shutil.copy(PROBE, place / "probe.py")
        (place / "probe.json").write_text(json.dumps({"base": base, "golden": requests}), encoding="utf-8")

    def run(pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
        words = [str(folder / pod["metadata"]["name"]) if word == SCRIPTS_FOLDER else word for word in arguments]
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=seconds, check=True).stdout

    return run


@pytest.mark.parametrize(
    ("stable", "status", "names", "pairs", "only_new", "only_stable"),
    [
        (RIGHT, 200, ("dent", "filed", "scratch"), 3, 0, 0),
        ({"data": [0.9, 0.1], "label": "dent"}, 200, ("dent", "filed", "scratch"), 3, 1, 1),
        ({"data": [0.1, 0.9], "label": "other"}, 200, ("dent", "filed", "scratch"), 3, 1, 0),
        ({"label": "dent"}, 200, ("dent", "filed", "scratch"), 1, 0, 0),
        ({"data": [0.1, 0.9, 0.0], "label": "dent"}, 200, ("dent", "filed", "scratch"), 2, 0, 0),
        (RIGHT, 503, (), 0, 0, 0),
        (RIGHT, 404, (), 0, 0, 0),
    ],
    ids=["alike", "each right once", "one better", "of another form", "of another length", "busy", "cannot be asked that"],
)
def test_only_answers_of_both_versions_that_can_be_compared_make_a_pair(
    tmp_path: Path, stable: Any, status: int, names: tuple[str, ...], pairs: int, only_new: int, only_stable: int
) -> None:
    with answering(RIGHT) as new, answering(stable, status) as old:
        found = compared([POD], [STABLE_POD], (), two_versions(tmp_path, new, old), 20.0)
    assert found == LabelledComparison(names=names, pairs=pairs, only_new_right=only_new, only_stable_right=only_stable)


def test_a_request_that_was_compared_is_not_asked_again(tmp_path: Path) -> None:
    heard: list[Any] = []
    with answering(RIGHT) as new, answering({**RIGHT, "label": "other"}, heard=heard) as old:
        run = two_versions(tmp_path, new, old)
        assert compared([POD], [STABLE_POD], {"dent", "scratch"}, run, 20.0).names == ("filed",)
        assert heard == [{"ask": "filed"}], "the stable version is asked what lies in the new one's file"
        assert compared([POD], [STABLE_POD], {"dent", "filed"}, run, 20.0).names == ("scratch",)
        assert compared([POD], [STABLE_POD], {"dent", "filed", "scratch"}, run, 20.0).pairs == 0


def test_requests_beyond_one_call_wait_and_too_large_ones_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max(len(json.dumps({**one, "timeout_seconds": 5})) for one in GOLDEN)
    with answering(RIGHT) as new, answering(RIGHT) as old:
        run = two_versions(tmp_path, new, old)
        monkeypatch.setattr(labelled, "CHARACTERS_AT_MOST", longest + 4)
        assert len(compared([POD], [STABLE_POD], (), run, 20.0).names) == 1
        monkeypatch.setattr(labelled, "CHARACTERS_AT_MOST", 20)
        assert compared([POD], [STABLE_POD], (), run, 20.0).names == ()


def test_a_version_without_a_ready_replica_is_out_of_reach_and_not_wrong() -> None:
    with pytest.raises(OutOfReachError, match="no replica that is ready"):
        compared([], [STABLE_POD], (), lambda *_: "", 1.0)


def test_the_driver_asks_where_the_program_puts_what_replicas_are_asked() -> None:
    assert (SCRIPTS_FOLDER, CONTAINER) == (probing.SCRIPTS_FOLDER, rendered.SERVER)
    assert (probing.SCRIPT, probing.CONFIG) == ("probe.py", "probe.json")


def test_in_the_sandbox_a_served_pods_own_copy_of_the_script_is_run(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path, {"HEADWAY_SANDBOX_HOME": str(tmp_path / "state")})
    pod = {"metadata": {"namespace": "quality", "name": "classifier-r1-abc", "uid": "0123456789ab"}}
    folder = layout.state / "traffic" / "node" / "pods" / "quality_classifier-r1-abc_01234567" / "configuration"
    with pytest.raises(NotRunError, match="is not served on this machine"):
        executed(layout, pod, ("-c", "print(1)"), 20.0)
    folder.mkdir(parents=True)
    shutil.copy(PROBE, folder / "probe.py")
    with answering(RIGHT) as base:
        golden = [{**one, "timeout_seconds": 5} for one in GOLDEN]
        (folder / "probe.json").write_text(json.dumps({"base": base, "golden": golden}), encoding="utf-8")
        found = asked([pod], lambda where, words, seconds: executed(layout, where, words, seconds), 20.0, most=2)
    assert (found.pairs, found.mismatches) == (2, 0)


def test_where_the_node_agent_keeps_its_pods_is_where_they_are_looked_for(tmp_path: Path) -> None:
    spec: Any = PodSpec(namespace="quality", name="c", uid="0123456789ab", labels={}, inits=(), server=ANY, volumes={}, grace_seconds=1.0)
    assert spec.key == "quality_c_01234567"


@pytest.mark.parametrize("said", ["5", "[1]", "{}", "[" * 100_000, "null", '["a","right"]'], ids=lambda said: said[:20])
def test_a_replica_that_says_something_odd_gave_no_answer(said: str) -> None:
    pods = [{"metadata": {"name": "a"}}]
    with pytest.raises(OutOfReachError, match="cannot be read"):
        asked(pods, lambda *_: said, 1.0)
    assert failing(pods, lambda *_: said) is None
