"""The event stream: a client of the Automation API reads every event, in order, without a secret, before the verb returns."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.automation.events import DiffKind, EngineEvent, OpType
from pulumi.runtime.proto import events_pb2_grpc

from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.events import EventStream, metadata
from pulumi_embedded.engine.model import Op, OperationOutcome, PolicyEvent, Resource, StepEvent
from pulumi_embedded.engine.preview_json import PreviewDigest
from pulumi_embedded.engine.redact import Redactor
from pulumi_embedded.engine.values import secret

MARKER = "marker-7Qx2-in-the-clear"
URN = "urn:pulumi:dev::proj::k8s:apps:Deployment::triton"


def resource(**fields: Any) -> Resource:
    return Resource(**{"urn": URN, "type": "k8s:apps:Deployment", "custom": True, "id": "x", "provider": "urn:p::id", **fields})


UPDATE = StepEvent(
    op=Op.UPDATE,
    urn=URN,
    type="k8s:apps:Deployment",
    provider="urn:p::id",
    old=resource(inputs={"spec": {"replicas": 1}, "token": secret(MARKER)}, protect=True),
    new=resource(inputs={"spec": {"replicas": 3}, "token": secret(MARKER)}, init_errors=("never ready",)),
    details={"spec.replicas": "update", 'data["a.b"]': "add-replace"},
    replaces=('data["a.b"]',),
)
OUTCOME = OperationOutcome(error=None, changes={"create": 1, "same": 2}, policy_packs={"pack": "1.0.0"}, duration=2.6)


def stream(events: list[str], *, debug: bool = False, planning: bool = False) -> EventStream:
    return EventStream(events.append, lambda: None, lambda: 1_700_000_000.5, planning=planning, debug=debug)


def parsed(events: list[str]) -> list[EngineEvent]:
    return [EngineEvent.from_json(json.loads(event)) for event in events]


def test_the_sdk_reads_every_field_of_a_step() -> None:
    events: list[str] = []
    sink = stream(events)
    sink.started(UPDATE)
    sink.finished(UPDATE)
    sink.failed(UPDATE)
    pre, outputs, failed = parsed(events)
    assert pre.resource_pre_event and outputs.res_outputs_event and failed.res_op_failed_event
    for event in (pre.resource_pre_event, outputs.res_outputs_event, failed.res_op_failed_event):
        step = event.metadata
        assert step.op == OpType.UPDATE
        assert (step.urn, step.type, step.provider) == (URN, "k8s:apps:Deployment", "urn:p::id")
        assert step.diffs == ["data", "spec"]
        assert step.keys == ['data["a.b"]']
        assert step.detailed_diff
        assert {path: diff.diff_kind for path, diff in step.detailed_diff.items()} == {
            "spec.replicas": DiffKind.UPDATE,
            'data["a.b"]': DiffKind.ADD_REPLACE,
        }
        assert step.old and step.new
        assert (step.old.protect, step.new.init_errors) == (True, ["never ready"])


@pytest.mark.parametrize("op", list(Op))
def test_every_operation_is_one_that_the_sdk_knows(op: Op) -> None:
    assert OpType(metadata(StepEvent(op=op, urn=URN, type="t:t:T"))["op"])


def test_events_are_numbered_from_zero_and_end_with_the_cancel_event() -> None:
    events: list[str] = []
    sink = stream(events)
    sink.prelude({"proj:a": "1"})
    sink.summary(OUTCOME)
    sink.close()
    read = parsed(events)
    assert [event.sequence for event in read] == [0, 1, 2]
    assert {event.timestamp for event in read} == {1_700_000_000}
    assert read[0].prelude_event and read[0].prelude_event.config == {"proj:a": "1"}
    summary = read[1].summary_event
    assert summary
    assert (dict(summary.resource_changes), summary.policy_packs, summary.duration_seconds) == (
        {"create": 1, "same": 2},
        {"pack": "1.0.0"},
        3,
    )
    assert read[2].cancel_event is not None


def test_policy_and_diagnostic_events_reach_the_sdk_whole() -> None:
    events: list[str] = []
    sink = stream(events)
    sink.policy(PolicyEvent(urn=URN, policy="gpu-limits", pack="pack", version="1.0.0", level="mandatory", message="no"))
    sink.diagnostic("warning", "slow", URN)
    policy, diagnostic = parsed(events)
    assert policy.policy_event and diagnostic.diagnostic_event
    assert vars(policy.policy_event) == {
        "message": "no",
        "color": "never",
        "policy_name": "gpu-limits",
        "policy_pack_name": "pack",
        "policy_pack_version": "1.0.0",
        "policy_pack_version_tag": "1.0.0",
        "enforcement_level": "mandatory",
        "resource_urn": URN,
    }
    assert (diagnostic.diagnostic_event.severity, diagnostic.diagnostic_event.urn) == ("warning", URN)


def test_debug_messages_are_sent_only_when_asked_for() -> None:
    quiet: list[str] = []
    loud: list[str] = []
    stream(quiet).diagnostic("debug", "detail")
    stream(loud, debug=True).diagnostic("debug", "detail")
    assert (len(quiet), len(loud)) == (0, 1)


def test_a_default_provider_is_not_told() -> None:
    events: list[str] = []
    sink = stream(events)
    step = StepEvent(op=Op.CREATE, urn=URN, type="pulumi:providers:aws", quiet=True)
    sink.started(step)
    sink.finished(step)
    assert events == []


def test_no_event_holds_a_secret_in_the_clear() -> None:
    events: list[str] = []
    sink = Redactor(stream(events), [])
    sink.started(UPDATE)
    sink.finished(UPDATE)
    sink.diagnostic("error", f'the API answered: "{MARKER}" is too short', URN)
    sink.status(URN, f"waiting for {MARKER}")
    sink.policy(PolicyEvent(urn=URN, policy="p", pack="p", version="1", level="advisory", message=f"found {MARKER}"))
    assert len(events) == 5
    assert MARKER not in "".join(events)


def test_secret_configuration_is_kept_out_of_texts_also_in_its_escaped_form() -> None:
    events: list[str] = []
    sink = Redactor(stream(events), ['p"ass word'])
    sink.diagnostic("info", 'plain p"ass word, escaped p\\"ass word')
    assert "ass word" not in "".join(events)


def message(event: str) -> str:
    return json.loads(event)["diagnosticEvent"]["message"].rstrip()


KUBECONFIG = (
    "apiVersion: v1\nkind: Config\nusers:\n- name: admin\n  user:\n    token: tok-4f1c9aa2\n    client-key-data: a2V5LW9mLWFkbWlu\n"
)


@pytest.mark.parametrize(
    "held",
    [KUBECONFIG, json.dumps({"kind": "Config", "users": [{"token": "tok-4f1c9aa2"}]}), {"kind": "Config", "token": "tok-4f1c9aa2"}],
    ids=["yaml", "json", "structure"],
)
def test_a_secret_kubeconfig_hides_its_credentials_and_no_words_of_others(held: Any) -> None:
    events: list[str] = []
    sink = Redactor(stream(events), [])
    sink.started(replace(UPDATE, new=resource(inputs={"kubeconfig": secret(held)})))
    sink.diagnostic("error", "apiVersion: v1, kind: ConfigMap: refused for Bearer tok-4f1c9aa2")
    assert message(events[-1]) == "apiVersion: v1, kind: ConfigMap: refused for Bearer [secret]"


def test_a_line_of_a_secret_document_is_masked_as_a_whole() -> None:
    events: list[str] = []
    sink = Redactor(stream(events), ["-----BEGIN KEY-----\nMIIEvQIBADANBg+/==\n-----END KEY-----"])
    sink.diagnostic("error", "cannot parse: MIIEvQIBADANBg+/==; that is all")
    assert message(events[-1]) == "cannot parse: [secret]; that is all"


def test_short_secrets_do_not_blot_out_ordinary_words() -> None:
    events: list[str] = []
    Redactor(stream(events), ["1", "yes"]).diagnostic("info", "1 of 3: yes")
    assert "1 of 3: yes" in events[0]


class _Client(events_pb2_grpc.EventsServicer):
    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []

    def StreamEvents(self, request_iterator: Iterator[Any], context: object) -> empty_pb2.Empty:
        for request in request_iterator:
            time.sleep(0.002)
            self.received.append(json.loads(request.event))
        return empty_pb2.Empty()


def test_closing_a_stream_waits_until_the_client_has_everything() -> None:
    client = _Client()
    server = grpc.server(ThreadPoolExecutor(2))
    events_pb2_grpc.add_EventsServicer_to_server(client, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        sink = EventStream.open(f"tcp://127.0.0.1:{port}", time.time, planning=False, debug=False)
        for number in range(200):
            sink.diagnostic("info", str(number))
        sink.close()
        assert [event["sequence"] for event in client.received] == list(range(201))
        assert client.received[-1]["cancelEvent"] == {}
    finally:
        server.stop(None)


def test_a_client_that_is_gone_does_not_hold_up_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulumi_embedded.engine.events.DELIVERY_SECONDS", 3600)  # longer than this test may take
    sink = EventStream.open("tcp://127.0.0.1:9", time.time, planning=False, debug=False)
    sink.diagnostic("info", "anyone?")
    sink.close()


def test_a_file_gets_one_event_a_line(tmp_path: Path) -> None:
    file = tmp_path / "events.txt"
    sink = EventStream.open(str(file), time.time, planning=True, debug=False)
    sink.started(UPDATE)
    sink.close()
    first, last = (json.loads(line) for line in file.read_text().splitlines())
    assert first["resourcePreEvent"]["planning"] is True
    assert "cancelEvent" in last


def test_an_event_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="event log"):
        EventStream.open(str(tmp_path / "no" / "folder"), time.time, planning=False, debug=False)


def test_an_event_log_on_a_full_disk_does_not_stop_the_operation() -> None:
    sink = EventStream.open("/dev/full", time.time, planning=False, debug=False)
    sink.started(UPDATE)
    sink.close()


def test_the_json_preview_is_a_digest_without_unchanged_resources_or_secrets() -> None:
    digest = PreviewDigest({"proj:a": "1"})
    digest.started(StepEvent(op=Op.SAME, urn=URN + "2", type="t:t:T", old=resource(), new=resource()))
    digest.started(StepEvent(op=Op.SAME, urn="urn:root", type="pulumi:pulumi:Stack"))
    digest.started(UPDATE)
    digest.diagnostic("warning", "slow", URN)
    result = digest.result(OUTCOME)
    assert [step["urn"] for step in result["steps"]] == ["urn:root", URN]
    step = result["steps"][1]
    assert step["newState"]["inputs"] == {"spec": {"replicas": 3}, "token": "[secret]"}
    assert step["detailedDiff"]["spec.replicas"] == {"kind": "update", "inputDiff": True}
    assert (step["diffReasons"], step["replaceReasons"]) == (["data", "spec"], ['data["a.b"]'])
    assert result["changeSummary"] == {"create": 1, "same": 2}
    assert result["diagnostics"] == [{"urn": URN, "message": "slow\n", "severity": "warning"}]
    assert result["duration"] == 2_600_000_000
    assert MARKER not in json.dumps(result)


def test_the_steps_of_the_json_preview_stand_in_the_order_of_the_plan() -> None:
    def step(op: Op, name: str, *needs: str) -> StepEvent:
        made = resource(urn=URN + name, dependencies=tuple(URN + need for need in needs))
        old, new = (made, None) if op is Op.DELETE else (None, made)
        return StepEvent(op=op, urn=made.urn, type="t:t:T", old=old, new=new)

    plan = [step(Op.CREATE, "a", "z"), step(Op.CREATE, "b"), step(Op.CREATE, "z"), step(Op.DELETE, "c"), step(Op.DELETE, "d", "c")]
    for arrived in (plan, plan[::-1], plan[2:] + plan[:2]):
        digest = PreviewDigest({})
        for each in arrived:
            digest.started(each)
        assert [told["urn"].removeprefix(URN) for told in digest.result(OUTCOME)["steps"]] == ["z", "a", "b", "d", "c"]
