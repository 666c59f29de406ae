"""CrossGuard packs, run by the genuine policy server: what they see, what they stop, how they are configured."""

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi import automation as auto

from engine.conftest import Workspace, diagnostics, entry, names
from engine.doubles import MemProvider, Thing

PACK = """
from pulumi_policy import *

def owner(args, report):
    if args.resource_type == "mem:index:Thing" and not isinstance(args.props.get("value"), str):
        report("a thing needs a text")

def few(args, report):
    if args.resource_type == "mem:index:Thing" and len(args.name) > args.get_config()["max"]:
        report(f"the name is longer than {args.get_config()['max']:g}")

def fix(args):
    if args.resource_type == "mem:index:Thing" and args.props.get("zone") == "wrong":
        return {**args.props, "zone": "right"}

def cap(args, report):
    if sum(r.resource_type == "mem:index:Thing" for r in args.resources) > 2:
        report("too many things")

def broken(args, report):
    if args.name == "boom":
        raise KeyError("oops")

PolicyPack("guard", enforcement_level=EnforcementLevel.MANDATORY, policies=[
    ResourceValidationPolicy("owner", "Things have texts.", owner),
    ResourceValidationPolicy("few", "Short names.", few, enforcement_level=EnforcementLevel.ADVISORY,
        config_schema=PolicyConfigSchema(properties={"max": {"type": "integer", "minimum": 1, "default": 20}})),
    ResourceValidationPolicy("fix", "Zones are right.", remediate=fix, enforcement_level=EnforcementLevel.REMEDIATE),
    ResourceValidationPolicy("broken", "Raises.", broken),
    StackValidationPolicy("cap", "Not too many.", cap),
])
"""


@pytest.fixture
def pack(engine_workspace: Workspace) -> str:
    return engine_workspace.pack(PACK)


def told(events: list[Any]) -> list[tuple[str, str, str]]:
    return [
        (e.policy_event.policy_name, e.policy_event.enforcement_level, e.policy_event.resource_urn.rsplit("::", 1)[-1])
        for e in events
        if e.policy_event
    ]


def config(workspace: Workspace, value: object) -> list[str]:
    file = workspace.folder / "policy-config.json"
    file.write_text(json.dumps(value))
    return [str(file)]


def test_a_preview_judges_every_resource_and_fails_at_its_end(engine_workspace: Workspace, pack: str) -> None:
    events: list[Any] = []
    stack = engine_workspace.stack(lambda: [Thing("first", value=1), Thing("second", value=2)])
    with pytest.raises(auto.CommandError):
        stack.preview(policy_packs=[pack], on_event=events.append)
    assert sorted(told(events)) == [("owner", "mandatory", "first"), ("owner", "mandatory", "second")]


def test_an_update_stops_before_the_resource_that_breaks_a_policy(engine_workspace: Workspace, pack: str) -> None:
    def program() -> None:
        good = Thing("good", value="x")
        bad = Thing("bad", value=1, opts=pulumi.ResourceOptions(depends_on=[good]))
        Thing("after", value="x", opts=pulumi.ResourceOptions(depends_on=[bad]))

    stack = engine_workspace.stack(program)
    with pytest.raises(auto.CommandError):
        stack.up(policy_packs=[pack])
    assert names(stack) == ["good"]


def test_an_advice_does_not_stop_anything(engine_workspace: Workspace, pack: str) -> None:
    events: list[Any] = []
    stack = engine_workspace.stack(lambda: Thing("a-name-of-many-letters-indeed", value="x") and None)
    assert stack.up(policy_packs=[pack], on_event=events.append).summary.result == "succeeded"
    assert told(events) == [("few", "advisory", "a-name-of-many-letters-indeed")]


def test_configuration_changes_levels_and_settings(engine_workspace: Workspace, pack: str) -> None:
    events: list[Any] = []
    stack = engine_workspace.stack(lambda: Thing("four", value=1) and None)
    file = config(engine_workspace, {"all": "disabled", "few": {"enforcementLevel": "mandatory", "max": 3}})
    with pytest.raises(auto.CommandError):
        stack.preview(policy_packs=[pack], policy_pack_configs=file, on_event=events.append)
    assert told(events) == [("few", "mandatory", "four")]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"few": {"max": 0}}, "few: max: 0 is less than the minimum of 1"),
        ({"few": {"max": "many"}}, "few: max: 'many' is not of type 'integer'"),
        ({"fewer": "advisory"}, "fewer: no such policy; the pack has broken, cap, few, fix, owner"),
        ({"few": "strict"}, "few: enforcement level 'strict' is not one of advisory, mandatory, disabled, remediate"),
        ({"all": {"max": 1}}, "all: only an enforcement level can be set for every policy"),
    ],
)
def test_wrong_configuration_is_refused_with_its_path(engine_workspace: Workspace, pack: str, value: object, fault: str) -> None:
    stack = engine_workspace.stack(lambda: Thing("a", value="x") and None)
    with pytest.raises(auto.CommandError) as raised:
        stack.up(policy_packs=[pack], policy_pack_configs=config(engine_workspace, value))
    assert fault in str(raised.value)
    assert engine_workspace.world.live == {}


def test_a_remediation_changes_what_is_created_and_keeps_secrets(engine_workspace: Workspace, pack: str) -> None:
    stack = engine_workspace.stack(lambda: Thing("a", value=pulumi.Output.secret("hidden"), zone="wrong") and None)
    stack.up(policy_packs=[pack])
    assert engine_workspace.world.object("a")["zone"] == "right"
    assert "hidden" not in (engine_workspace.folder / "backend/.pulumi/stacks/case/dev.json").read_text()
    assert engine_workspace.world.object("a")["value"] == "hidden"


def test_an_unknown_in_a_preview_is_told_as_advice(engine_workspace: Workspace, pack: str) -> None:
    events: list[Any] = []
    stack = engine_workspace.stack(lambda: Thing("b", value=Thing("a", value="x").arn) and None)
    stack.preview(policy_packs=[pack], on_event=events.append)
    messages = [e.policy_event.message for e in events if e.policy_event]
    assert told(events) == [("owner", "advisory", "b")]
    assert "can't run policy" in messages[0]


def test_a_policy_of_the_whole_stack_fails_it_before_anything_is_deleted(engine_workspace: Workspace, pack: str) -> None:
    stack = engine_workspace.stack(lambda: Thing("old", value="x") and None)
    stack.up()

    def three() -> None:
        for number in range(3):
            Thing(f"new{number}", value="x")

    with pytest.raises(auto.CommandError):
        stack.up(program=three, policy_packs=[pack])
    assert sorted(names(stack)) == ["new0", "new1", "new2", "old"]


def test_a_policy_that_raises_fails_the_run_with_its_text(engine_workspace: Workspace, pack: str) -> None:
    events: list[Any] = []
    with pytest.raises(auto.CommandError):
        engine_workspace.stack(lambda: Thing("boom", value="x") and None).preview(policy_packs=[pack], on_event=events.append)
    assert any("policy pack guard failed" in text and "oops" in text for text in diagnostics(events))


def test_policies_see_provider_configuration_and_options(engine_workspace: Workspace) -> None:
    pack = engine_workspace.pack(
        """
from pulumi_policy import *
def look(args, report):
    if args.resource_type == "mem:index:Thing":
        own, opts = args.provider, args.opts
        seconds = opts.custom_timeouts.create_seconds
        report(f"{own.name} {own.props['region']} protect={opts.protect} first={opts.delete_before_replace} create={seconds:g}")
PolicyPack("look", enforcement_level=EnforcementLevel.ADVISORY, policies=[ResourceValidationPolicy("look", "Looks.", look)])
"""
    )
    events: list[Any] = []

    def program() -> None:
        options = pulumi.ResourceOptions(
            provider=MemProvider("own", region="north"),
            protect=True,
            delete_before_replace=True,
            custom_timeouts=pulumi.CustomTimeouts(create="1m"),
        )
        Thing("a", opts=options)

    engine_workspace.stack(program).preview(policy_packs=[pack], on_event=events.append)
    assert ["own north protect=True first=True create=60" in e.policy_event.message for e in events if e.policy_event] == [True]


def test_the_version_of_the_pack_is_that_of_its_file(engine_workspace: Workspace, pack: str) -> None:
    events: list[Any] = []
    stack = engine_workspace.stack(lambda: Thing("a-name-of-many-letters-indeed", value="x") and None)
    stack.preview(policy_packs=[pack], on_event=events.append)
    (event,) = [e.policy_event for e in events if e.policy_event]
    assert (event.policy_pack_name, event.policy_pack_version) == ("guard", "0.1.0")


def test_two_packs_both_judge(engine_workspace: Workspace, pack: str) -> None:
    other = engine_workspace.pack(PACK.replace('"guard"', '"second"'))
    events: list[Any] = []
    with pytest.raises(auto.CommandError):
        engine_workspace.stack(lambda: Thing("a", value=1) and None).preview(policy_packs=[pack, other], on_event=events.append)
    assert sorted(e.policy_event.policy_pack_name for e in events if e.policy_event) == ["guard", "second"]


def test_a_pack_that_cannot_be_loaded_is_named_with_the_reason(engine_workspace: Workspace) -> None:
    pack = engine_workspace.pack("import no_such_module\n")
    with pytest.raises(auto.CommandError, match=r"policy pack .*pack-\w+ failed to load[\s\S]*no_such_module"):
        engine_workspace.stack(lambda: Thing("a", value="x") and None).up(policy_packs=[pack])
    assert engine_workspace.world.live == {}


def test_a_pack_in_another_language_is_refused(engine_workspace: Workspace) -> None:
    pack = engine_workspace.pack("", "runtime: nodejs\n")
    with pytest.raises(auto.CommandError, match="runtime 'nodejs' is not supported"):
        engine_workspace.stack(lambda: Thing("a", value="x") and None).up(policy_packs=[pack])


def test_no_process_of_a_pack_stays_behind(engine_workspace: Workspace, pack: str) -> None:
    engine_workspace.stack(lambda: Thing("a", value="x") and None).preview(policy_packs=[pack])
    running = [
        line.read_bytes().replace(b"\0", b" ").decode(errors="replace") for line in Path("/proc").glob("[0-9]*/cmdline") if line.exists()
    ]
    assert not [command for command in running if pack in command]


def test_a_recorded_resource_keeps_no_trace_of_an_update_that_a_policy_stopped(engine_workspace: Workspace, pack: str) -> None:
    stack = engine_workspace.stack(lambda: Thing("a", value="x") and None)
    stack.up()
    with pytest.raises(auto.CommandError):
        stack.up(program=lambda: Thing("a", value=2) and None, policy_packs=[pack])
    assert entry(stack, "a")["inputs"]["value"] == "x"
    assert stack.export_stack().deployment.get("pending_operations") in (None, [])
