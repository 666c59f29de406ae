"""CrossGuard: runs the genuine `pulumi.policy` server of each pack as a child process and asks it about every resource.

One process for each pack and operation, started beside the program and waited for at the first resource. The trap: an unknown value
that a policy touches in a preview turns its whole answer into an advisory "can't run policy"; that text is passed on as it is.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

import grpc
import yaml
from google.protobuf import empty_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from pulumi_embedded.engine.callbacks import details_of
from pulumi_embedded.engine.context import Context
from pulumi_embedded.engine.graph import provider_urn
from pulumi_embedded.engine.halt import StepError, Stopped
from pulumi_embedded.engine.model import PolicyEvent, PolicyPack, Resource
from pulumi_embedded.engine.policy_config import LEVELS, Declared, PolicyConfigError, Settled, settle
from pulumi_embedded.engine.values import from_struct, marked_like, plain, to_struct

_MESSAGE_BYTES: Final = 400 * 2**20
_STOP_SECONDS: Final = 5


class PackError(Exception):
    """A policy pack cannot be used; the text says which and why."""


# A pack serves for ever. Its standard input ends when the engine does, however that is killed, and the pack with it.
_LEASHED: Final = (
    "import os, runpy, threading; "
    "threading.Thread(target=lambda: (os.read(0, 1), os._exit(0)), daemon=True).start(); "
    "runpy.run_module('pulumi.policy', run_name='__main__', alter_sys=True)"
)


class Policies:
    """All packs of one operation."""

    def __init__(self, context: Context, address: str) -> None:
        packs = context.request.policy_packs
        self._context = context
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(packs)), thread_name_prefix="policy-pack")
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._starting: list[Future[_Analyzer]] = [self._pool.submit(self._start, pack, address) for pack in packs]
        self.versions: dict[str, str] = {}
        self.violated = False

    def review(self, resource: Resource, provider: Resource | None, delete_first: bool | None = None) -> Resource:
        """The resource as the packs' remediations leave it. Raises Stopped on a mandatory violation, but in a preview goes on."""
        analyzers = self._analyzers()
        if not analyzers:
            return resource
        for analyzer in analyzers:
            resource = analyzer.remediated(resource, provider, delete_first)
        violations = [violation for analyzer in analyzers for violation in analyzer.violations(resource, provider, delete_first)]
        self._tell(violations, resource.urn)
        if self.violated and not self._context.preview:
            self._context.halt.fail("a mandatory policy was violated", fatal=True)
            raise Stopped
        return resource

    def review_stack(self, resources: Sequence[Resource], root: str) -> None:
        """What the packs say of all resources together; raises Stopped on a mandatory violation outside a preview."""
        for analyzer in self._analyzers():
            self._tell(analyzer.stack_violations(resources), root)
        if self.violated:
            self._context.halt.fail("a mandatory policy was violated", fatal=True)
            raise Stopped

    def close(self) -> None:
        with self._lock:
            processes = list(self._processes)
        for process in processes:
            process.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for process in processes:
            process.wait(_STOP_SECONDS)
            if process.stdin is not None:
                process.stdin.close()
        for future in self._starting:
            if future.done() and not future.cancelled() and future.exception() is None:
                future.result().close()

    def _analyzers(self) -> "list[_Analyzer]":
        try:
            found = [future.result() for future in self._starting]
        except PackError as error:
            with self._lock:
                if self._context.halt.error is None:
                    self._context.report(str(error), fatal=True)
            raise Stopped from error
        return found

    def _tell(self, violations: Iterable[analyzer_pb2.AnalyzeDiagnostic], urn: str) -> None:
        for violation in violations:
            level = LEVELS[violation.enforcementLevel]
            pack = violation.policyPackName
            self._context.events.policy(
                PolicyEvent(
                    urn=violation.urn or urn,
                    policy=violation.policyName,
                    pack=pack,
                    version=self.versions.get(pack) or violation.policyPackVersion,
                    level=level,
                    message=violation.message,
                )
            )
            if level == "mandatory":
                self.violated = True

    def _start(self, pack: PolicyPack, address: str) -> "_Analyzer":
        request = self._context.request
        about = _described(pack.path)
        environment = {
            **os.environ,
            **request.environment,
            "PULUMI_PROJECT": request.project,
            "PULUMI_STACK": request.stack,
            "PULUMI_ORGANIZATION": request.organization,
            "PULUMI_DRY_RUN": str(request.dry_run).lower(),
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
        }
        # -u: the server prints its port without flushing it.
        process = subprocess.Popen(
            [about.python, "-u", "-c", _LEASHED, address, about.program],
            cwd=pack.path,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with self._lock:
            self._processes.append(process)
        assert process.stdout is not None and process.stderr is not None  # noqa: S101 they are pipes
        port = process.stdout.readline().strip()
        if not port.isdigit():
            with process.stdout, process.stderr:
                said = f"{port}\n{process.stderr.read()}".strip()
            raise PackError(f"policy pack {pack.path} failed to load: {said or 'it ended without a word'}")
        for stream in (process.stdout, process.stderr):
            threading.Thread(target=self._drain, args=(stream,), daemon=True).start()
        try:
            analyzer = _Analyzer(self._context, f"127.0.0.1:{port}", pack)
        except grpc.RpcError as error:
            raise PackError(f"policy pack {pack.path} failed to start: {details_of(error)}") from error
        self.versions[analyzer.name] = about.version or analyzer.version
        return analyzer

    def _drain(self, stream: IO[str]) -> None:
        """A pack that prints must not block on a full pipe."""
        with stream:
            for line in stream:
                self._context.events.diagnostic("info", line.rstrip("\n"))


class _Analyzer:
    """One pack's server, configured and ready."""

    def __init__(self, context: Context, address: str, pack: PolicyPack) -> None:
        request = context.request
        self._context = context
        self._channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", _MESSAGE_BYTES)])
        self._stub = analyzer_pb2_grpc.AnalyzerStub(self._channel)
        self._stub.ConfigureStack(
            analyzer_pb2.AnalyzerStackConfigureRequest(
                stack=request.stack,
                project=request.project,
                organization=request.organization,
                dry_run=request.dry_run,
                config=request.config,
                config_secret_keys=request.secret_keys,
            )
        )
        info = self._stub.GetAnalyzerInfo(empty_pb2.Empty())
        self.name, self.version = info.name, info.version
        settled = _settled(info, pack)
        self._stub.Configure(
            analyzer_pb2.ConfigureAnalyzerRequest(
                policyConfig={
                    name: analyzer_pb2.PolicyConfig(
                        enforcementLevel=LEVELS.index(policy.level),  # pyright: ignore[reportArgumentType]
                        properties=to_struct(policy.properties),
                    )
                    for name, policy in settled.items()
                }
            )
        )
        active = [policy for policy in info.policies if settled[policy.name].level != "disabled"]
        stack = analyzer_pb2.POLICY_TYPE_STACK
        self._asks_resources = any(policy.policy_type != stack for policy in active)
        self._asks_stack = any(policy.policy_type != analyzer_pb2.POLICY_TYPE_RESOURCE for policy in active)
        self._remediates = any(settled[policy.name].level == "remediate" for policy in active)

    def remediated(self, resource: Resource, provider: Resource | None, delete_first: bool | None) -> Resource:
        """Secrets keep their wrappers here: what a remediation does not touch must stay secret."""
        if not self._remediates:
            return resource
        asked = self._about(analyzer_pb2.AnalyzeRequest, resource, resource.inputs, provider, delete_first)
        try:
            answer = self._stub.Remediate(asked)
        except grpc.RpcError as error:
            raise self._failed(error, resource.urn) from error
        for remediation in answer.remediations:
            if remediation.diagnostic:
                self._context.events.diagnostic("warning", remediation.diagnostic, resource.urn)
            if remediation.HasField("properties"):
                # A remediation that copies a map (`{**args.props}`) copies what is in the secrets, not that they are secret.
                resource = replace(resource, inputs=marked_like(from_struct(remediation.properties), resource.inputs))
                self._context.events.policy(
                    PolicyEvent(
                        urn=resource.urn,
                        policy=remediation.policyName,
                        pack=remediation.policyPackName,
                        version=remediation.policyPackVersion,
                        level="remediate",
                        message=remediation.description,
                    )
                )
        return resource

    def violations(
        self, resource: Resource, provider: Resource | None, delete_first: bool | None
    ) -> Sequence[analyzer_pb2.AnalyzeDiagnostic]:
        if not self._asks_resources:
            return ()
        try:
            asked = self._about(analyzer_pb2.AnalyzeRequest, resource, plain(resource.inputs), provider, delete_first)
            return self._stub.Analyze(asked).diagnostics
        except grpc.RpcError as error:
            raise self._failed(error, resource.urn) from error

    def stack_violations(self, resources: Sequence[Resource]) -> Sequence[analyzer_pb2.AnalyzeDiagnostic]:
        if not self._asks_stack:
            return ()
        by_urn = {resource.urn: resource for resource in resources}
        asked = analyzer_pb2.AnalyzeStackRequest()
        for resource in resources:
            described = self._about(
                analyzer_pb2.AnalyzerResource, resource, plain(resource.outputs), by_urn.get(provider_urn(resource.provider))
            )
            described.parent = resource.parent
            described.dependencies.extend(resource.dependencies)
            for key, urns in resource.property_dependencies.items():
                described.propertyDependencies[key].urns.extend(urns)
            asked.resources.append(described)
        try:
            return self._stub.AnalyzeStack(asked).diagnostics
        except grpc.RpcError as error:
            raise self._failed(error, "") from error

    def close(self) -> None:
        self._channel.close()

    def _failed(self, error: grpc.RpcError, urn: str) -> StepError:
        if self._context.halt.stopping:
            raise Stopped from error
        return StepError(f"policy pack {self.name} failed: {details_of(error)}", urn)

    def _about(
        self,
        message: Any,
        resource: Resource,
        properties: dict[str, Any],
        provider: Resource | None,
        delete_first: bool | None = None,
    ) -> Any:
        timeouts = resource.custom_timeouts
        options = analyzer_pb2.AnalyzerResourceOptions(
            protect=resource.protect,
            deleteBeforeReplace=bool(delete_first),
            deleteBeforeReplaceDefined=delete_first is not None,
            parent=resource.parent,
            ignoreChanges=resource.ignore_changes,
            additionalSecretOutputs=resource.additional_secret_outputs,
            aliases=resource.aliases,
            customTimeouts=analyzer_pb2.AnalyzerResourceOptions.CustomTimeouts(
                create=timeouts.get("create", 0.0), update=timeouts.get("update", 0.0), delete=timeouts.get("delete", 0.0)
            ),
        )
        described = message(type=resource.type, urn=resource.urn, name=resource.name, properties=to_struct(properties), options=options)
        if provider is not None:
            described.provider.CopyFrom(
                analyzer_pb2.AnalyzerProviderResource(
                    type=provider.type, urn=provider.urn, name=provider.name, properties=to_struct(plain(provider.inputs))
                )
            )
        return described


@dataclass(frozen=True, slots=True)
class _About:
    """What PulumiPolicy.yaml says of a pack. `version` wins over the server's, which is always 0.0.1."""

    python: str
    program: str
    version: str


def _described(folder: Path) -> _About:
    file = folder / "PulumiPolicy.yaml"
    try:
        read = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    except (OSError, yaml.YAMLError) as error:
        raise PackError(f"policy pack {folder}: {file.name} cannot be read: {error}") from error
    about: dict[str, Any] = read if isinstance(read, dict) else {}
    runtime: Any = about.get("runtime")
    options: dict[str, Any] = {}
    if isinstance(runtime, dict):
        runtime, options = runtime.get("name"), runtime.get("options") or {}
    if runtime != "python":
        raise PackError(f"policy pack {folder}: runtime {runtime!r} is not supported by the embedded engine, only python is")
    virtualenv = options.get("virtualenv")
    return _About(
        python=str(folder / str(virtualenv) / "bin" / "python") if virtualenv else sys.executable,
        program=str(folder / str(about.get("main") or ".")),
        version=str(about.get("version") or ""),
    )


def _settled(info: analyzer_pb2.AnalyzerInfo, pack: PolicyPack) -> dict[str, Settled]:
    user: Any = {}
    if pack.config is not None:
        try:
            user = json.loads(pack.config.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PackError(f"configuration {pack.config} of policy pack {info.name} cannot be read: {error}") from error
        if not isinstance(user, dict):
            raise PackError(f"configuration {pack.config} of policy pack {info.name} must be an object of policies by name")
    declared = [
        Declared(
            policy.name,
            LEVELS[policy.enforcementLevel],
            from_struct(policy.configSchema.properties),
            tuple(policy.configSchema.required),
        )
        for policy in info.policies
    ]
    initial = {
        name: Settled(LEVELS[config.enforcementLevel], from_struct(config.properties)) for name, config in info.initialConfig.items()
    }
    try:
        return settle(declared, initial, user)
    except PolicyConfigError as error:
        raise PackError(f"configuration of policy pack {info.name} is wrong: {error}") from error
