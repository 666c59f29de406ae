"""Runs a Pulumi program under mocks and answers with everything that it registered.

`record(program)` gives each registration as the engine would see it: type, name, URN, parent, provider, options,
inputs. Absence can be asserted on the answer, because the program's asynchronous registrations have all landed by
then. Each run has a context of its own.
"""

import asyncio
import contextvars
import gc
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf import empty_pb2, struct_pb2
from pulumi import ResourceOptions, ResourceTransformArgs
from pulumi.runtime import rpc, set_all_config
from pulumi.runtime.mocks import MockCallArgs, MockEngine, MockMonitor, MockResourceArgs, Mocks, MockSettings, _resolve_callbacks
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import SETTINGS, configure
from pulumi.runtime.stack import run_in_stack

SECRET = "4dabf18193072939515e22adb298388d"
RESOURCE_KIND = "5cf8f73096256a8f31e491e813e4eb8e"
SECRET_KIND = "1b47061264138c4ac30d75fd1eb44270"
ROOT = "pulumi:pulumi:Stack"
EKS_COMPONENT = "eks:index:Cluster"
EKS_CLUSTER = "aws:eks/cluster:Cluster"

Outputs = Callable[[str, str, dict[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Registration:
    """One registered resource. `inputs` are plain wire values; `secrets` are the top-level inputs that hold a
    secret.
    """

    type: str
    name: str
    urn: str
    parent: str
    provider: str
    custom: bool
    remote: bool
    inputs: Mapping[str, Any]
    secrets: frozenset[str]
    depends_on: frozenset[str]
    protect: bool
    ignore_changes: tuple[str, ...]
    retain_on_delete: bool
    transforms: tuple[Any, ...]
    update_within: str = ""
    """How long an update may take, where the program says so."""

    @property
    def component(self) -> bool:
        return not self.custom


@dataclass(frozen=True)
class Recording:
    """All registrations in order, invokes, warnings, and outputs that were registered by URN."""

    registrations: tuple[Registration, ...]
    invokes: tuple[str, ...]
    outputs_by_urn: Mapping[str, Mapping[str, Any]]
    log: tuple[str, ...] = ()
    """Warnings and errors."""

    def of_type(self, type: str) -> tuple[Registration, ...]:
        return tuple(r for r in self.registrations if r.type == type)

    def one(self, type: str, name: str | None = None) -> Registration:
        """The only registration of that type (and name); fails by listing what there is."""
        found = [r for r in self.of_type(type) if name is None or r.name == name]
        assert len(found) == 1, f"{len(found)} registrations of {type} named {name}: {[r.name for r in self.of_type(type)]}"
        return found[0]

    def children(self, urn: str) -> tuple[Registration, ...]:
        return tuple(r for r in self.registrations if r.parent == urn)

    @property
    def exports(self) -> Mapping[str, Any]:
        """What the program exported; a secret shows as `{"secret": value}`."""
        return next((values for urn, values in self.outputs_by_urn.items() if f"::{ROOT}::" in urn), {})

    def lines(self) -> Iterator[str]:
        """One line a registration, sorted: for golden lists."""
        for r in sorted(self.registrations, key=lambda r: (r.type, r.name)):
            yield f"{r.type} {r.name}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get(SECRET) == SECRET_KIND:
            return {"secret": _plain(value.get("value"))}
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _unwrapped(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get(SECRET) == SECRET_KIND:
            return _unwrapped(value.get("value"))
        return {key: _unwrapped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unwrapped(item) for item in value]
    return value


def _secret_within(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get(SECRET) == SECRET_KIND or any(_secret_within(item) for item in value.values())
    return isinstance(value, list) and any(_secret_within(item) for item in value)


def _deserialized(message: struct_pb2.Struct) -> dict[str, Any]:
    return rpc.deserialize_properties(message, keep_unknowns=True)


class _Plain(Mocks):
    """Answers a resource with its inputs and the outputs that AWS, Kubernetes and EKS would add and that programs
    read.
    """

    def __init__(self, outputs: Outputs, invokes: list[str], calls: Callable[[str, dict[str, Any]], Any]):
        self._outputs, self._invokes, self._calls = outputs, invokes, calls
        self.answers: dict[str, dict[str, Any]] = {}

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        given = _unwrapped(args.inputs)
        return f"{args.name}-id", {**given, **self._outputs(args.typ, args.name, given), **self.answers.get(args.name, {})}

    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        self._invokes.append(args.token)
        return self._calls(args.token, args.args), []


class _Monitor(MockMonitor):
    def __init__(self, mocks: Mocks, answers: dict[str, dict[str, Any]]) -> None:
        super().__init__(mocks)
        self.answers = answers
        self.registrations: list[Registration] = []
        self.registered_outputs: dict[str, Mapping[str, Any]] = {}

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> resource_pb2.RegisterResourceResponse:
        if request.type == EKS_COMPONENT:
            self._construct_eks(request)
        answer = super().RegisterResource(request)
        if request.type != ROOT:
            self._add(request, answer.urn, custom=request.custom)
        return answer

    def ReadResource(self, request: resource_pb2.ReadResourceRequest) -> resource_pb2.ReadResourceResponse:
        answer = super().ReadResource(request)
        self._add(request, answer.urn, custom=True)
        return answer

    def _add(self, request: Any, urn: str, *, custom: bool) -> None:
        read = isinstance(request, resource_pb2.ReadResourceRequest)
        inputs = _deserialized(request.properties if read else request.object)
        self.registrations.append(
            Registration(
                type=request.type,
                name=request.name,
                urn=urn,
                parent=request.parent,
                provider=request.provider or (sorted(request.providers.values())[0] if not read and request.providers else ""),
                custom=custom,
                remote=not read and request.remote,
                inputs=_unwrapped(inputs),
                secrets=frozenset(key for key, value in inputs.items() if _secret_within(value)),
                depends_on=frozenset(request.dependencies),
                protect=not read and request.protect,
                ignore_changes=() if read else tuple(request.ignoreChanges),
                retain_on_delete=not read and request.retainOnDelete,
                transforms=() if read else tuple(_resolve_callbacks(request.transforms)),
                update_within="" if read else request.customTimeouts.update,
            )
        )

    def _construct_eks(self, request: resource_pb2.RegisterResourceRequest) -> None:
        """What the remote component makes inside, as far as programs read it: the cluster, after the component's
        transforms.
        """
        given = _unwrapped(_deserialized(request.object))
        component = self.make_urn(request.parent, request.type, request.name)
        name = f"{request.name}-eksCluster"
        urn = self.make_urn(component, EKS_CLUSTER, name)
        props: dict[str, Any] = {
            "accessConfig": {"authenticationMode": given["authenticationMode"], "bootstrapClusterCreatorAdminPermissions": True},
            "deletionProtection": given["deletionProtection"],
            "name": given["name"],
            "version": given["version"],
            "vpcConfig": {
                key: given[key] for key in ("endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs") if key in given
            },
        }
        for transform in _resolve_callbacks(request.transforms):
            changed = transform(ResourceTransformArgs(True, EKS_CLUSTER, name, props, ResourceOptions()))
            props = dict(changed.props) if changed else props
        address = {"certificateAuthority": {"data": "Q0E="}, "endpoint": "https://cluster.example"}
        self.resources[urn] = MockMonitor.ResourceRegistration(urn, given["name"], {**props, **address})
        self.registrations.append(
            Registration(
                type=EKS_CLUSTER,
                name=name,
                urn=urn,
                parent=component,
                provider=request.providers.get("aws", ""),
                custom=True,
                remote=False,
                inputs=props,
                secrets=frozenset(),
                depends_on=frozenset(),
                protect=False,
                ignore_changes=(),
                retain_on_delete=False,
                transforms=(),
            )
        )
        self.answers[request.name] = {
            "eksCluster": {SECRET: RESOURCE_KIND, "urn": urn, "id": given["name"], "packageVersion": "7.51.1"},
            "clusterSecurityGroupId": "sg-cluster",
            "kubeconfigJson": json.dumps({"clusters": [{"name": given["name"]}]}),
            "oidcIssuer": "https://oidc.eks.mock/id/1",
            "oidcProviderArn": "arn:aws:iam::000000000000:oidc-provider/oidc.eks.mock/id/1",
        }

    def RegisterResourceOutputs(self, request: resource_pb2.RegisterResourceOutputsRequest) -> empty_pb2.Empty:
        self.registered_outputs[request.urn] = _plain(_deserialized(request.outputs))
        return empty_pb2.Empty()


class _Gathering(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self.lines.append(record.getMessage())


def no_outputs(type: str, name: str, inputs: dict[str, Any]) -> Mapping[str, Any]:
    """Adds the few outputs that almost every AWS resource has."""
    found: dict[str, Any] = {}
    if type.startswith("aws:"):
        found["arn"] = f"arn:aws:mock:::{name}"
        found.setdefault("name", inputs.get("name", name))
    return found


def no_calls(token: str, args: dict[str, Any]) -> Any:
    raise AssertionError(f"{token} was invoked: a program plans from its settings, never from a live lookup")


def record(
    program: Callable[[], object],
    *,
    stack: str = "sandbox-cluster",
    project: str = "headway",
    preview: bool = False,
    config: Mapping[str, str] | None = None,
    outputs: Outputs = no_outputs,
    calls: Callable[[str, dict[str, Any]], Any] = no_calls,
) -> Recording:
    """Run `program` to its end under mocks.

    `outputs` adds to what a resource answers beside its inputs. `calls` answers invokes; without it an invoke fails
    the run.
    """
    invokes: list[str] = []
    mocks = _Plain(outputs, invokes, calls)
    monitor = _Monitor(mocks, mocks.answers)
    gathering = _Gathering()
    logger = logging.Logger("recording")  # not registered anywhere: nothing outlives the run
    logger.addHandler(gathering)

    def run() -> None:
        # The SDK keeps these for the whole process; a run that failed leaves outputs of a closed loop behind.
        cast(Any, SETTINGS).outputs.clear()
        set_all_config(dict(config or {}))
        configure(
            MockSettings(
                monitor=monitor,
                monitor_features=set(monitor.GetDeploymentInfo(empty_pb2.Empty()).supportedFeatures),
                engine=MockEngine(logger),
                project=project,
                stack=stack,
                dry_run=preview,
                organization="organization",
                callbacks=None,
            )
        )

        def start() -> None:
            program()

        asyncio.run(run_in_stack(start))

    # The SDK's modules are hundreds of thousands of live objects: collecting them again and again costs more than the run itself.
    gc.disable()
    try:
        contextvars.copy_context().run(run)
    finally:
        gc.enable()
    return Recording(tuple(monitor.registrations), tuple(invokes), monitor.registered_outputs, tuple(gathering.lines))
