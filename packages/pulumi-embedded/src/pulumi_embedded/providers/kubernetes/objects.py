"""The life of one object: planned, applied, awaited, read, deleted. Everything that talks to the cluster about it is here.

The trap: a create may be a repetition, because the engine was killed before it could write the first one down. As with the real provider,
which creates by POST (pulumi/pulumi-kubernetes 4.29 and later, provider/pkg/await/await.go, Creation), whatever exists is refused then, also
what is being deleted and what this resource once made, unless the provider is told to take over what exists.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pulumi_embedded.engine.paths import Path, parse
from pulumi_embedded.engine.provider import LiveResource, PartialFailureError, Properties, ProviderError, ProviderStep
from pulumi_embedded.providers.kubernetes import drift, names, paths, wire
from pulumi_embedded.providers.kubernetes.await_.waiting import DEFAULT_SECONDS, NotReadyError, unready, until_gone, until_ready
from pulumi_embedded.providers.kubernetes.client import ClusterConnection
from pulumi_embedded.providers.kubernetes.clock import AwaitClock
from pulumi_embedded.providers.kubernetes.errors import ApiRefusal, ApiUnreachableError, UnknownKindError, explain
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind
from pulumi_embedded.providers.kubernetes.planning import has_unknown, planned
from pulumi_embedded.providers.kubernetes.plans import Plans
from pulumi_embedded.providers.kubernetes.settings import UPSERT_VARIABLE, ProviderSettings

_PREVIEW_PATIENCE = 2.0
_SETTLING_SECONDS = 5.0
"""How long a definition that is established may not be served yet."""
_FALLBACK = ("does not support dry run", "not found")
# Only these own objects that must go first; the garbage collector learns of new custom kinds up to 30 s late, and a foreground deletion
# of one of those would wait for it.
_OWNERS = frozenset({"CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"})


@dataclass(frozen=True)
class LiveObjects:
    """Operations on plain objects of one provider instance."""

    cluster: ClusterConnection
    settings: ProviderSettings
    plans: Plans
    clock: AwaitClock

    def namespaced(self, kind: ObjectKind, inputs: Properties) -> bool:
        """Whether the kind lives in namespaces; for a kind that nobody serves, whether the object names one."""
        if kind.namespaced is not None:
            return kind.namespaced
        if not self.plans.away:
            try:
                return self.cluster.served(kind, patience=_PREVIEW_PATIENCE).namespaced
            except UnknownKindError:
                pass
            except ApiUnreachableError:
                self.plans.lost()
        return bool(names.metadata(inputs).get("namespace"))

    # -- create and update -----------------------------------------------------------------------------------------------------

    def create(self, urn: str, kind: ObjectKind, inputs: Properties, step: ProviderStep) -> tuple[str, Properties]:
        manager = names.field_manager(urn)
        if step.preview:
            dry_run = self._rehearsed(urn, kind, inputs, manager, step, creating=True)
            return "", planned(kind, inputs, dry_run, None)
        namespace, name = self._place(kind, inputs)
        try:
            self._refuse_existing(kind, self._served_soon(lambda: self.cluster.get(kind, namespace, name)))
            live = self._apply(urn, kind, inputs, manager)
        except (ApiRefusal, UnknownKindError, ApiUnreachableError) as error:
            raise explain(error, kind, names.object_id(namespace, name)) from error
        return self._finished(kind, live, inputs, manager, step)

    def update(self, urn: str, kind: ObjectKind, id: str, old_outputs: Properties, new: Properties, step: ProviderStep) -> Properties:
        manager = str(old_outputs.get(names.FIELD_MANAGER) or names.field_manager(urn))
        if step.preview:
            return planned(kind, new, self._rehearsed(urn, kind, new, manager, step, creating=False), old_outputs)
        try:
            live = self._apply(urn, kind, new, manager)
        except (ApiRefusal, UnknownKindError, ApiUnreachableError) as error:
            raise explain(error, kind, id) from error
        return self._finished(kind, live, new, manager, step)[1]

    def _finished(self, kind: ObjectKind, live: Properties, inputs: Properties, manager: str, step: ProviderStep) -> tuple[str, Properties]:
        head = live["metadata"]
        id = names.object_id(head.get("namespace", ""), head["name"])
        try:
            if not names.is_true(inputs, names.SKIP_AWAIT):
                live = until_ready(kind, live, self.cluster, step, _seconds(inputs, step), self.clock)
        except NotReadyError as error:
            raise PartialFailureError(id, wire.outputs(kind, error.live, manager), [str(error)]) from error
        if kind.kind == "CustomResourceDefinition":
            self.cluster.forget_kinds()
        return id, wire.outputs(kind, live, manager)

    def _refuse_existing(self, kind: ObjectKind, live: Properties | None) -> None:
        if live is None or self.settings.upsert:
            return
        head = live["metadata"]
        owners = ", ".join(_owners(live)) or "nobody who is known"
        id = names.object_id(head.get("namespace", ""), head["name"])
        leaving = ", and is being deleted" if head.get("deletionTimestamp") else ""
        raise ProviderError(
            f"{kind.kind} {id} already exists (managed by {owners}){leaving}, so it was not created; what an interrupted update made is taken "
            f'over with {UPSERT_VARIABLE}=true; else take it over with ResourceOptions(import_="{id}"), delete it, or choose another name'
        )

    def _apply(self, urn: str, kind: ObjectKind, inputs: Properties, manager: str, *, dry_run: bool = False) -> Properties:
        """Apply; fields in ignoreChanges that somebody else owns by now are left to them."""
        body = self._manifest(kind, inputs)
        force = self.settings.patch_force or names.is_true(inputs, names.PATCH_FORCE)
        ignored = [parse(written) for written in self.plans.ignored(urn)]
        while True:
            try:
                if dry_run:
                    return self.cluster.apply(kind, body, manager, force=force, dry_run=True, patience=_PREVIEW_PATIENCE)
                return self._served_soon(lambda body=body: self.cluster.apply(kind, body, manager, force=force))
            except ApiRefusal as error:
                contested = [paths.located(field, body) for field, _ in error.conflicts]
                yielded = [path for path in contested if any(paths.covers(pattern, path) for pattern in ignored)]
                # The last element of a list goes first, or it would not be the last any more.
                smaller = body
                for path in sorted(yielded, key=_place_in_list, reverse=True):
                    smaller = paths.without(smaller, path)
                if smaller == body:
                    raise
                body = smaller

    def _served_soon(self, ask: Any) -> Any:
        """What `ask` answers, repeated for a moment while the kind is not served: its definition may be seconds old."""
        started = self.clock.now()
        while True:
            late = self.clock.now() - started >= _SETTLING_SECONDS
            try:
                return ask()
            except UnknownKindError:
                if late:
                    raise
            except ApiRefusal as error:
                if late or not error.misses_kind:
                    raise
            self.clock.sleep(0.25)
            self.cluster.forget_kinds()

    def _manifest(self, kind: ObjectKind, inputs: Properties) -> Properties:
        body = wire.manifest(kind, inputs)
        if kind.namespaced is not False and not names.metadata(inputs).get("namespace"):
            return body
        if not self.namespaced(kind, inputs):
            return {**body, "metadata": {key: value for key, value in body["metadata"].items() if key != "namespace"}}
        return body

    def _place(self, kind: ObjectKind, inputs: Properties) -> tuple[str, str]:
        head = names.metadata(inputs)
        namespace = str(head.get("namespace") or "default") if self.namespaced(kind, inputs) else ""
        return namespace, str(head["name"])

    # -- preview ---------------------------------------------------------------------------------------------------------------

    def _rehearsed(
        self, urn: str, kind: ObjectKind, inputs: Properties, manager: str, step: ProviderStep, *, creating: bool
    ) -> Properties | None:
        """The API server's dry run, or None where it could not be asked. Raises ProviderError for what the user must correct."""
        head = names.metadata(inputs)
        unsettled = self.plans.unsettled(kind, str(head.get("namespace") or "default"))
        self.plans.note(kind, str(head.get("name")), made=creating)
        # A replacement meets its predecessor, which is still there under the same name.
        replacing = creating and self.plans.was_compared(urn)
        if unsettled or replacing or self.plans.away or has_unknown(inputs):
            return None
        namespace, name = self._place(kind, inputs)
        try:
            live = self.cluster.get(kind, namespace, name, patience=_PREVIEW_PATIENCE) if creating else None
            if live is not None:
                # The real provider's preview passes over whatever exists (Create in its provider.go), and its update then fails.
                if not (step.repeated or manager in _owners(live)):
                    self._refuse_existing(kind, live)
                return None
            return wire.outputs(kind, self._apply(urn, kind, inputs, manager, dry_run=True), manager)
        except UnknownKindError:
            self.plans.note_unserved(kind)
        except ApiUnreachableError as error:
            if self.plans.lost():
                step.warn(
                    f"the Kubernetes API server does not answer ({error}); objects are planned from their inputs alone and were not checked "
                    "by the cluster; start it before the update"
                )
        except ApiRefusal as error:
            if error.code != 404 and not any(word in error.message for word in _FALLBACK):
                # What is forbidden ends no preview of the real provider, and any other refusal does (`Create` and `Update` in its
                # provider/pkg/provider/provider.go); here only what the same preview may allow is passed over.
                governors = (*error.governor, ("Namespace", str(head.get("namespace") or "default")))
                if error.code != HTTPStatus.FORBIDDEN or not self.plans.changes(governors):
                    raise explain(error, kind, names.object_id(namespace, name)) from error
                step.warn(f"{error.message}: this refusal may be over once the update has changed what it refers to")
        return None

    # -- read and delete -------------------------------------------------------------------------------------------------------

    def read(self, urn: str, kind: ObjectKind, id: str, inputs: Properties, outputs: Properties) -> LiveResource | None:
        namespace, name = names.split_id(id)
        try:
            served = self.cluster.get(kind, namespace, name)
        except UnknownKindError:
            return None
        except (ApiRefusal, ApiUnreachableError) as error:
            raise explain(error, kind, id) from error
        if served is None:
            return None
        manager = str(outputs.get(names.FIELD_MANAGER) or names.field_manager(urn))
        found = wire.outputs(kind, served, manager)
        head = served["metadata"]
        id = names.object_id(head.get("namespace", ""), head["name"])
        # What is imported or looked up has no recorded inputs, and is not judged.
        judged = inputs and not names.is_true(inputs, names.SKIP_AWAIT)
        reason = unready(kind, served, self.cluster) if judged else ""
        return LiveResource(id, drift.shaped(inputs, wire.live(kind, served)), found, (f"{kind.kind} {id}: {reason}",) if reason else ())

    def delete(self, kind: ObjectKind, id: str, inputs: Properties, outputs: Properties, step: ProviderStep) -> None:
        namespace, name = names.split_id(id)
        uid = str(names.metadata(outputs).get("uid") or "")
        propagation = str(names.annotation(inputs, names.DELETION_PROPAGATION) or ("foreground" if kind.kind in _OWNERS else "background"))
        try:
            if not self.cluster.delete(kind, namespace, name, uid=uid, propagation=propagation):
                return
        except UnknownKindError:
            return
        except ApiUnreachableError as error:
            if self.settings.delete_unreachable:
                step.warn(
                    f"{kind.kind} {id}: the API server does not answer, and deleteUnreachable is set: dropped from state, not deleted"
                )
                return
            raise explain(error, kind, id) from error
        except ApiRefusal as error:
            raise explain(error, kind, id) from error
        seconds = step.timeout or _annotated_seconds(inputs) or DEFAULT_SECONDS
        if held := until_gone(kind, namespace, name, uid, self.cluster, step, seconds, self.clock):
            raise ProviderError(f"{kind.kind} {id}: its deletion has not ended; {held}; remove what holds it and run the update again")
        if kind.kind == "CustomResourceDefinition":
            self.cluster.forget_kinds()


def _owners(live: Properties) -> list[str]:
    return sorted({str(entry.get("manager")) for entry in live["metadata"].get("managedFields") or ()})


def _seconds(inputs: Properties, step: ProviderStep) -> float:
    return step.timeout or _annotated_seconds(inputs) or DEFAULT_SECONDS


def _annotated_seconds(inputs: Properties) -> float:
    value = str(names.annotation(inputs, names.TIMEOUT_SECONDS) or "")
    return float(value) if value.isdecimal() else 0.0


def _place_in_list(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple((part, "") if isinstance(part, int) else (0, part) for part in path)
