"""Providers that live in memory, for tests: one world of objects, and three packages whose resources behave as the cases need.

`mem:index:Thing` has autonames, a computed ARN, a nested computed field, a `zone` that forces replacement and a `name` that forces
deletion first. `eks:index:Cluster` is a remote component. Everything that a provider is asked is written down in `World.calls`.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.provider import (
    UNKNOWN,
    CheckFailure,
    CheckResult,
    ComponentContext,
    DiffResult,
    LiveResource,
    Properties,
    Provider,
    ProviderError,
    ProviderStep,
)
from pulumi_embedded.engine.values import secret


@dataclass
class World:
    """What exists out there, and what was asked of it."""

    live: dict[str, Properties] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    timeouts: dict[tuple[str, str], float] = field(default_factory=dict)
    fail: dict[tuple[str, str], Exception] = field(default_factory=dict)
    unready: dict[str, str] = field(default_factory=dict[str, str])
    """Why a live object is not ready when it is read, by its id."""
    """(method, name) -> what it raises."""
    during: Callable[[str, str, ProviderStep], None] | None = None
    running: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def factories(self) -> ProviderFactories:
        return {"mem": lambda: Memory(self), "aws": lambda: Aws(self), "eks": lambda: Eks(self)}

    def names(self, method: str) -> list[str]:
        return [name for called, name in self.calls if called == method]

    def called(self, method: str, name: str, step: ProviderStep) -> None:
        with self.lock:
            self.calls.append((method, name))
            self.timeouts[method, name] = step.timeout
            self.running += 1
            self.most_at_once = max(self.most_at_once, self.running)
        try:
            if self.during is not None:
                self.during(method, name, step)
            if (method, name) in self.fail:
                raise self.fail[method, name]
        finally:
            with self.lock:
                self.running -= 1

    def object(self, name: str) -> Properties:
        """The one live object whose physical name starts with `name`."""
        (found,) = [outputs for id, outputs in self.live.items() if id.startswith(name)]
        return found


def short(urn: str) -> str:
    return urn.rsplit("::", 1)[-1]


class Memory(Provider):
    package, version = "mem", "1.0.0"
    replacing: Sequence[str] = ("zone", "name")

    def __init__(self, world: World) -> None:
        self.world = world
        self.config: Properties = {}

    def check_config(self, urn: str, old: Properties, new: Properties) -> CheckResult:
        return CheckResult(new, (CheckFailure("region", "must not be nowhere"),) if new.get("region") == "nowhere" else ())

    def diff_config(self, urn: str, old: Properties, new: Properties) -> DiffResult:
        found = super().diff_config(urn, old, new)
        return DiffResult(found.details, ("account",) if "account" in found.details else ())

    def configure(self, inputs: Properties) -> None:
        self.config = inputs

    def check(self, urn: str, type: str, name: str, old: Properties | None, new: Properties) -> CheckResult:
        if not new.get("name"):
            new["name"] = (old or {}).get("name") or f"{name}-{uuid.uuid4().hex[:6]}"
        failures = [CheckFailure("value", "must not be bad"), CheckFailure("zone", "must exist")] if new.get("value") == "bad" else []
        return CheckResult(new, tuple(failures))

    def diff(
        self, urn: str, type: str, id: str, old_inputs: Properties, old_outputs: Properties, new: Properties, ignore_changes: Sequence[str]
    ) -> DiffResult:
        keys = [key for key in sorted({*old_inputs, *new}) if old_inputs.get(key) != new.get(key)]
        same_name = old_inputs.get("name") == new.get("name") and not str(old_inputs.get("name", "")).startswith(short(urn) + "-")
        return DiffResult(dict.fromkeys(keys, "update"), tuple(key for key in keys if key in self.replacing), same_name)

    def computed(self, inputs: Properties, id: str) -> Properties:
        return {"arn": f"arn:{id}", "region": self.config.get("region", ""), "status": {"name": inputs.get("name"), "uid": f"uid-{id}"}}

    def plan(self, type: str, inputs: Properties, old_outputs: Properties | None) -> Properties:
        return {**inputs, "status": {"name": inputs.get("name"), "uid": UNKNOWN}}

    def create(self, urn: str, type: str, name: str, inputs: Properties, step: ProviderStep) -> tuple[str, Properties]:
        if step.preview:
            return "", self.plan(type, inputs, None)
        self.world.called("create", name, step)
        id = str(inputs["name"])
        if id in self.world.live and self.world.live[id].get("value") != inputs.get("value"):
            raise ProviderError(f"{id} already exists")
        self.world.live[id] = {**inputs, **self.computed(inputs, id)}
        return id, self.world.live[id]

    def read(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties) -> LiveResource | None:
        found = self.world.live.get(id)
        self.world.calls.append(("read", short(urn)))
        reasons = tuple(filter(None, [self.world.unready.get(id)]))
        return None if found is None else LiveResource(id, {key: found[key] for key in inputs if key in found}, found, reasons)

    def update(
        self, urn: str, type: str, id: str, old_inputs: Properties, old_outputs: Properties, new: Properties, step: ProviderStep
    ) -> Properties:
        if step.preview:
            return {**old_outputs, **new}
        self.world.called("update", short(urn), step)
        self.world.live[id] = {**new, **self.computed(new, id)}
        return self.world.live[id]

    def delete(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties, step: ProviderStep) -> None:
        self.world.called("delete", short(urn), step)
        self.world.live.pop(id, None)

    def invoke(self, token: str, args: Properties, preview: bool) -> Properties:
        if token == "mem:index:echo":
            return {"said": args.get("say"), "region": self.config.get("region", "")}
        return super().invoke(token, args, preview)


class Aws(Memory):
    package, version = "aws", "7.51.1"


class Eks(Memory):
    package, version = "eks", "4.4.0"

    def construct(self, type: str, name: str, inputs: Properties, context: ComponentContext) -> tuple[str, Properties]:
        me = context.component(type, name, inputs)
        role = context.resource("aws:iam/role:Role", f"{name}-role", {"value": "x"}, parent=me)
        cluster = context.resource(
            "aws:eks/cluster:Cluster",
            f"{name}-eks",
            {"name": f"{name}-eks", "roleArn": role.outputs.get("arn", UNKNOWN)},
            parent=me,
            depends_on=[role.urn],
        )
        kubeconfig: Any = json.dumps({"server": cluster.outputs["arn"]}) if cluster.id else UNKNOWN
        outputs: Properties = {
            "kubeconfig": secret(kubeconfig),
            "kubeconfigJson": secret(kubeconfig),
            "eksCluster": context.reference(cluster),
            "awsProvider": context.provider_reference("aws"),
        }
        context.outputs(me, outputs)
        return me, outputs

    def call(self, token: str, args: Properties, context: ComponentContext) -> Properties:
        return {"result": context.outputs_of(args["__self__"]["urn"])["kubeconfigJson"]}


class Thing(pulumi.CustomResource):
    """A resource of the double, as a generated SDK would declare it."""

    arn: pulumi.Output[str]
    status: pulumi.Output[dict[str, Any]]
    name: pulumi.Output[str]
    value: pulumi.Output[Any]

    def __init__(self, resource_name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None:
        outputs = {"arn": None, "status": None, "region": None, "name": None, "value": None, "zone": None}
        super().__init__("mem:index:Thing", resource_name, {**outputs, **inputs}, opts)


class Group(pulumi.ComponentResource):
    """A local component."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None:
        super().__init__("test:index:Group", name, inputs, opts)


class MemProvider(pulumi.ProviderResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None:
        super().__init__("mem", name, inputs, opts)


class Wait:
    """Blocks a provider's call until it is released or cancelled, for at most a minute."""

    def __init__(self, method: str, name: str) -> None:
        self.method, self.name = method, name
        self.reached, self.release = threading.Event(), threading.Event()

    def __call__(self, method: str, name: str, step: ProviderStep) -> None:
        if (method, name) != (self.method, self.name):
            return
        self.reached.set()
        deadline = time.monotonic() + 60
        while not self.release.wait(0.02) and time.monotonic() < deadline:
            if step.cancelled():
                raise ProviderError("stopped while waiting")
