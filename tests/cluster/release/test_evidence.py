"""Evidence from a real Prometheus: what each tick counted, whatever pods and scrapes did meanwhile."""

import itertools
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.release.evidence.drained import DrainMeasurement, EarlierScrapes
from headway.release.evidence.history import history_of
from headway.release.evidence.prometheus import Prometheus, PrometheusEndpoint, UnansweredError
from headway.release.evidence.reader import PrometheusEvidence, ScrapeSettings
from headway.release.evidence.reading import ArmNames, JudgedService, TickWindow, classes, edges, learnt, tick
from headway.release.gate import Gate, GatePolicy, Phase
from sandbox.cluster import certificates
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.monitoring import servers
from sandbox.monitoring.configuration import MonitoringSettings
from sandbox.monitoring.servers import Monitoring
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT, eventually
from tests.cluster.exporter import shown
from tests.cluster.history import backfill
from tests.cluster.release.mesh_history import EDGES, SCRAPE, Pod, openmetrics, steady

pytestmark = pytest.mark.timeout(1800)  # on a fresh machine the first test waits for the programs to be built

BEGIN = (int(time.time()) - 8 * 3600) // 60 * 60
"""On a whole minute, well before now: Prometheus stores no block of the present."""
SERVICE = JudgedService(tenant="assist", model="chat", classes=("short", "long"))
STABLE, CANARY = "chat-r1", "chat-r2"
ARMS = ArmNames(stable=STABLE, canary=CANARY)
HOURS = 4
PASSWORD_HASH = "$2b$04$S90uc50RhS2QuyIXmoVYvuIir4ETA6sZxBKFaDLR/Pvcqw4O8T.Oe"
"""Of `let me in`, by bcrypt."""


def scrapes(pod: Pod, values: Sequence[float | None], *, failed: float = 0.0) -> Pod:
    """One value a scrape from BEGIN on; None is a failed scrape. All requests are below the first edge."""
    for place, value in enumerate(values):
        at = BEGIN + place * SCRAPE
        if value is None:
            pod.fail(at)
        else:
            pod.scrape(at, {"200": value, **({"503": failed} if failed else {})}, [value + failed] * (len(EDGES) + 1))
    return pod


def situations() -> list[Pod]:
    """Each in a tenant of its own; five ticks of four scrapes, the first scrape at the very beginning."""
    made: list[Pod] = []

    def world(tenant: str, canary: Sequence[Pod]) -> None:
        stable = scrapes(Pod(f"{STABLE}-7c9d-aaaaa", STABLE, tenant), [100.0 * k for k in range(21)])
        made.extend([stable, *canary])

    def pod(tenant: str, name: str = "bbbbb") -> Pod:
        return Pod(f"{CANARY}-7c9d-{name}", CANARY, tenant)

    world("steady", [scrapes(pod("steady"), [10.0 * k for k in range(21)])])
    # Restarts between scrapes 5 and 6, and has overtaken nothing yet.
    world("reset", [scrapes(pod("reset"), [10.0 * k for k in range(6)] + [7.0 + 10 * k for k in range(15)])])
    # Born in the second tick with failures already counted: `rate` would not see them.
    late = pod("newborn")
    for place in range(6, 21):
        late.scrape(BEGIN + place * SCRAPE, {"200": 10.0 * (place - 6), "503": 7.0}, [7 + 10.0 * (place - 6)] * (len(EDGES) + 1))
    world("newborn", [late])
    # One pod leaves, another comes.
    world("churn", [scrapes(pod("churn", "ccccc"), [10.0 * k for k in range(9)]), scrapes_from(pod("churn", "ddddd"), 9)])
    # Two scrapes in a row fail in the third tick.
    world("gap", [scrapes(pod("gap"), [10.0 * k for k in range(9)] + [None, None] + [10.0 * k for k in range(11, 21)])])
    # The last scrape of the second tick fails: what it would have shown is seen in the third.
    world("late", [scrapes(pod("late"), [10.0 * k for k in range(8)] + [None] + [10.0 * k for k in range(9, 21)])])
    copies = Pod(f"{CANARY}-7c9d-bbbbb", CANARY, "copies", extra={"mirrored": "true"})
    world("copies", [scrapes(copies, [10.0 * k for k in range(21)])])
    return made


def scrapes_from(pod: Pod, first: int) -> Pod:
    for place in range(first, 21):
        value = 10.0 * (place - first + 1)
        pod.scrape(BEGIN + place * SCRAPE, {"200": value}, [value] * (len(EDGES) + 1))
    return pod


@pytest.fixture(scope="module")
def monitoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    layout = Layout(project=PROJECT, state=tmp_path_factory.mktemp("evidence"), cache=Layout.of(PROJECT).cache)
    settings = MonitoringSettings(jobs=())
    try:
        running = servers.start(layout, Silent(), settings)
        servers.stop(layout, Silent())
        file = layout.state / "history.om"
        history = [
            *steady(STABLE, 3, BEGIN, HOURS * 3600, rate=20.0, seed=1),
            *steady("unlabelled", 1, BEGIN, 3600, rate=1.0, seed=2, kind=""),
        ]
        file.write_text("\n".join(openmetrics([*history, *situations()])) + "\n")
        backfill(layout, running.toolchain, file)
        yield servers.start(layout, Silent(), settings)
    finally:
        Supervisor(layout).stop_all(Silent())


@pytest.fixture
def evidence(monitoring: Monitoring) -> Iterator[PrometheusEvidence]:
    made = PrometheusEvidence([PrometheusEndpoint(url=monitoring.prometheus)], ScrapeSettings(scrape_seconds=SCRAPE), timeout_seconds=60.0)
    yield made
    made.close()


def read(evidence: PrometheusEvidence, tenant: str) -> list[dict]:
    """Five ticks, each by itself, as a driver reads them."""
    service = JudgedService(tenant=tenant, model="chat")
    return [dict(evidence.read(service, ARMS, TickWindow(BEGIN + 60 * k, BEGIN + 60 * (k + 1)))) for k in range(5)]


def requests(readings: Sequence[dict], part: str) -> list[float]:
    return [reading["arms"][part]["requests"][0] for reading in readings]


def test_each_tick_counts_what_was_counted_in_it(evidence: PrometheusEvidence) -> None:
    readings = read(evidence, "steady")
    assert requests(readings, "stable") == [400] * 5
    assert requests(readings, "canary") == [40] * 5
    assert [reading["arms"]["canary"]["buckets"]["latency"][0][0] for reading in readings] == [40] * 5
    assert all(reading["answered"] and reading["up"] == {"canary": True, "control": True} for reading in readings), readings[0]["reason"]


def test_a_restarted_counter_begins_again_at_zero(evidence: PrometheusEvidence) -> None:
    # Tick 2 holds scrapes 5 to 8: +10, then 7 since the restart, then twice +10.
    assert requests(read(evidence, "reset"), "canary") == [40, 37, 40, 40, 40]


def test_failures_of_a_pod_that_was_just_born_are_counted(evidence: PrometheusEvidence) -> None:
    readings = read(evidence, "newborn")
    assert [reading["arms"]["canary"]["errors"][0] for reading in readings] == [0, 7, 0, 0, 0]
    assert requests(readings, "canary") == [0, 27, 40, 40, 40]


def test_pods_that_leave_and_come_are_one_arm(evidence: PrometheusEvidence) -> None:
    readings = read(evidence, "churn")
    assert requests(readings, "canary") == [40, 40, 40, 40, 40]
    assert all(reading["up"]["canary"] for reading in readings)


def test_a_scrape_gap_of_the_canary_is_no_data_and_loses_nothing(evidence: PrometheusEvidence) -> None:
    readings = read(evidence, "gap")
    assert [reading["up"]["canary"] for reading in readings] == [True, True, False, True, True]
    assert all(reading["up"]["control"] for reading in readings)
    assert requests(readings, "canary") == [40, 40, 40, 40, 40]


def test_a_late_scrape_is_counted_in_the_tick_it_arrives_in_and_nothing_is_lost(evidence: PrometheusEvidence) -> None:
    readings = read(evidence, "late")
    assert requests(readings, "canary") == [40, 30, 50, 40, 40]


def test_a_target_that_is_gone_counts_until_its_last_scrape_and_never_after(monitoring: Monitoring, evidence: PrometheusEvidence) -> None:
    """Prometheus itself marks the series of a target that is gone as stale."""
    labels = f'reporter="destination",destination_workload_namespace="gone",destination_workload="{STABLE}",pod="{STABLE}-7c9d-aaaaa"'

    def counters(value: float) -> str:
        buckets = "".join(f'istio_request_duration_milliseconds_bucket{{{labels},le="{edge}"}} {value}\n' for edge in ("10", "100", "+Inf"))
        return f'istio_requests_total{{{labels},response_code="200"}} {value}\n{buckets}'

    def latest() -> float | None:
        found = source.samples(f"istio_requests_total{{{labels}}}", time.time())
        return found[0].samples[-1][1] if found else None

    source = Prometheus(PrometheusEndpoint(url=monitoring.prometheus))
    file = monitoring.folder / "targets" / "gone.json"
    began = time.time()
    with shown(counters(10)) as exporter:
        file.write_text(json.dumps([{"targets": [exporter.target], "labels": {"job": "gone"}}]), encoding="utf-8")
        eventually(lambda: latest() == 10, within=60.0)
        exporter.text = counters(25)
        eventually(lambda: latest() == 25, within=60.0)
        file.unlink()
        eventually(lambda: latest() is None, within=60.0)
    over = time.time()
    live = PrometheusEvidence([PrometheusEndpoint(url=monitoring.prometheus)], ScrapeSettings(scrape_seconds=1.0))
    service, arms = JudgedService(tenant="gone", model="chat"), ArmNames(stable=STABLE)
    assert requests([dict(live.read(service, arms, TickWindow(began, over)))], "stable") == [25]
    after = live.read(service, arms, TickWindow(over, over + 30))
    assert (after["arms"].get("stable") or {"requests": [0]})["requests"] == [0]
    assert not after["up"]["control"]
    live.close()
    source.close()


def test_two_scrapes_show_which_replicas_get_requests_and_none_show_nothing(monitoring: Monitoring) -> None:
    labels = f'reporter="destination",destination_workload_namespace="still",destination_workload="{STABLE}",response_code="200"'
    answered, busy = itertools.count(1), True
    newest = 0

    def text() -> str:
        nonlocal newest
        newest = next(answered) if busy else newest
        return f"istio_requests_total{{{labels}}} {newest}\n"

    live = PrometheusEvidence([PrometheusEndpoint(url=monitoring.prometheus)], ScrapeSettings(scrape_seconds=1.0), timeout_seconds=60.0)
    seen: EarlierScrapes | None = None

    def look() -> DrainMeasurement:
        nonlocal seen
        found, seen = live.drained(JudgedService(tenant="still", model="chat"), STABLE, seen)
        return found

    file = monitoring.folder / "targets" / "still.json"
    with shown(text) as exporter:
        file.write_text(json.dumps([{"targets": [exporter.target], "labels": {"job": "still"}}]), encoding="utf-8")
        eventually(lambda: (look().requests or 0) > 0, within=60.0)
        busy, seen = False, None
        assert look().requests is None, "nothing is said by the scrapes of before"
        assert eventually(lambda: look() if look().requests is not None else None, within=60.0).requests == 0
    eventually(lambda: "cannot be scraped" in look().reason, within=60.0)
    file.unlink()
    eventually(lambda: "nobody who is scraped" in look().reason, within=60.0)
    live.close()


@dataclass(frozen=True)
class Guarded:
    """A Prometheus that speaks TLS only, to whoever has its password."""

    url: str
    authority: Path
    other: Path
    login: Path


@pytest.fixture(scope="module")
def guarded(monitoring: Monitoring, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    ours, other = (certificates.authority(folder, name) for name in ("ours", "other"))
    pair = certificates.issue(folder, "server", certificates.Subject(common_name="prometheus", hosts=("127.0.0.1",)), ours)
    (folder / "prometheus.yml").write_text("{}")
    tls = {"cert_file": str(pair.certificate), "key_file": str(pair.key)}
    (folder / "web.yml").write_text(json.dumps({"tls_server_config": tls, "basic_auth_users": {"reader": PASSWORD_HASH}}))
    (folder / "login").write_text("reader:let me in\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("--config.file", "prometheus.yml", "--web.config.file", "web.yml", "--storage.tsdb.path", "data", "--log.level", "error")
    server = subprocess.Popen([monitoring.toolchain.binary("prometheus"), *words, f"--web.listen-address=127.0.0.1:{port}"], cwd=folder)
    found = Guarded(f"https://127.0.0.1:{port}", ours.certificate, other.certificate, folder / "login")
    try:
        eventually(lambda: says(found, ca_file=found.authority, login_file=found.login) == "", within=60.0)
        yield found
    finally:
        server.terminate()
        server.wait(60)


def says(server: Guarded, **how: Any) -> str:
    """Why it gives no answer to whoever asks so; empty where it does."""
    asking = Prometheus(PrometheusEndpoint(url=server.url, **how))
    try:
        asking.samples("vector(1)", time.time())
    except UnansweredError as failure:
        return str(failure)
    finally:
        asking.close()
    return ""


def test_a_prometheus_that_somebody_else_vouches_for_is_not_believed(guarded: Guarded) -> None:
    for how in ({"ca_file": guarded.other}, {}):
        why = says(guarded, login_file=guarded.login, **how)
        assert "is not who it should be" in why and "HEADWAY_PROMETHEUS_CA_FILE" in why
    assert "let me in" not in why


def test_without_the_right_login_there_is_no_answer(guarded: Guarded, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("reader:open sesame")
    assert "401" in says(guarded, ca_file=guarded.authority, login_file=tmp_path / "wrong")
    assert "401" in says(guarded, ca_file=guarded.authority)
    assert says(guarded, ca_file=guarded.authority, login_file=guarded.login) == ""


def test_no_release_starts_on_a_distrusted_prometheus_and_the_next_one_goes_on(monitoring: Monitoring, guarded: Guarded) -> None:
    service, arms = JudgedService(tenant="steady", model="chat"), ArmNames(stable=STABLE)
    wrong, right = PrometheusEndpoint(url=guarded.url, ca_file=guarded.other), PrometheusEndpoint(url=monitoring.prometheus)
    alone = PrometheusEvidence([wrong], ScrapeSettings(scrape_seconds=SCRAPE))
    assert any(found.blocking and "is not who it should be" in found.fact for found in alone.preflight(service, arms, now=BEGIN + 300))
    both = PrometheusEvidence([wrong, right], ScrapeSettings(scrape_seconds=SCRAPE))
    assert both.read(service, arms, TickWindow(BEGIN, BEGIN + 60))["endpoints"] == [monitoring.prometheus]
    alone.close()
    both.close()


def test_copies_are_not_users_requests(evidence: PrometheusEvidence) -> None:
    readings = read(evidence, "copies")
    assert requests(readings, "mirrored") == [40] * 5
    assert requests(readings, "canary") == [0] * 5


def test_ticks_read_together_are_those_read_one_by_one(evidence: PrometheusEvidence) -> None:
    service = JudgedService(tenant="reset", model="chat")
    together = evidence.readings(service, ARMS, [BEGIN + 60 * k for k in range(6)])
    assert [one["arms"] for one in together] == [one["arms"] for one in read(evidence, "reset")]


def test_a_saved_reading_decides_the_same_as_the_one_just_read(evidence: PrometheusEvidence) -> None:
    raws = read(evidence, "steady")
    saved = json.loads(json.dumps(raws))
    decisions = []
    for readings in (raws, saved):
        gate = Gate(GatePolicy(mirror=0.0, weights=(0.1,), baseline=False), edges(readings[0]), classes(readings[0]))
        gate.learn(learnt(readings[0]))
        decisions.append([gate.observe(tick(reading)) for reading in readings])
    for one, other in zip(*decisions, strict=True):
        assert {n: (float(s.evidence), float(s.proof)) for n, s in one.signals.items() if n in ("latency", "errors")} == {
            n: (float(s.evidence), float(s.proof)) for n, s in other.signals.items() if n in ("latency", "errors")
        }
        assert Phase(int(one.phase)) == Phase(int(other.phase)) == Phase.RELEASING
    assert any(bool(decision.counted) for decision in decisions[0])


def test_another_prometheus_is_asked_when_the_first_is_down(monitoring: Monitoring) -> None:
    endpoints = [PrometheusEndpoint(url="http://127.0.0.1:9"), PrometheusEndpoint(url=monitoring.prometheus)]
    both = PrometheusEvidence(endpoints, ScrapeSettings(scrape_seconds=SCRAPE))
    raw = both.read(JudgedService(tenant="steady", model="chat"), ARMS, TickWindow(BEGIN, BEGIN + 60))
    both.close()
    assert raw["answered"]
    assert raw["endpoints"] == [monitoring.prometheus]


def test_a_question_that_prometheus_refuses_is_no_answer(monitoring: Monitoring, evidence: PrometheusEvidence) -> None:
    raw = evidence.read(JudgedService(tenant="steady", model="chat"), ArmNames(stable="a" * 70000), TickWindow(BEGIN, BEGIN + 60))
    assert raw["arms"].get("stable") is None or sum(raw["arms"]["stable"]["requests"]) == 0


def test_a_sound_source_is_found_sound_and_an_unknown_model_is_not(evidence: PrometheusEvidence) -> None:
    sound = evidence.preflight(JudgedService(tenant="steady", model="chat"), ArmNames(stable=STABLE), now=BEGIN + 300, seconds=240)
    assert [str(finding) for finding in sound if finding.blocking] == []
    missing = evidence.preflight(JudgedService(tenant="steady", model="other"), ArmNames(stable="other-r1"), now=BEGIN + 300, seconds=240)
    assert any(finding.blocking and "shows no request of steady/other-r1" in finding.fact for finding in missing)


def test_a_history_is_the_whole_of_what_was_counted(evidence: PrometheusEvidence) -> None:
    found = history_of(evidence, SERVICE, STABLE, BEGIN, BEGIN + 7200, 60.0)
    assert (found.ticks, len(found.pods), found.edges["latency"]) == (120, 3, EDGES)
    assert found.answered.all()
    total = sum(pod.buckets["latency"].sum() for pod in found.pods.values())
    raw = evidence.readings(SERVICE, ArmNames(stable=STABLE), [BEGIN, BEGIN + 3600, BEGIN + 7200])
    assert total == sum(sum(reading["arms"]["stable"]["requests"]) for reading in raw)
    assert total == pytest.approx(20 * 7200, rel=0.02)


def test_backtest_shows_what_the_policy_of_a_contract_would_have_done(monitoring: Monitoring) -> None:
    arguments = ["backtest", "assist/chat", "--prometheus", monitoring.prometheus, "--arm", STABLE, "--output", "json"]
    end = BEGIN + HOURS * 3600
    more = ["--until", str(end), "--hours", "4", "--rehearsals", "10", "--longest", "90", "--tenants", str(PROJECT / "tenants")]
    done = CliRunner().invoke(app, [*arguments, *more])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    outcomes = {outcome["change"]: outcome for outcome in found["outcomes"]}
    assert outcomes["none"]["rolled_back"] == 0
    assert outcomes["none"]["promoted"] > 0
    for change in ("p99 +100 %", "errors 5 %"):
        assert outcomes[change]["promoted"] == 0, change
        assert outcomes[change]["rolled_back"] > 0, change


def test_backtest_refuses_a_history_whose_requests_carry_no_class(monitoring: Monitoring) -> None:
    arguments = ["backtest", "assist/chat", "--prometheus", monitoring.prometheus, "--arm", "unlabelled", "--hours", "1"]
    done = CliRunner().invoke(app, [*arguments, "--until", str(BEGIN + 3600), "--tenants", str(PROJECT / "tenants")])
    assert done.exit_code != 0
    assert "requests carry none of the classes" in str(done.exception)


def test_backtest_of_an_unknown_model_says_what_to_do() -> None:
    done = CliRunner().invoke(
        app, ["backtest", "nobody/nothing", "--prometheus", "http://127.0.0.1:9", "--tenants", str(PROJECT / "tenants")]
    )
    assert done.exit_code != 0
    assert "has no contract of nobody/nothing" in str(done.exception)
