"""What a person sees: the tree, what changes in each object, who waits for what, and never a secret."""

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_embedded.engine.console import Captured
from pulumi_embedded.engine.display import NAME, DisplayOptions, OperationDisplay
from pulumi_embedded.engine.model import Op, OperationOutcome, PolicyEvent, Resource, StepEvent
from pulumi_embedded.engine.progress import PlainProgress, RunningStep, Snapshot
from pulumi_embedded.engine.property_diff import changes, lines
from pulumi_embedded.engine.style import shortened, shown_type
from pulumi_embedded.engine.values import UNKNOWN, secret

MARKER = "marker-7Qx2-in-the-clear"
PREFIX = "urn:pulumi:dev::proj::"
ROOT = Resource(urn=f"{PREFIX}pulumi:pulumi:Stack::proj-dev", type="pulumi:pulumi:Stack", custom=False)


def resource(type: str, name: str, parent: Resource = ROOT, **fields: Any) -> Resource:
    chain = "" if parent is ROOT else parent.urn.split("::")[2] + "$"
    return Resource(urn=f"{PREFIX}{chain}{type}::{name}", type=type, custom=True, parent=parent.urn, **fields)


def step(op: Op, old: Resource | None, new: Resource | None, **fields: Any) -> StepEvent:
    known = new or old
    assert known is not None
    return StepEvent(op=op, urn=known.urn, type=known.type, old=old, new=new, **fields)


def shown(
    *steps: StepEvent,
    outcome: OperationOutcome | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    events: Any = None,
    **options: Any,
) -> str:
    console = Captured()
    display = OperationDisplay(console, DisplayOptions(**{"planning": False, "progress": False, **options}))
    display.begin("Updating (dev)")
    for entry in steps:
        display.started(entry)
        display.finished(entry)
    if events:
        events(display)
    display.end(outcome or OperationOutcome(error=None, changes={}), before or {}, after or {})
    return console.stdout


GROUP = resource("my:mod:Group", "group")
OLD = resource("k8s:apps:Deployment", "triton", GROUP, inputs={"spec": {"replicas": 1}, "token": secret("old" + MARKER)})
NEW = resource("k8s:apps:Deployment", "triton", GROUP, inputs={"spec": {"replicas": 3}, "token": secret("new" + MARKER)})
UPDATE = step(Op.UPDATE, OLD, NEW, details={"spec": "update", "token": "update"})


def test_the_tree_shows_what_changes_below_what_contains_it() -> None:
    text = shown(
        step(Op.SAME, ROOT, ROOT), step(Op.SAME, GROUP, GROUP), UPDATE, step(Op.CREATE, None, resource("k8s:core:Secret", "s", GROUP))
    )
    tree = [line.rstrip() for line in text.split("\n\n")[1].splitlines()]
    assert tree == [
        "     Type                     Name      Status",
        "     pulumi:pulumi:Stack      proj-dev",
        "       my:mod:Group           group",
        " ~       k8s:apps:Deployment  triton    updated",
        "             ~ spec.replicas: 1 => 3",
        "             ~ token: [secret] => [secret]",
        " +       k8s:core:Secret      s         created",
    ]


def test_unchanged_resources_are_left_out_unless_asked_for() -> None:
    same = step(Op.SAME, GROUP, GROUP)
    assert "my:mod:Group" not in shown(same)
    assert "my:mod:Group" in shown(same, show_sames=True)


def test_the_order_of_the_tree_does_not_depend_on_the_order_of_events() -> None:
    steps = [step(Op.CREATE, None, resource("k8s:core:Thing", name)) for name in ("b", "c", "a")]
    assert shown(*steps) == shown(*reversed(steps))


def test_it_says_once_that_this_is_the_embedded_engine() -> None:
    assert shown(UPDATE).count(NAME) == 1


def test_a_secret_is_shown_nowhere() -> None:
    created = step(Op.CREATE, None, NEW)
    text = shown(UPDATE, created, diff=True, before={"out": secret("a" + MARKER)}, after={"out": secret("b" + MARKER)})
    assert MARKER not in text
    assert "~ out: [secret] => [secret]" in text


def test_a_plan_speaks_of_what_is_to_come_and_an_update_of_what_was_done() -> None:
    outcome = OperationOutcome(error=None, changes={"create": 2, "update": 1, "same": 7})
    assert "+ 2 to create" in shown(outcome=outcome, planning=True)
    assert "~ 1 updated" in shown(outcome=outcome)
    assert "7 unchanged" in shown(outcome=outcome)


def test_a_replacement_is_one_row_and_one_count() -> None:
    old, new = resource("aws:s3:Bucket", "b", inputs={"bucket": "x"}), resource("aws:s3:Bucket", "b", inputs={"bucket": "y"})
    detail = {"details": {"bucket": "update-replace"}, "replaces": ("bucket",)}
    steps = (step(Op.CREATE_REPLACEMENT, old, new, **detail), step(Op.REPLACE, old, new, **detail), step(Op.DELETE_REPLACED, old, None))
    text = shown(*steps, outcome=OperationOutcome(error=None, changes={"create-replacement": 1, "replace": 1, "delete-replaced": 1}))
    assert len(re.findall(r"aws:s3:Bucket", text)) == 1
    assert '~ bucket: "x" => "y"  (forces replacement)' in text
    assert "+- 1 replaced" in text
    assert "replacement\n" not in text.split("Resources:")[1]


def test_diagnostics_are_grouped_by_resource_with_all_their_lines() -> None:
    def events(display: OperationDisplay) -> None:
        display.diagnostic("error", "quota exceeded\n  ask for less", NEW.urn)
        display.diagnostic("info", "hello", ROOT.urn)
        display.diagnostic("warning", "twice", NEW.urn)
        display.diagnostic("debug", "detail", NEW.urn)

    text = shown(UPDATE, events=events)
    assert "  k8s:apps:Deployment (triton):\n    error: quota exceeded\n      ask for less\n    warning: twice\n" in text
    assert "updated; 1 error; 1 warning" in text
    assert "detail" not in text


def test_violations_name_policy_level_resource_and_pack() -> None:
    def events(display: OperationDisplay) -> None:
        display.policy(
            PolicyEvent(urn=NEW.urn, policy="gpu-limits", pack="tenant", version="1.2.0", level="mandatory", message="absent: add them")
        )

    text = shown(UPDATE, events=events, outcome=OperationOutcome(error="x", changes={}, policy_packs={"tenant": "1.2.0", "quiet": "1.0.0"}))
    assert "✗ tenant v1.2.0\n        [mandatory] gpu-limits  k8s:apps:Deployment (triton)\n            absent: add them" in text
    assert "✓ quiet v1.0.0: no violations" in text
    assert "updated; violates a policy" in text


def test_outputs_show_what_was_added_removed_and_changed() -> None:
    text = shown(before={"gone": 1, "same": "a", "url": "x"}, after={"same": "a", "url": "y", "new": [1]})
    assert text.split("Outputs:\n")[1].split("\n\n")[0].splitlines() == [
        "  - gone: 1",
        "  + new: [1]",
        '    same: "a"',
        '  ~ url: "x" => "y"',
    ]
    assert "Outputs:" not in shown(after={"a": 1}, outputs=False)


def test_an_output_that_is_a_map_shows_the_leaf_that_changed() -> None:
    cost = {"at_least": "2,165 USD", "at_most": "6,102 USD", "prices": "list, of the region, of a day in the year"}
    text = shown(before={"cost": cost}, after={"cost": {**cost, "at_most": "8,240 USD"}})
    assert '  ~ cost.at_most: "6,102 USD" => "8,240 USD"' in text.splitlines()


def test_a_failure_is_marked_at_its_resource_and_in_the_summary() -> None:
    text = shown(
        step(Op.SAME, GROUP, GROUP), events=lambda display: display.failed(UPDATE), outcome=OperationOutcome(error="boom", changes={})
    )
    assert "updating failed" in text
    assert "failed; what is done is recorded: run it again to go on" in text
    assert "failed; nothing was changed" in shown(outcome=OperationOutcome(error="boom", changes={}), planning=True)


def test_what_is_printed_holds_no_control_sequences() -> None:
    assert "\x1b" not in shown(UPDATE)


# ---- what changes in an object -------------------------------------------------------------------------------------------------------


def thing(**inputs: Any) -> Resource:
    return resource("k8s:core:Thing", "t", inputs=inputs)


def test_a_structure_named_by_the_provider_is_narrowed_to_the_leaf_that_changed() -> None:
    old = thing(spec={"template": {"containers": [{"image": "a", "args": [1, 2]}]}, "replicas": 1})
    new = thing(spec={"template": {"containers": [{"image": "b", "args": [1, 2, 3]}]}, "replicas": 1})
    assert lines(step(Op.UPDATE, old, new, details={"spec": "update"}), limit=None) == [
        "+ spec.template.containers[0].args[2]: 3",
        '~ spec.template.containers[0].image: "a" => "b"',
    ]


def test_a_component_without_details_is_compared_by_its_inputs() -> None:
    assert [change.path for change in changes(step(Op.UPDATE, thing(a=1, b=2), thing(a=1, b=3)))] == ["b"]


def test_keys_with_dots_are_quoted_in_paths() -> None:
    old, new = thing(labels={"app.io/name": "x"}), thing(labels={"app.io/name": "y"})
    assert lines(step(Op.UPDATE, old, new, details={"labels": "update"}), limit=None) == ['~ labels["app.io/name"]: "x" => "y"']


def test_texts_of_many_lines_show_the_lines_that_changed() -> None:
    old, new = thing(data="a\nb\nc\n"), thing(data="a\nB\nc\n")
    assert lines(step(Op.UPDATE, old, new, details={"data": "update"}), limit=None) == ["~ data:", "    - b", "    + B"]


def test_unknown_values_are_called_unknown() -> None:
    assert lines(step(Op.UPDATE, thing(a="x"), thing(a=UNKNOWN), details={"a": "update"}), limit=None) == ['~ a: "x" => [unknown]']


def test_more_changes_than_the_limit_are_counted() -> None:
    old, new = thing(**{f"k{n}": 0 for n in range(9)}), thing(**{f"k{n}": 1 for n in range(9)})
    shown_lines = lines(step(Op.UPDATE, old, new), limit=3)
    assert len(shown_lines) == 4
    assert shown_lines[-1].startswith("… 6 more")


def test_drift_found_by_a_refresh_is_shown_from_the_outputs() -> None:
    old = resource("k8s:core:Thing", "t", outputs={"replicas": 1})
    new = resource("k8s:core:Thing", "t", outputs={"replicas": 5})
    assert lines(step(Op.REFRESH, old, new), limit=None) == ["~ replicas: 1 => 5"]


@given(st.text(max_size=200), st.integers(2, 80))
def test_shortened_texts_fit_and_whole_ones_stay(text: str, width: int) -> None:
    result = shortened(text, width)
    assert len(result) <= width
    assert (result == text) == (len(text) <= width)


def test_types_lose_only_what_they_say_twice() -> None:
    assert shown_type("aws:s3/bucket:Bucket") == "aws:s3:Bucket"
    assert shown_type("kubernetes:apps/v1:Deployment") == "kubernetes:apps/v1:Deployment"


# ---- signs of life -------------------------------------------------------------------------------------------------------------------


T = TypeVar("T")


def eventually(look: Callable[[], T]) -> T:
    """The first true answer of `look`, within a minute."""
    deadline = time.monotonic() + 60
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found
    return found


WAITING = RunningStep(Op.CREATE, "k8s:apps:Deployment", "triton", "0/1 ready: insufficient nvidia.com/gpu", 12)


def test_a_plain_line_tells_what_is_being_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulumi_embedded.engine.progress.PLAIN_SECONDS", 0.05)
    console = Captured()
    progress = PlainProgress(console, lambda: Snapshot(12, 3, (WAITING,) * 5))
    progress.start()
    eventually(lambda: console.stdout)
    progress.stop()
    first = console.stdout.splitlines()[0]
    assert first.startswith("  12s: 3 done; creating k8s:apps:Deployment triton (0/1 ready: insufficient nvidia.com/gpu); ")
    assert first.endswith("; 2 more")
