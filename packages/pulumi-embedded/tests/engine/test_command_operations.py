"""What surrounds an operation: history, counts, locks, cancelling, what is kept out of sight and what a client sees."""

import errno
import json
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi import automation as auto
from pulumi.automation.errors import CommandError, ConcurrentUpdateError, InlineSourceRuntimeError

from engine.conftest import Workspace, entry, names
from engine.doubles import Group, Thing, Wait
from pulumi_embedded.engine.provider import ProviderError

MARKER = "marker-7Qx2-in-the-clear"


def two_things() -> None:
    group = Group("g")
    Thing("a", pulumi.ResourceOptions(parent=group), value=1)
    Thing("b", pulumi.ResourceOptions(parent=group), value=2)
    pulumi.export("n", 2)


def all_files(workspace: Workspace) -> dict[str, str]:
    return {str(file): file.read_text(errors="replace") for file in workspace.folder.rglob("*") if file.is_file()}


def state_file(workspace: Workspace) -> Path:
    return workspace.folder / "backend/.pulumi/stacks/case/dev.json"


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Runs `work` beside the test; the list gets its result or its exception."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


# ---- what is recorded ----------------------------------------------------------------------------------------------------------------


def test_history_counts_and_event_counts_are_the_same(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(two_things)
    events: list[auto.EngineEvent] = []
    result = stack.up(message="first", on_event=events.append)
    summary = next(event.summary_event for event in events if event.summary_event)
    assert result.summary.resource_changes == {"create": 4}
    assert dict(summary.resource_changes) == {"create": 4}
    assert (result.summary.message, result.summary.kind, result.summary.result, result.summary.version) == (
        "first",
        "update",
        "succeeded",
        1,
    )
    assert events[0].prelude_event is not None
    assert events[-1].cancel_event is not None
    assert [event.sequence for event in events] == list(range(len(events)))


def test_a_failed_update_is_in_the_history_too(engine_workspace: Workspace) -> None:
    engine_workspace.world.fail["create", "b"] = ProviderError("no room")
    stack = engine_workspace.stack(two_things)
    with pytest.raises(CommandError, match="update failed"):
        stack.up()
    assert [(entry.kind, entry.result) for entry in stack.history()] == [("update", "failed")]


def test_a_preview_records_nothing_and_takes_no_lock(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(two_things)
    before = all_files(engine_workspace)
    assert stack.preview().change_summary == {"create": 4}
    assert all_files(engine_workspace) == before
    assert stack.history() == []


def test_the_history_is_read_in_pages_newest_first(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(two_things)
    for number in range(3):
        stack.up(message=str(number))
    assert [entry.message for entry in stack.history(page_size=2)] == ["2", "1"]
    assert [entry.message for entry in stack.history(page_size=2, page=2)] == ["0"]
    assert [entry.version for entry in stack.history()] == [3, 2, 1]


def test_an_update_that_changes_nothing_leaves_the_state_file_byte_for_byte(engine_workspace: Workspace) -> None:
    def program() -> None:
        Thing("a", value=pulumi.Output.secret(MARKER))
        pulumi.export("s", pulumi.Output.secret({"deep": MARKER}))

    stack = engine_workspace.stack(program)
    stack.up()
    before = state_file(engine_workspace).read_bytes()
    assert stack.up().summary.resource_changes == {"same": 2}
    assert state_file(engine_workspace).read_bytes() == before


def test_configuration_refreshed_from_the_history_is_what_the_last_update_used(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(lambda: None)
    stack.set_all_config({"a": auto.ConfigValue("1"), "token": auto.ConfigValue(MARKER, secret=True)})
    stack.set_config("deep.x", auto.ConfigValue("2"), path=True)
    used = {key: (value.value, value.secret) for key, value in stack.get_all_config().items()}
    stack.up()
    stack.set_config("a", auto.ConfigValue("changed"))
    stack.remove_config("token")
    stack.refresh_config()
    assert {key: (value.value, value.secret) for key, value in stack.get_all_config().items()} == used


def test_a_clock_that_was_set_back_does_not_make_an_old_operation_the_latest(
    engine_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = engine_workspace.stack(two_things)
    stack.up(message="first")

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime(2001, 1, 1, tzinfo=UTC)

    monkeypatch.setattr("pulumi_embedded.engine.command.datetime", Earlier)
    assert stack.up(message="second").summary.message == "second"
    assert [entry.version for entry in stack.history()] == [2, 1]


@pytest.mark.parametrize("room", [0, 1, 2, 3, 5])
def test_a_disk_that_fills_up_during_an_update_is_told_and_loses_nothing(
    engine_workspace: Workspace, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    stack = engine_workspace.stack(two_things)
    real, left = os.write, room

    def write(descriptor: int, data: bytes) -> int:
        nonlocal left
        if b'"urn"' in bytes(data):
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(CommandError, match="the disk is full") as failure:
            stack.up()
    assert "Traceback" not in str(failure.value)
    stack.up()
    assert sorted(names(stack)) == ["a", "b", "g"]
    assert sorted(engine_workspace.world.live) == sorted(entry(stack, name)["id"] for name in ("a", "b"))


# ---- what is kept out of sight -------------------------------------------------------------------------------------------------------


def test_no_secret_is_in_a_file_an_event_or_a_line_whatever_happens_to_it(engine_workspace: Workspace) -> None:
    engine_workspace.world.fail["create", "broken"] = ProviderError(f'the API answered: "{MARKER}" is not allowed')

    def program() -> None:
        token = pulumi.Config().require_secret("token")
        first = Thing("a", value={"token": token})
        Thing("broken", pulumi.ResourceOptions(depends_on=[first]), value=token)
        token.apply(lambda text: pulumi.log.warn(f"about to use {text}"))
        pulumi.export("s", token)

    stack = engine_workspace.stack(program)
    stack.set_config("token", auto.ConfigValue(MARKER, secret=True))
    events: list[auto.EngineEvent] = []
    said: list[str] = []
    stack.preview(on_output=said.append, on_event=events.append)
    with pytest.raises(CommandError) as failure:
        stack.up(on_output=said.append, on_error=said.append, on_event=events.append)
    assert "is not allowed" in "\n".join(said)
    assert MARKER not in "\n".join(said)
    assert MARKER not in str(failure.value)
    assert MARKER not in json.dumps([str(vars(event)) + repr(event) for event in events])
    assert [name for name, text in all_files(engine_workspace).items() if MARKER in text] == []


# ---- one at a time, and stopping -----------------------------------------------------------------------------------------------------


def test_a_second_update_is_refused_while_one_runs_and_a_preview_is_not(engine_workspace: Workspace) -> None:
    wait = Wait("create", "a")
    engine_workspace.world.during = wait
    stack = engine_workspace.stack(two_things)
    thread, results = in_thread(stack.up)
    assert wait.reached.wait(60)
    try:
        for refused in (stack.up, stack.refresh, stack.destroy):
            with pytest.raises(ConcurrentUpdateError, match=r"update by .* \(pid \d+\).*pulumi cancel"):
                refused()
        assert engine_workspace.stack(two_things).preview().change_summary
    finally:
        wait.release.set()
        thread.join(60)
    assert results[0].summary.result == "succeeded"


def test_cancel_stops_a_running_update_and_its_state_says_what_was_done(engine_workspace: Workspace) -> None:
    wait = Wait("create", "b")
    engine_workspace.world.during = wait

    def program() -> None:
        first = Thing("a", value=1)
        Thing("b", pulumi.ResourceOptions(depends_on=[first]), value=2)

    stack = engine_workspace.stack(program)
    thread, results = in_thread(stack.up)
    assert wait.reached.wait(60)
    stack.cancel()
    thread.join(60)
    assert isinstance(results[0], CommandError)
    assert engine_workspace.world.names("create") == ["a", "b"]
    exported: Any = stack.export_stack().deployment
    assert [entry["urn"].rsplit("::", 1)[-1] for entry in exported["resources"] if entry["type"] == "mem:index:Thing"] == ["a"]
    assert stack.history()[0].result == "failed"
    engine_workspace.world.during = None
    assert stack.up().summary.resource_changes == {"create": 1, "same": 2}


def test_cancelling_when_nothing_runs_says_so(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(two_things)
    stack.cancel()


def test_four_stacks_are_updated_at_once_in_one_process(engine_workspace: Workspace) -> None:
    def program_of(name: str) -> Callable[[], None]:
        def program() -> None:
            for number in range(10):
                Thing(f"{name}-{number}", value=name)
            pulumi.export("who", pulumi.get_stack())

        return program

    stacks = [engine_workspace.stack(program_of(f"s{number}"), name=f"s{number}", project=f"p{number}") for number in range(4)]
    running = [in_thread(stack.up) for stack in stacks]
    for thread, _ in running:
        thread.join(60)
    assert [results[0].outputs["who"].value for _, results in running] == ["s0", "s1", "s2", "s3"]
    assert {results[0].summary.resource_changes["create"] for _, results in running} == {11}


# ---- what a client sees --------------------------------------------------------------------------------------------------------------


def test_expecting_no_changes_fails_when_there_are_some(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(two_things)
    with pytest.raises(CommandError, match="no changes were expected but changes were proposed"):
        stack.preview(expect_no_changes=True)
    with pytest.raises(CommandError, match="no changes were expected but changes occurred"):
        stack.up(expect_no_changes=True)
    stack.up(expect_no_changes=True)
    stack.preview(expect_no_changes=True)


def test_an_exception_in_an_inline_program_is_told_apart(engine_workspace: Workspace) -> None:
    def program() -> None:
        raise ValueError("not like this")

    with pytest.raises(InlineSourceRuntimeError, match="not like this"):
        engine_workspace.stack(program).up()


def test_a_json_preview_is_one_document(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(two_things)
    digest = json.loads(stack.preview(json=True).stdout)
    assert digest["changeSummary"] == {"create": 4}
    assert sorted(step["urn"].rsplit("::", 1)[-1] for step in digest["steps"]) == ["a", "b", "case-dev", "g"]
    assert {step["op"] for step in digest["steps"]} == {"create"}


def test_a_plan_shows_the_outputs_that_will_be(engine_workspace: Workspace) -> None:
    assert "+ n: 2" in engine_workspace.stack(two_things).preview().stdout


def test_the_configuration_is_shown_when_asked_for_with_its_secrets_masked(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(two_things)
    stack.set_config("token", auto.ConfigValue(MARKER, secret=True))
    stack.set_config("plain", auto.ConfigValue("1"))
    folder = str(engine_workspace.folder / "case")
    assert engine_workspace.command is not None
    with pytest.raises(CommandError, match=r"Configuration:\n    case:plain: 1\n    case:token: \[secret\]\n"):
        engine_workspace.command.run(
            ["preview", "--show-config", "--stack", "dev", "--client", "127.0.0.1:9"], folder, engine_workspace.environment
        )


def test_outputs_and_progress_can_be_suppressed(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(two_things)
    assert "Outputs:" in stack.preview().stdout
    assert "Outputs:" not in stack.preview(suppress_outputs=True).stdout


def test_a_long_wait_is_told_while_it_lasts(engine_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulumi_embedded.engine.progress.PLAIN_SECONDS", 0.1)
    wait = Wait("create", "a")
    engine_workspace.world.during = wait
    stack = engine_workspace.stack(two_things)
    said: list[str] = []
    thread, _ = in_thread(lambda: stack.up(on_output=said.append))
    assert wait.reached.wait(60)
    deadline = time.monotonic() + 60
    while not (told := any("creating mem:index:Thing a" in line for line in list(said))) and time.monotonic() < deadline:
        time.sleep(0.05)
    wait.release.set()
    thread.join(60)
    assert told


def test_destroy_can_forget_the_stack_as_well(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(two_things)
    stack.up()
    stack.destroy(remove=True)
    assert engine_workspace.world.live == {}
    assert stack.workspace.list_stacks() == []


def test_a_stack_with_resources_is_not_removed_unless_forced(engine_workspace: Workspace) -> None:
    stack = engine_workspace.stack(two_things)
    stack.up()
    with pytest.raises(CommandError, match="still has resources; removal rejected"):
        stack.workspace.remove_stack("dev")
    stack.workspace.remove_stack("dev", force=True)
    assert stack.workspace.list_stacks() == []


def test_secrets_of_another_stack_come_through_a_reference_and_stay_secret(engine_workspace: Workspace) -> None:
    def upper() -> None:
        pulumi.export("plain", 1)
        pulumi.export("token", pulumi.Output.secret(MARKER))

    def lower() -> None:
        reference = pulumi.StackReference("organization/upper/dev")
        pulumi.export("plain", reference.require_output("plain"))
        pulumi.export("token", reference.require_output("token"))

    engine_workspace.stack(upper, project="upper").up()
    outputs = engine_workspace.stack(lower, project="lower").up().outputs
    assert (outputs["plain"].value, outputs["plain"].secret) == (1, False)
    assert (outputs["token"].value, outputs["token"].secret) == (MARKER, True)


def test_a_policy_pack_that_is_not_there_is_named(engine_workspace: Workspace) -> None:
    with pytest.raises(CommandError, match=r"policy pack or configuration not found: .*/nope"):
        engine_workspace.stack(two_things).preview(policy_packs=["nope"])
