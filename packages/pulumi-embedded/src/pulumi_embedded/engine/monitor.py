"""The gRPC face of an operation: ResourceMonitor and Engine on one port. Translates, and decides nothing.

Every registration, construct and the final wait hold a thread of the server, so its pool is large. The SDK sends about four debug
lines for each resource; those are recognised in their bytes and dropped without being read.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NoReturn, TypeVar

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import (
    callback_pb2,
    engine_pb2,
    engine_pb2_grpc,
    provider_pb2,
    resource_pb2,
    resource_pb2_grpc,
)

from pulumi_embedded.engine.callbacks import Callbacks
from pulumi_embedded.engine.construct import Components, Functions, known_id
from pulumi_embedded.engine.context import Context
from pulumi_embedded.engine.halt import StepError, Stopped
from pulumi_embedded.engine.model import Severity
from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.engine.registration import Registrar
from pulumi_embedded.engine.values import from_struct, to_struct

log = logging.getLogger(__name__)

CHANNEL_OPTIONS: Final = [("grpc.max_receive_message_length", 400 * 2**20), ("grpc.max_send_message_length", 400 * 2**20)]
_THREADS: Final = 256
_GRACE_SECONDS: Final = 1.0
_THREADS_PER_STEP: Final = 4  # the SDK has four threads for each parallel step, and each may wait in a registration
_SEVERITIES: Final[tuple[Severity, ...]] = ("debug", "info", "warning", "error")
_SEVERITY_FIELD: Final = b"\x08"  # LogRequest.severity, left out of the message when it is DEBUG

_F = resource_pb2.ResourceMonitorFeature
FEATURES: Final = (
    _F.RESOURCE_MONITOR_FEATURE_SECRETS,
    _F.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    _F.RESOURCE_MONITOR_FEATURE_OUTPUT_VALUES,
    _F.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
    _F.RESOURCE_MONITOR_FEATURE_REPLACEMENT_TRIGGER,
    _F.RESOURCE_MONITOR_FEATURE_DELETED_WITH,
    _F.RESOURCE_MONITOR_FEATURE_TRANSFORMS,
    _F.RESOURCE_MONITOR_FEATURE_INVOKE_TRANSFORMS,
    _F.RESOURCE_MONITOR_FEATURE_RESOURCE_HOOKS,
    _F.RESOURCE_MONITOR_FEATURE_INVOKE_DEPENDS_ON,
    _F.RESOURCE_MONITOR_FEATURE_INVOKE_PARENT,
)
_FEATURE_NAMES: Final = frozenset(
    {"secrets", "resourceReferences", "outputValues", "aliasSpecs", "deletedWith", "transforms", "invokeTransforms", "resourceHooks"}
)

T = TypeVar("T")


class Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    def __init__(self, context: Context, registrar: Registrar, components: Components, functions: Functions, callbacks: Callbacks) -> None:
        self._context = context
        self._registrar = registrar
        self._components = components
        self._functions = functions
        self._callbacks = callbacks
        self.finished = threading.Event()
        """The program has registered everything and waits for us."""
        self.released = threading.Event()
        """It may go."""
        self._idle = threading.Condition()
        self._working = 0

    def drain(self) -> None:
        """Until every request that is being worked on has ended: a program that fails leaves its others behind, and their steps are
        recorded all the same."""
        with self._idle:
            while self._working:
                self._idle.wait(_GRACE_SECONDS)

    def GetDeploymentInfo(self, request: Any, context: grpc.ServicerContext) -> resource_pb2.DeploymentInfo:
        asked = self._context.request
        return resource_pb2.DeploymentInfo(
            project=asked.project,
            stack=asked.stack,
            organization=asked.organization,
            config=asked.config,
            configSecretKeys=asked.secret_keys,
            dryRun=asked.dry_run,
            parallel=asked.parallel,
            supportedFeatures=FEATURES,
        )

    def SupportsFeature(
        self, request: resource_pb2.SupportsFeatureRequest, context: grpc.ServicerContext
    ) -> resource_pb2.SupportsFeatureResponse:
        return resource_pb2.SupportsFeatureResponse(hasSupport=request.id in _FEATURE_NAMES)

    def RegisterResource(
        self, request: resource_pb2.RegisterResourceRequest, context: grpc.ServicerContext
    ) -> resource_pb2.RegisterResourceResponse:
        urn = self._registrar.urn_of(request)

        def register() -> resource_pb2.RegisterResourceResponse:
            if request.remote:
                made, outputs = self._components.construct(request)
                answer = resource_pb2.RegisterResourceResponse(urn=made, object=to_struct(outputs))
                for key in outputs:
                    answer.propertyDependencies[key].urns.append(made)
                return answer
            registered = self._registrar.register(request)
            resource = registered.resource
            return resource_pb2.RegisterResourceResponse(
                urn=resource.urn,
                id=known_id(resource.id),
                object=to_struct(resource.outputs) if resource.custom and not registered.skipped else struct_pb2.Struct(),
                unknown=registered.skipped,
            )

        try:
            return self._reported(register, urn)
        except Stopped:
            # Whatever the cause was: what depends on this resource must not be made from outputs that nobody knows.
            self._context.ledger.failed.add(urn)
            if self._context.halt.continue_on_error and not self._context.halt.stopping and request.supportsResultReporting:
                return resource_pb2.RegisterResourceResponse(urn=urn, result=resource_pb2.FAIL)
            _unavailable(context)

    def RegisterResourceOutputs(
        self, request: resource_pb2.RegisterResourceOutputsRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        if request.urn in self._context.ledger.failed:
            return empty_pb2.Empty()
        self._answer(lambda: self._registrar.outputs(request.urn, from_struct(request.outputs)), context, request.urn)
        return empty_pb2.Empty()

    def ReadResource(self, request: resource_pb2.ReadResourceRequest, context: grpc.ServicerContext) -> resource_pb2.ReadResourceResponse:
        resource = self._answer(lambda: self._registrar.read(request), context)
        return resource_pb2.ReadResourceResponse(urn=resource.urn, id=known_id(resource.id), properties=to_struct(resource.outputs))

    def Invoke(self, request: resource_pb2.ResourceInvokeRequest, context: grpc.ServicerContext) -> resource_pb2.ResourceInvokeResponse:
        def invoke() -> resource_pb2.ResourceInvokeResponse:
            self._callbacks.transform_invoke(request)
            result = self._functions.invoke(request)
            if result is None:
                return resource_pb2.ResourceInvokeResponse(unknown=True)
            return resource_pb2.ResourceInvokeResponse(**{"return": to_struct(result)})  # pyright: ignore[reportArgumentType]

        try:
            return self._answer(invoke, context)
        except ProviderError as error:
            # A function's failure is the program's to handle: nothing of the deployment has failed yet.
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
            raise

    def Call(self, request: resource_pb2.ResourceCallRequest, context: grpc.ServicerContext) -> provider_pb2.CallResponse:
        return self._answer(lambda: self._components.call(request), context)

    def RegisterStackTransform(self, request: callback_pb2.Callback, context: grpc.ServicerContext) -> empty_pb2.Empty:
        self._callbacks.stack_transforms.append(request)
        return empty_pb2.Empty()

    def RegisterStackInvokeTransform(self, request: callback_pb2.Callback, context: grpc.ServicerContext) -> empty_pb2.Empty:
        self._callbacks.invoke_transforms.append(request)
        return empty_pb2.Empty()

    def RegisterResourceHook(self, request: resource_pb2.RegisterResourceHookRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        self._callbacks.add_hook(request)
        return empty_pb2.Empty()

    def ExistsResource(self, request: Any, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context, "asking whether a resource exists")

    def RegisterErrorHook(self, request: Any, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context, "an error hook")

    def RegisterPackage(self, request: Any, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context, "a parameterized package")

    def SignalAndWaitForShutdown(self, request: Any, context: grpc.ServicerContext) -> empty_pb2.Empty:
        self.finished.set()
        self.released.wait()
        return empty_pb2.Empty()

    def _reported(self, work: Callable[[], T], urn: str) -> T:
        """Do it; a failure is reported once, and goes on as Stopped."""
        with self._idle:
            self._working += 1
        try:
            return work()
        except StepError as error:
            self._context.report(str(error), error.urn or urn)
            raise Stopped from error
        except (Stopped, ProviderError):
            raise
        except Exception as error:
            log.debug("internal error", exc_info=error)
            self._context.report(f"the embedded engine failed ({type(error).__name__}: {error}); this is a defect of it", urn, fatal=True)
            raise Stopped from error
        finally:
            with self._idle:
                self._working -= 1
                self._idle.notify_all()

    def _answer(self, work: Callable[[], T], context: grpc.ServicerContext, urn: str = "") -> T:
        try:
            return self._reported(work, urn)
        except Stopped:
            _unavailable(context)


TERMINATED: Final = "Resource monitor has terminated"
"""What the SDK says when we have ended its calls, because the deployment stops; the reason has been told then."""


class EngineService(engine_pb2_grpc.EngineServicer):
    def __init__(self, context: Context) -> None:
        self._context = context

    def log(self, raw: bytes, context: grpc.ServicerContext) -> bytes:
        """Engine.Log on bytes, because most of what arrives is not read."""
        if not raw.startswith(_SEVERITY_FIELD) and not self._context.request.debug:
            return b""
        line = engine_pb2.LogRequest.FromString(raw)
        severity = _SEVERITIES[line.severity]
        if severity == "error" and self._context.halt.stopping and TERMINATED in line.message:
            return b""
        self._context.events.diagnostic(severity, line.message, line.urn, ephemeral=line.ephemeral, stream=line.streamId)
        return b""

    def GetRootResource(self, request: Any, context: grpc.ServicerContext) -> engine_pb2.GetRootResourceResponse:
        return engine_pb2.GetRootResourceResponse(urn=next(iter(self._context.root), ""))

    def SetRootResource(self, request: Any, context: grpc.ServicerContext) -> engine_pb2.SetRootResourceResponse:
        return engine_pb2.SetRootResourceResponse()

    def RequirePulumiVersion(self, request: Any, context: grpc.ServicerContext) -> engine_pb2.RequirePulumiVersionResponse:
        return engine_pb2.RequirePulumiVersionResponse()

    def StartDebugging(self, request: Any, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context, "attaching a debugger")


class MonitorServer:
    """Both services on one free port of the loopback address."""

    def __init__(self, parallel: int) -> None:
        threads = max(_THREADS, parallel * _THREADS_PER_STEP + 64)
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="monitor")
        self._server = grpc.server(self._pool, options=CHANNEL_OPTIONS)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def serve(self, monitor: Monitor, engine: EngineService) -> None:
        # The first handler that knows a method answers it: this one takes Log from the general one below.
        direct = {"Log": grpc.unary_unary_rpc_method_handler(engine.log)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("pulumirpc.Engine", direct),))
        resource_pb2_grpc.add_ResourceMonitorServicer_to_server(monitor, self._server)
        engine_pb2_grpc.add_EngineServicer_to_server(engine, self._server)
        self._server.start()

    def stop(self) -> None:
        # With a moment of grace: cutting connections that clients keep open makes gRPC print about it.
        self._server.stop(_GRACE_SECONDS).wait()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _unavailable(context: grpc.ServicerContext) -> NoReturn:
    """The SDK reads this as the end of the deployment and unwinds the program."""
    context.abort(grpc.StatusCode.UNAVAILABLE, "the deployment is stopping")
    raise AssertionError


def _refuse(context: grpc.ServicerContext, what: str) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{what} is not supported by the embedded engine")
    raise AssertionError
