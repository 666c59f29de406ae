"""A real vLLM that is too slow and too full: KEDA counts what waits, every alert of language models fires, and no replica's end cuts a stream.

After all others: it replaces the replica that they ask, and leaves none.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.observability.service import service_dashboard
from sandbox.traffic.profile import LANGUAGE
from tests.cluster.conftest import eventually
from tests.language.sorter import COMPLETIONS, question
from tests.language.strained import LONGEST, STARTING_SECONDS, WITHIN, Strained
from tests.traffic.bed import Bed
from tests.traffic.rate_limiter import WINDOW, awaiting_a_minute_with
from tests.traffic.serving import container

WHO = f'tenant="{LANGUAGE.tenant}",model="{LANGUAGE.model}"'
UNSEEN = {"SM activity", "Highest GPU memory in use", "Xid events"}
"""Of a GPU, which is not here."""


pytestmark = pytest.mark.needs("ratelimit")


@pytest.fixture(scope="module")
def strained(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strained]:
    yield Strained.start(bed, tmp_path_factory.mktemp("slow"))


def test_a_crowd_of_long_prompts_waits_fills_the_cache_and_asks_for_a_replica(strained: Strained) -> None:
    assert strained.replicas == 1
    (serving,) = strained.sorter.pods
    with strained.crowd():
        eventually(lambda: (strained.value(f"headway:waiting{{{WHO}}}") or 0) > 4, WITHIN)
        eventually(lambda: strained.replicas == 2, WITHIN)
        eventually(lambda: strained.fires("KvCacheFull", namespace=LANGUAGE.tenant, model=LANGUAGE.model), WITHIN)
    strained.settle()
    (left,) = strained.sorter.pods
    assert left["metadata"]["uid"] == serving["metadata"]["uid"], "the replica that waited for a node went"
    assert container(left)["restartCount"] == 0


@pytest.mark.parametrize("objective", ["ttft-p95-100ms", "inter-token-p95-100ms"])
def test_slow_tokens_burn_their_objective_and_people_are_told(strained: Strained, objective: str) -> None:
    for _ in range(8):
        strained.sorter.events(COMPLETIONS, prompt=question("nut bolt"), max_tokens=8, ignore_eos=True)
    eventually(lambda: strained.fires("SloBurnRate", objective=objective, severity="page"), WITHIN)
    eventually(lambda: strained.told("SloBurnRate"), WITHIN)


def test_tokens_beyond_the_quota_are_told_where_no_gateway_counts_them(strained: Strained) -> None:
    with strained.crowd(at_once=16, tokens=1, words=900):
        eventually(lambda: strained.fires("TenantTokensAboveQuota", tenant=LANGUAGE.tenant), 2 * WITHIN)
    strained.settle()


def test_a_tenant_that_has_spent_its_tokens_is_refused_and_told(strained: Strained) -> None:
    def refused() -> bool:
        status, _ = strained.sorter.ask(COMPLETIONS, prompt=question("nut " * 900), max_tokens=1)
        assert status in (200, 429)
        return strained.fires("TenantRateLimited", namespace=LANGUAGE.tenant)

    eventually(refused, WITHIN)
    awaiting_a_minute_with(WINDOW)


def test_every_panel_of_the_models_dashboard_has_an_answer_from_real_series(strained: Strained) -> None:
    page = service_dashboard(LANGUAGE.tenant, strained.model)
    asked = [(panel.title, query.expression) for row in page.rows for panel in row.panels for query in panel.queries]
    silent = {title for title, expression in asked if not strained.prometheus.query(expression)}
    assert len(asked) > 25
    assert silent == UNSEEN


def test_a_minutes_stream_outlasts_the_scale_in_of_its_replica(strained: Strained) -> None:
    (leaving,) = strained.sorter.pods
    with strained.reading() as stream:
        strained.scale(0)
        eventually(lambda: strained.sorter.pods[0]["metadata"].get("deletionTimestamp"), WITHIN)
        begun = len(stream.pieces)
        assert begun < LONGEST / 2, "most of the answer is still to come"
        eventually(lambda: strained.sorter.ask(COMPLETIONS, prompt=question("nut"), max_tokens=1)[0] == 503, 60)
    assert (stream.broken, stream.ended, stream.tokens) == ("", True, LONGEST)
    assert stream.seconds > 55
    eventually(lambda: not strained.sorter.pods, 60)
    assert "draining in-flight requests" in _log(strained, leaving["metadata"]["name"])


def test_a_dead_engine_ends_its_server_which_is_started_again_and_told(strained: Strained) -> None:
    strained.nodes_take_more(True)
    strained.scale(1)
    strained.sorter.await_ready(STARTING_SECONDS)
    with strained.reading() as stream:
        os.kill(_engine(strained), signal.SIGKILL)
    assert "InternalServerError" in stream.pieces[-2][1], "its caller is told, after the 200"
    eventually(lambda: container(strained.sorter.pods[0])["restartCount"] == 1, WITHIN)

    def unanswered() -> bool:
        status, _ = strained.sorter.ask(COMPLETIONS, prompt=question("nut"), max_tokens=1)
        assert status in (500, 503)
        return strained.fires("RequestsUnanswered", namespace=LANGUAGE.tenant, model=LANGUAGE.model)

    eventually(unanswered, WITHIN)


def _log(strained: Strained, pod: str) -> str:
    return (strained.sorter.bed.layout.logs / "pods" / LANGUAGE.tenant / pod / "server.log").read_text()


def _engine(strained: Strained) -> int:
    """The process that computes, of the replica on this bed."""
    state = str(strained.sorter.bed.layout.state)
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cmdline").read_bytes().startswith(b"VLLM::EngineCore") and str((place / "cwd").readlink()).startswith(state):
                return int(place.name)
        except OSError:
            continue
    raise AssertionError("no engine runs on this bed")
