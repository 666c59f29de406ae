"""Components, remote components and their methods, provider inheritance, transforms and hooks."""

from typing import Any

import pulumi
import pytest
from pulumi import automation as auto

from engine.conftest import Workspace, entry, names, operations
from engine.doubles import Group, MemProvider, Thing

Options = pulumi.ResourceOptions


class Cluster(pulumi.ComponentResource):
    """As pulumi_eks declares it: a component that its provider constructs."""

    kubeconfig_json: pulumi.Output[str]

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None:
        outputs = {"kubeconfig": None, "kubeconfigJson": None, "eksCluster": None, "awsProvider": None}
        super().__init__("eks:index:Cluster", name, {**outputs, **inputs}, opts, remote=True)


def test_component_outputs_and_inputs_are_recorded(engine_workspace: Workspace) -> None:
    def program() -> None:
        group = Group("group", size=2)
        group.register_outputs({"made": Thing("a", name="a", opts=Options(parent=group)).arn})

    stack = engine_workspace.stack(program)
    stack.up()
    assert entry(stack, "group")["inputs"] == {"size": 2}
    assert entry(stack, "group")["outputs"] == {"made": "arn:a"}
    assert entry(stack, "a")["parent"] == entry(stack, "group")["urn"]
    assert entry(stack, "a")["urn"].endswith("::test:index:Group$mem:index:Thing::a")


def test_a_changed_component_input_is_an_update(engine_workspace: Workspace) -> None:
    size = 1
    stack = engine_workspace.stack(lambda: Group("group", size=size) and None)
    stack.up()
    size = 2
    assert stack.up().summary.resource_changes == {"same": 1, "update": 1}


def test_the_last_step_of_a_component_shows_its_outputs(engine_workspace: Workspace) -> None:
    events: list[Any] = []

    def program() -> None:
        Group("group").register_outputs({"size": 3})
        pulumi.export("done", True)

    engine_workspace.stack(program).preview(on_event=events.append)
    outputs = {
        e.res_outputs_event.metadata.urn.rsplit("::", 1)[-1]: e.res_outputs_event.metadata.new.outputs
        for e in events
        if e.res_outputs_event
    }
    assert outputs == {"group": {"size": 3}, "case-dev": {"done": True}}


def test_children_use_the_provider_of_their_component(engine_workspace: Workspace) -> None:
    def program() -> None:
        own = MemProvider("own", region="component")
        outer = Group("outer", opts=Options(providers=[own]))
        inner = Group("inner", opts=Options(parent=outer))
        Thing("deep", name="deep", opts=Options(parent=inner))
        Thing("outside", name="outside")

    engine_workspace.stack(program).up()
    assert engine_workspace.world.object("deep")["region"] == "component"
    assert engine_workspace.world.object("outside")["region"] == ""


def test_a_remote_component_registers_children_and_answers_with_secrets(engine_workspace: Workspace) -> None:
    def program() -> None:
        cluster: Any = Cluster("c", value=pulumi.Output.secret("hidden"))
        pulumi.export("kubeconfig", cluster.kubeconfigJson)
        pulumi.export("id", cluster.eksCluster)
        Thing("user", value=cluster.kubeconfigJson)

    stack = engine_workspace.stack(program)
    assert stack.preview().change_summary == {"create": 5}
    done = stack.up()
    assert done.outputs["kubeconfig"].value == '{"server": "arn:c-eks"}' and done.outputs["kubeconfig"].secret
    assert done.outputs["id"].value == "c-eks"
    assert names(stack) == ["c", "c-role", "c-eks", "user"]
    assert entry(stack, "c-eks")["parent"] == entry(stack, "c")["urn"]
    assert entry(stack, "c-eks")["dependencies"] == [entry(stack, "c-role")["urn"]]
    assert stack.up().summary.resource_changes == {"same": 5}
    assert "hidden" not in (engine_workspace.folder / "backend/.pulumi/stacks/case/dev.json").read_text()


def test_a_method_of_a_component_is_unknown_in_a_preview_and_secret_afterwards(engine_workspace: Workspace) -> None:
    seen: list[Any] = []

    def program() -> None:
        cluster = Cluster("c")
        result = pulumi.runtime.call("eks:index:Cluster/getKubeconfig", {"__self__": cluster}, cluster)
        text = result.apply(lambda value: value["result"])
        text.apply(seen.append)
        pulumi.export("text", text)

    stack = engine_workspace.stack(program)
    stack.preview()
    assert seen == []
    done = stack.up()
    assert done.outputs["text"].value == '{"server": "arn:c-eks"}' and done.outputs["text"].secret


def test_a_remote_component_follows_its_alias(engine_workspace: Workspace) -> None:
    name, aliases = "one", []

    def program() -> None:
        Cluster(name, opts=Options(aliases=aliases))

    stack = engine_workspace.stack(program)
    stack.up()
    name, aliases = "two", [pulumi.Alias(name="one")]
    done = stack.up().summary.resource_changes or {}
    assert "create" not in done and "delete" not in done


def test_a_transform_says_what_a_child_of_a_remote_component_was_called(engine_workspace: Workspace) -> None:
    name = "one"
    transforms: list[Any] = []

    def program() -> None:
        Cluster(name, opts=Options(transforms=transforms))

    def formerly(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if args.type_ != "aws:iam/role:Role":
            return None
        aliases = Options(aliases=[pulumi.Alias(name="never-role"), pulumi.Alias(name="one-role")])
        return pulumi.ResourceTransformResult(args.props, Options.merge(args.opts, aliases))

    stack = engine_workspace.stack(program)
    stack.up()
    before = entry(stack, "one-role")
    name, transforms = "two", [formerly]
    stack.up()
    assert entry(stack, "two-role")["id"] == before["id"]


def test_an_unknown_component_is_named(engine_workspace: Workspace) -> None:
    class Foreign(pulumi.ComponentResource):
        def __init__(self) -> None:
            super().__init__("mem:index:Nothing", "x", {}, remote=True)

    with pytest.raises(auto.CommandError, match="component mem:index:Nothing is not modelled by the mem double"):
        engine_workspace.stack(lambda: Foreign() and None).up()


def test_transforms_run_from_the_resource_outwards(engine_workspace: Workspace) -> None:
    def adding(letter: str) -> Any:
        def transform(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
            if args.type_ != "mem:index:Thing":
                return None
            return pulumi.ResourceTransformResult({**args.props, "value": f"{args.props['value']}{letter}"}, args.opts)

        return transform

    def program() -> None:
        pulumi.runtime.register_resource_transform(adding("S"))
        outer = Group("outer", opts=Options(transforms=[adding("o")]))
        inner = Group("inner", opts=Options(parent=outer, transforms=[adding("i")]))
        Thing("a", name="a", value="", opts=Options(parent=inner, transforms=[adding("1"), adding("2")]))
        Thing("b", name="b", value="")

    engine_workspace.stack(program).up()
    assert engine_workspace.world.live["a"]["value"] == "12ioS"
    assert engine_workspace.world.live["b"]["value"] == "S"


def test_a_transform_can_change_options(engine_workspace: Workspace) -> None:
    def protecting(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult:
        return pulumi.ResourceTransformResult(args.props, Options.merge(args.opts, Options(protect=True, ignore_changes=["value"])))

    stack = engine_workspace.stack(lambda: Thing("a", opts=Options(transforms=[protecting])) and None)
    stack.up()
    assert entry(stack, "a")["protect"] is True
    assert entry(stack, "a")["ignoreChanges"] == ["value"]


def test_a_transform_that_changes_nothing_keeps_every_option(engine_workspace: Workspace) -> None:
    options = Options(
        protect=False,
        retain_on_delete=True,
        delete_before_replace=False,
        custom_timeouts=pulumi.CustomTimeouts(create="1m"),
        additional_secret_outputs=["arn"],
        transforms=[lambda args: None],
    )
    stack = engine_workspace.stack(lambda: Thing("a", opts=options) and None)
    stack.up()
    made = entry(stack, "a")
    assert made["retainOnDelete"] is True and "protect" not in made
    assert made["customTimeouts"] == {"create": 60}
    assert made["additionalSecretOutputs"] == ["arn"]


def test_a_transform_that_raises_fails_the_resource_with_its_text(engine_workspace: Workspace) -> None:
    def broken(args: pulumi.ResourceTransformArgs) -> None:
        raise ValueError("no such thing")

    with pytest.raises(auto.CommandError, match=r"transform of a failed: .*no such thing"):
        engine_workspace.stack(lambda: Thing("a", opts=Options(transforms=[broken])) and None).up()
    assert engine_workspace.world.live == {}


def test_an_invoke_transform_changes_arguments(engine_workspace: Workspace) -> None:
    def shouting(args: pulumi.InvokeTransformArgs) -> pulumi.InvokeTransformResult:
        return pulumi.InvokeTransformResult({**args.args, "say": str(args.args["say"]).upper()}, args.opts)

    def program() -> None:
        pulumi.runtime.register_invoke_transform(shouting)
        pulumi.export("said", pulumi.runtime.invoke_output("mem:index:echo", {"say": "hello"}).apply(lambda result: result["said"]))

    assert engine_workspace.stack(program).up().outputs["said"].value == "HELLO"


def test_hooks_run_around_create_update_and_delete(engine_workspace: Workspace) -> None:
    log: list[tuple[str, str]] = []
    value, both = 1, True

    def program() -> None:
        def hook(name: str) -> pulumi.ResourceHook:
            return pulumi.ResourceHook(name, lambda args: log.append((name, args.name)))

        kinds = ("before_create", "after_create", "before_update", "after_update", "before_delete", "after_delete")
        hooks = pulumi.ResourceHookBinding(**{kind: [hook(kind)] for kind in kinds})  # pyright: ignore[reportArgumentType]  not on_error
        Thing("a", opts=Options(hooks=hooks))
        if both:
            Thing("b", value=value, opts=Options(hooks=hooks))

    stack = engine_workspace.stack(program)
    stack.preview()
    assert log == [], "hooks do not run in a preview unless they ask for it"
    stack.up()
    assert sorted(log) == [(kind, name) for kind in ("after_create", "before_create") for name in ("a", "b")]
    log.clear()
    value = 2
    stack.up()
    assert log == [("before_update", "b"), ("after_update", "b")]
    log.clear()
    both = False
    stack.up()
    assert log == [("before_delete", "b"), ("after_delete", "b")]


def test_a_failing_hook_before_a_create_prevents_it(engine_workspace: Workspace) -> None:
    def refuse(args: Any) -> None:
        raise RuntimeError("the hook says no")

    def program() -> None:
        Thing("a", opts=Options(hooks=pulumi.ResourceHookBinding(before_create=[pulumi.ResourceHook("no", refuse)])))

    with pytest.raises(auto.CommandError, match="the hook says no"):
        engine_workspace.stack(program).up()
    assert engine_workspace.world.live == {}


def test_a_failing_hook_after_a_create_only_warns(engine_workspace: Workspace) -> None:
    events: list[Any] = []

    def complain(args: Any) -> None:
        raise RuntimeError("the hook complains")

    def program() -> None:
        Thing("a", opts=Options(hooks=pulumi.ResourceHookBinding(after_create=[pulumi.ResourceHook("late", complain)])))

    engine_workspace.stack(program).up(on_event=events.append)
    warnings = [e.diagnostic_event.message for e in events if e.diagnostic_event and e.diagnostic_event.severity == "warning"]
    assert any("the hook complains" in warning for warning in warnings)


def test_a_delete_hook_that_is_no_longer_registered_prevents_the_delete(engine_workspace: Workspace) -> None:
    full = True

    def program() -> None:
        if full:
            hook = pulumi.ResourceHook("gone", lambda args: None)
            Thing("a", opts=Options(hooks=pulumi.ResourceHookBinding(before_delete=[hook])))

    stack = engine_workspace.stack(program)
    stack.up()
    full = False
    with pytest.raises(auto.CommandError, match="resource hook 'gone' is not registered"):
        stack.up()
    assert len(engine_workspace.world.live) == 1
    with pytest.raises(auto.CommandError, match="resource hook 'gone' is not registered"):
        stack.destroy()
    assert operations([]) == [] and len(engine_workspace.world.live) == 1
