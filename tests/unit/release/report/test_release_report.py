"""What people are told of a release: the page, the summary, the sentences, the webhook."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import pytest

from headway.contract.reading.loader import load_tenant
from headway.diagnosis.reasoning import diagnoses
from headway.diagnosis.record import of_one
from headway.ledger.events import Event
from headway.problem import UserError
from headway.release import messages
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.rollout_state import RolloutState, fold
from headway.release.notify import Webhook
from headway.release.report import page, plots, summary
from tests.loopback import Handler, served
from tests.unit.diagnosis.played import played
from tests.unit.release_kill import Shelf, promoting
from tests.unit.release_world import BAD, CHAIN, Scene

TENANTS = Path(__file__).parents[4] / "tenants"


@pytest.fixture(scope="module")
def ended() -> tuple[Scene, RolloutState]:
    """A bad release, from beginning to end, at a sandbox's speed."""
    scene = scene_of()
    scene.world.shares = BAD
    scene.begin(reason="<b>half the size</b>", commit="c0ffee", speed=2.0)
    return scene, scene.driver().run()


def scene_of() -> Scene:
    (found,) = load_tenant(TENANTS / "vision").contracts
    return Scene.of(Shelf(), next(model for model in found.models if model.name == "defects"))


def shown(ended: tuple[Scene, RolloutState]) -> str:
    scene, rollout = ended
    return page.html(CHAIN, "sandbox", rollout, scene.ledger().read())


class Tags(HTMLParser):
    """Opens and closes what a browser would; keeps what is loaded from elsewhere."""

    VOID = frozenset({"meta", "br", "hr", "line", "polyline", "polygon", "img", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(ended: tuple[Scene, RolloutState]) -> None:
    tags = Tags()
    text = shown(ended)
    tags.feed(text)
    assert tags.open == [] and tags.loaded == []
    assert "<script" not in text and "url(" not in text and "@import" not in text


def test_the_page_and_the_summary_show_both_versions_figures(ended: tuple[Scene, RolloutState]) -> None:
    scene, rollout = ended
    tags = Tags()
    tags.feed(shown(ended))
    at = tags.text.index("latency ")
    assert tags.text[at : at + 3] == ["latency ", "p99", ">500 ms"]
    assert re.search(
        r"\| latency \| fail \| p99 >500 ms against 4[56]\d ms, limit 50\d ms, n ", summary.markdown(CHAIN, rollout, scene.ledger().read())
    )


def test_what_is_measured_of_tokens_is_on_the_page_and_a_remark_in_the_summary(ended: tuple[Scene, RolloutState]) -> None:
    scene, rollout = ended
    of = {part: {"answers": 100.0, "answer": 100.0 * length} for part, length in (("mirrored", 12), ("canary", 12), ("stable", 5))}

    def with_tokens(event: Event) -> Event:
        return (
            replace(event, body={**event.body, "raw": {**event.body["raw"], "tokens": of}}) if event.kind == EventKind.OBSERVED else event
        )

    events = [with_tokens(event) for event in scene.ledger().read()]
    tags = Tags()
    tags.feed(page.html(CHAIN, "sandbox", rollout, events))
    assert tags.open == []
    assert tags.text[tags.text.index("tokens of an answer") :][:3] == ["tokens of an answer", "12", "5"]
    assert "Answers of the new version are 140% longer" in summary.markdown(CHAIN, rollout, events)
    assert "of tokens" not in shown(ended), "nothing is said where no server speaks of them"


def test_what_people_wrote_cannot_become_part_of_the_page(ended: tuple[Scene, RolloutState]) -> None:
    assert "&lt;b&gt;half the size&lt;/b&gt;" in shown(ended)
    assert "<b>half the size</b>" not in shown(ended)


def test_the_page_says_first_what_limits_it(ended: tuple[Scene, RolloutState]) -> None:
    assert "This release ran in a sandbox, where minutes passed 2 times as fast as the contract says." in shown(ended)


def test_the_verdict_the_difference_and_the_hash_of_the_chain_are_on_the_page(ended: tuple[Scene, RolloutState]) -> None:
    scene, _ = ended
    tags = Tags()
    tags.feed(shown(ended))
    text = " ".join(tags.text)
    ledger = scene.ledger()
    head = [e for e in ledger.read() if e.kind == EventKind.ENDED][-1].hash
    assert "Requests are slower than the policy tolerates." in text
    assert "artifact.version" in text and "2026.12.1" in text
    assert head in text


def _diagnosis() -> dict[str, Any]:
    """Of a service that is slow, with a stranger's words in it."""
    found = diagnoses(played({"compute": 0.060}))
    of_pods = {"says": "mean time of the model itself", "new": "60 ms", "stable": "18 ms", "difference": "+41 to +43 ms", "differs": True}
    same = {**of_pods, "says": "memory in use", "differs": False}
    record = of_one(found[0], "sandbox")
    record["unseen"] = [{"what": "pods", "why": "<i>away</i>"}]
    return {"at": "2026-11-21T12:00:00Z", "diagnoses": [record], "versions": [of_pods, same]}


def diagnosed(ended: tuple[Scene, RolloutState], **body: Any) -> RolloutState:
    rollout = ended[1]
    return replace(rollout, ended={**(rollout.ended or {}), **body})


def test_a_rolled_back_releases_page_has_its_diagnosis(ended: tuple[Scene, RolloutState]) -> None:
    text = page.html(CHAIN, "sandbox", diagnosed(ended, diagnosis=_diagnosis()), ended[0].ledger().read())
    tags = Tags()
    tags.feed(text)
    assert tags.open == [] and tags.loaded == []
    said = " ".join(" ".join(tags.text).split())
    assert "vision/defects: answers take longer, because the version that serves takes longer for the same work" in said
    assert "mean time of the model itself 60 ms 18 ms +41 to +43 ms" in said
    assert "memory in use (no difference proven)" in said
    assert "&lt;i&gt;away" in text and "<i>away" not in text


def test_a_rolled_back_releases_summary_has_its_diagnosis(ended: tuple[Scene, RolloutState]) -> None:
    text = summary.markdown(CHAIN, diagnosed(ended, diagnosis=_diagnosis()), ended[0].ledger().read())
    assert "- vision/defects: answers take longer, because the version that serves takes longer" in text
    assert "- mean time of the model itself: new 60 ms, stable 18 ms (+41 to +43 ms)" in text
    assert "memory in use" not in text


def test_a_report_says_why_there_is_no_diagnosis(ended: tuple[Scene, RolloutState]) -> None:
    rollout = diagnosed(ended, undiagnosed="it took longer than 20 s")
    events = ended[0].ledger().read()
    for text in (page.html(CHAIN, "sandbox", rollout, events), summary.markdown(CHAIN, rollout, events)):
        assert "There is no diagnosis: it took longer than 20 s." in text


def test_a_release_that_nobody_diagnosed_has_no_such_section(ended: tuple[Scene, RolloutState]) -> None:
    assert "<h2>Diagnosis</h2>" not in shown(ended)


def test_evidence_is_drawn_up_to_its_boundary_and_no_further() -> None:
    series = plots.PlottedSeries(times=[1, 2, 3, 4], values=[0.01, 1.0, 20.0, 5000.0], bound=400)
    levels = [plots.height(value, series.bound) for value in series.values]
    assert levels[:2] == [0.0, 0.0] and levels[3] == 1.0
    assert levels[2] == pytest.approx(0.5)


def test_a_gap_in_the_evidence_is_a_gap_in_its_line() -> None:
    drawn = plots.evidence(plots.PlottedSeries(times=[1, 2, 3, 4], values=[1.0, None, 2.0, 3.0], bound=400), (), 5.0)
    lines = ElementTree.fromstring(drawn).findall("polyline")
    assert [len(str(line.get("points")).split()) for line in lines] == [1, 2]


@pytest.mark.parametrize("minutes", [0.2, 1, 7, 45, 300, 5000])
def test_an_axis_has_few_marks_whatever_its_length(minutes: float) -> None:
    assert 2 <= len(plots.ticks(minutes)) <= 8


def test_traffic_is_drawn_as_it_was_carried(ended: tuple[Scene, RolloutState]) -> None:
    drawn = plots.traffic([(0.0, 0.0, 0.0), (2.0, 0.5, 0.0)], 4.0)
    (users,) = [p for p in ElementTree.fromstring(drawn).findall("polygon") if p.get("class") == "users"]
    points = [tuple(map(float, point.split(","))) for point in str(users.get("points")).split()]
    half = plots.LEFT + (plots.WIDTH - plots.LEFT - plots.RIGHT) / 2
    assert (round(half, 1), 43.0) in points, "from the second minute on, half of the height"


def test_the_line_of_proof_begins_anew_at_every_step() -> None:
    scene = scene_of()
    rollout = scene.run()
    text = page.html(CHAIN, "sandbox", rollout, scene.ledger().read())
    latency = text[text.index("<h3>latency ") :].partition("</svg>")[0]
    lines = [line.partition('"')[0].split() for line in latency.split('<polyline class="proof" points="')[1:]]
    assert len(lines) == len(rollout.plan.traffic) + 1 == 7, "and over the bake"
    top = {float(line[-1].partition(",")[2]) for line in lines}
    assert top == {float(plots.TOP)}, "a step was passed where its proof reached its own bound"
    assert all(float(line[0].partition(",")[2]) > plots.TOP for line in lines)


def test_a_promotion_without_proof_is_said_on_the_page() -> None:
    scene = scene_of()
    promoting(scene, 2)
    rollout = scene.run()
    assert "A person promoted it without waiting for proof: shown to the customer at noon." in shown((scene, rollout))


def test_every_kind_of_event_has_its_words(ended: tuple[Scene, RolloutState]) -> None:
    scene, _ = ended
    spoken = [(event.kind, messages.said(event)) for event in scene.ledger().read()]
    assert all(text is None for kind, text in spoken if kind in ("lease", "lease-released"))
    assert all(text and text.endswith((".", "?")) for kind, text in spoken if kind not in ("lease", "lease-released"))
    assert set(EventKind) - set(messages._TELLERS) == {EventKind.LEASE, EventKind.LEASE_RELEASED}


def test_a_step_summary_names_verdict_signals_and_changes(ended: tuple[Scene, RolloutState], tmp_path: Path) -> None:
    scene, rollout = ended
    text = summary.markdown(CHAIN, rollout, scene.ledger().read())
    summary.append(text, {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")})
    written = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert written.startswith("### ⛔ vision/defects: rolled back")
    assert "| latency | fail |" in written and "| `artifact.version` | `2026.11.2` | `2026.12.1` |" in written
    assert "| `rollout.trade` | `{gain: 2%, latency: 20%}` |  |" in written, "values as a contract has them"
    assert not re.search(r"\de[+-]\d", written), "nobody compares 1e+06 with 10 at a glance"
    assert re.findall(r"^- \d\d:\d\d:\d\d", written, re.MULTILINE) == [
        each[:-1] for each in re.findall(r"^- [\d:]+Z", written, re.MULTILINE)
    ]


def test_outside_a_github_step_no_summary_is_written() -> None:
    summary.append("text", {})


class Hook(Handler):
    heard: ClassVar[list[dict[str, Any]]] = []
    refusals: ClassVar[list[int]] = []
    """Statuses of the first answers; then every message is taken."""

    def do_POST(self) -> None:
        body = json.loads(self.body())
        status = self.refusals.pop(0) if self.refusals else 204
        if status == 204:
            self.heard.append(body)
        self.reply(status)


def told(events: Any, *refusals: int) -> str | None:
    """Tell a hook that answers so; what is said of it in the end."""
    Hook.heard, Hook.refusals = [], list(refusals)
    with served(Hook) as url:
        hook = Webhook(f"{url}/secret-of-the-hook", CHAIN, pauses=(0.01, 0.01))
        for event in events:
            hook.tell(event, fold(events[: event.number]))
        return hook.close()


def test_a_webhook_hears_of_the_beginning_the_trouble_and_the_end(ended: tuple[Scene, RolloutState]) -> None:
    assert told(ended[0].ledger().read()) is None
    assert [heard["event"] for heard in Hook.heard] == ["started", "shifted", "ended"]
    assert Hook.heard[-1]["status"] == "rolled back"
    assert "Requests are slower than the policy tolerates." in Hook.heard[-1]["text"]


def test_a_webhook_that_stumbles_is_told_again_in_order(ended: tuple[Scene, RolloutState]) -> None:
    assert told(ended[0].ledger().read(), 503, 429, 204, 500) is None
    assert [heard["event"] for heard in Hook.heard] == ["started", "shifted", "ended"]


def test_what_a_webhook_does_not_take_is_said_once_and_holds_nobody_up(ended: tuple[Scene, RolloutState]) -> None:
    trouble = told(ended[0].ledger().read(), 404, 503, 503, 503)
    assert trouble == "The webhook did not take 2 messages (HTTP 503); the ledger has them all."
    assert "secret-of-the-hook" not in trouble
    assert [heard["event"] for heard in Hook.heard] == ["ended"]


def test_a_webhook_where_nobody_listens_is_named_by_its_failure_alone(ended: tuple[Scene, RolloutState]) -> None:
    hook, events = Webhook("http://127.0.0.1:9/secret", CHAIN, pauses=()), ended[0].ledger().read()
    hook.tell(next(event for event in events if event.kind == "ended"), fold(events))
    assert hook.close() == "The webhook did not take 1 messages (ConnectionRefusedError); the ledger has them all."


def test_a_webhook_is_a_web_address() -> None:
    with pytest.raises(UserError, match="no web address"):
        Webhook("file:///etc/passwd", CHAIN)
