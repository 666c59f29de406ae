"""Calls back into the program: transforms of resources and of invokes, and resource hooks.

The trap: a transform's answer replaces properties and options as a whole, and many options are optional fields, where "set to false" and
"not set" are two things; so fields are copied only when they are set, and cleared before they are replaced.
"""

import threading
from collections.abc import Iterable
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from pulumi.runtime.proto import callback_pb2, callback_pb2_grpc, resource_pb2

from pulumi_embedded.engine.context import Context
from pulumi_embedded.engine.halt import StepError
from pulumi_embedded.engine.model import Resource
from pulumi_embedded.engine.values import to_struct

Callback = callback_pb2.Callback

# Option of a transform -> field of a RegisterResource request.
_OPTION_FIELDS: Final = {
    "depends_on": "dependencies",
    "ignore_changes": "ignoreChanges",
    "replace_on_changes": "replaceOnChanges",
    "additional_secret_outputs": "additionalSecretOutputs",
    "aliases": "aliases",
    "providers": "providers",
    "protect": "protect",
    "version": "version",
    "provider": "provider",
    "custom_timeouts": "customTimeouts",
    "plugin_download_url": "pluginDownloadURL",
    "retain_on_delete": "retainOnDelete",
    "deleted_with": "deletedWith",
    "delete_before_replace": "deleteBeforeReplace",
    "hooks": "hooks",
    "import": "importId",
    "replacement_trigger": "replacement_trigger",
    "replace_with": "replace_with",
    "hide_diff": "hideDiffs",
}


class Callbacks:
    """Everything the program has registered to be called back for, and the connections to it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._channels: dict[str, grpc.Channel] = {}
        self._own: dict[str, tuple[Callback, ...]] = {}
        self._parents: dict[str, str] = {}
        self.stack_transforms: list[Callback] = []
        self.invoke_transforms: list[Callback] = []
        self._hooks: dict[str, resource_pb2.RegisterResourceHookRequest] = {}

    def add_hook(self, hook: resource_pb2.RegisterResourceHookRequest) -> None:
        self._hooks[hook.name] = hook

    def transform(self, request: resource_pb2.RegisterResourceRequest, urn: str) -> None:
        """Apply the resource's own transforms, then each ancestor's, then the stack's, to the request in place.

        Raises StepError when the program's function does.
        """
        if request.transforms:
            self._own[urn] = tuple(request.transforms)
        if self._own:
            self._parents[urn] = request.parent
        if not self._own and not self.stack_transforms:
            return
        chain = list(request.transforms)
        parent = request.parent
        while parent:
            chain.extend(self._own.get(parent, ()))
            parent = self._parent_of(parent)
        for callback in (*chain, *self.stack_transforms):
            self._transform_once(request, callback, urn)

    def transform_invoke(self, request: resource_pb2.ResourceInvokeRequest) -> None:
        for callback in self.invoke_transforms:
            asked = resource_pb2.TransformInvokeRequest(
                token=request.tok,
                args=request.args,
                options=resource_pb2.TransformInvokeOptions(
                    provider=request.provider, version=request.version, plugin_download_url=request.pluginDownloadURL
                ),
            )
            answer = resource_pb2.TransformInvokeResponse.FromString(self._call(callback, asked, f"transform of {request.tok}", ""))
            if answer.HasField("args"):
                request.args.CopyFrom(answer.args)
            if answer.HasField("options"):
                request.provider, request.version = answer.options.provider, answer.options.version

    def run_hooks(self, kind: str, resource: Resource, old: Resource | None) -> None:
        """Run the `before_…` or `after_…` hooks of a resource. A failing `before` hook raises StepError; a failing `after` hook warns."""
        for name in resource.resource_hooks.get(kind, ()):
            hook = self._hooks.get(name)
            if hook is None:
                raise StepError(
                    f"resource hook '{name}' is not registered, so {kind.replace('_', ' ')} of {resource.name} cannot run it; "
                    "register it in the program, or remove the hook from the resource by an update before a destroy",
                    resource.urn,
                )
            if self._context.preview and not hook.on_dry_run:
                continue
            asked = _hook_request(kind, resource, old)
            error = resource_pb2.ResourceHookResponse.FromString(self._call(hook.callback, asked, f"hook {name}", resource.urn)).error
            if not error:
                continue
            if kind.startswith("after_") or hook.ignore_errors:
                self._context.events.diagnostic("warning", f"{kind} hook {name}: {error}", resource.urn)
            else:
                raise StepError(f"{kind} hook '{name}' failed: {error}", resource.urn)

    def close(self) -> None:
        """Must come before the program is released, or its callback server goes away under open connections."""
        with self._lock:
            for channel in self._channels.values():
                channel.close()
            self._channels.clear()

    def _parent_of(self, urn: str) -> str:
        if urn in self._parents:
            return self._parents[urn]
        known = self._context.ledger.new.get(urn)
        return known.parent if known is not None else ""

    def _transform_once(self, request: resource_pb2.RegisterResourceRequest, callback: Callback, urn: str) -> None:
        asked = resource_pb2.TransformRequest(
            type=request.type, name=request.name, custom=request.custom, parent=request.parent, properties=request.object
        )
        for option, field in _OPTION_FIELDS.items():
            if option != "delete_before_replace":
                _copy_field(asked.options, option, request, field)
        if request.deleteBeforeReplaceDefined:
            asked.options.delete_before_replace = request.deleteBeforeReplace
        answer = resource_pb2.TransformResponse.FromString(self._call(callback, asked, f"transform of {request.name}", urn))
        if answer.HasField("properties"):
            request.object.CopyFrom(answer.properties)
        if answer.HasField("options"):
            for option, field in _OPTION_FIELDS.items():
                request.ClearField(field)  # pyright: ignore[reportArgumentType]
                _copy_field(request, field, answer.options, option)
            request.deleteBeforeReplaceDefined = answer.options.HasField("delete_before_replace")

    def _call(self, callback: Callback, message: Message, what: str, urn: str) -> bytes:
        with self._lock:
            channel = self._channels.get(callback.target)
            if channel is None:
                channel = self._channels[callback.target] = grpc.insecure_channel(callback.target)
        asked = callback_pb2.CallbackInvokeRequest(token=callback.token, request=message.SerializeToString())
        try:
            return callback_pb2_grpc.CallbacksStub(channel).Invoke(asked).response
        except grpc.RpcError as error:
            raise StepError(f"{what} failed: {details_of(error)}", urn) from error


def details_of(error: grpc.RpcError) -> str:
    """The text in an RPC's failure."""
    details: Any = getattr(error, "details", None)
    return str(details()) if callable(details) else str(error)


def _hook_request(kind: str, resource: Resource, old: Resource | None) -> resource_pb2.ResourceHookRequest:
    asked = resource_pb2.ResourceHookRequest(urn=resource.urn, id=resource.id, name=resource.name, type=resource.type)
    if not kind.endswith("_delete"):
        asked.new_inputs.CopyFrom(to_struct(resource.inputs))
        if kind.startswith("after_"):
            asked.new_outputs.CopyFrom(to_struct(resource.outputs))
    if old is not None:
        asked.old_inputs.CopyFrom(to_struct(old.inputs))
        asked.old_outputs.CopyFrom(to_struct(old.outputs))
    return asked


def _copy_field(target: Message, to: str, source: Message, name: str) -> None:
    """Copy one field if it is set in `source`."""
    descriptor: Any = source.DESCRIPTOR.fields_by_name[name]
    value: Any = getattr(source, name)
    if descriptor.label == descriptor.LABEL_REPEATED:
        if not value:
            return
        if descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
            getattr(target, to).update(value)
        else:
            _extend(getattr(target, to), value)
    elif descriptor.has_presence:
        if source.HasField(name):  # pyright: ignore[reportArgumentType]
            if descriptor.message_type is not None:
                getattr(target, to).CopyFrom(value)
            else:
                setattr(target, to, value)
    elif value:
        setattr(target, to, value)


def _extend(target: Any, values: Iterable[Any]) -> None:
    target.extend(values)
