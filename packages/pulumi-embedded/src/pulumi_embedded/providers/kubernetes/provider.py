"""The kubernetes provider behind the engine's interface: chooses between plain objects and Helm releases, and holds one connection."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from pulumi_embedded.engine.provider import (
    UNKNOWN,
    CheckResult,
    ComponentContext,
    DiffResult,
    LiveResource,
    Properties,
    Provider,
    ProviderError,
    ProviderStep,
)
from pulumi_embedded.providers.kubernetes import checks, diff, kinds, names, releases, settings
from pulumi_embedded.providers.kubernetes.client import ClusterConnection
from pulumi_embedded.providers.kubernetes.clock import AwaitClock
from pulumi_embedded.providers.kubernetes.kinds import RELEASE_TYPE, kind_of
from pulumi_embedded.providers.kubernetes.objects import LiveObjects
from pulumi_embedded.providers.kubernetes.planning import planned
from pulumi_embedded.providers.kubernetes.plans import Plans
from pulumi_embedded.providers.kubernetes.releases import Definitions, RecordMarks, Releases, no_definitions
from pulumi_embedded.providers.kubernetes.settings import ProviderSettings

VERSION = "4.34.2"
"""Of the SDK whose provider this one stands in for."""


class KubernetesProvider(Provider):
    """One instance per provider resource. `default_kubeconfig` serves a provider that is given none."""

    package = kinds.PACKAGE
    version = VERSION

    def __init__(
        self,
        default_kubeconfig: Path,
        definitions: Definitions = no_definitions,
        clock: AwaitClock | None = None,
        suffix: names.Suffix = names.random_suffix,
        connect: Callable[[ProviderSettings, AwaitClock], ClusterConnection] = lambda found, clock: ClusterConnection(
            found.kubeconfig, found.context, clock
        ),
        marks: RecordMarks | None = None,
    ) -> None:
        self._default_kubeconfig, self._definitions, self._suffix, self._connect = default_kubeconfig, definitions, suffix, connect
        self._clock = clock or AwaitClock()
        self._marks = marks or RecordMarks()
        self._plans = Plans()
        self._settings: ProviderSettings | None = None
        self._objects: LiveObjects | None = None
        self._lock = threading.Lock()
        self._inputs: Properties = {}

    # -- configuration ---------------------------------------------------------------------------------------------------------

    def check_config(self, urn: str, old: Properties, new: Properties) -> CheckResult:
        return CheckResult(new, settings.check(new))

    def diff_config(self, urn: str, old: Properties, new: Properties) -> DiffResult:
        """As the real provider (provider/pkg/provider/provider.go, DiffConfig): another cluster replaces the provider and with it every
        object, and another way to the same one does not. A kubeconfig that is not known yet counts as another cluster, unless
        the cluster has an identifier that stays.
        """
        found = super().diff_config(urn, old, new)
        if not found.details:
            return found
        identified = old.get("clusterIdentifier") and old.get("clusterIdentifier") == new.get("clusterIdentifier")
        if identified:
            return found
        if old.get("clusterIdentifier") and new.get("clusterIdentifier"):
            return DiffResult(found.details, ("clusterIdentifier",))
        before, after = settings.active_server(old), settings.active_server(new)
        moved = before is not None and after is not None and before != after
        replaces = [key for key in ("context", "kubeconfig") if key in found.details and (moved or new.get(key) == UNKNOWN)]
        return DiffResult(found.details, tuple(replaces))

    def configure(self, inputs: Properties) -> None:
        """Nothing is read or connected yet: a plan that changes nothing never needs the cluster."""
        self._inputs = inputs

    def close(self) -> None:
        if self._objects is not None:
            self._objects.cluster.close()

    # -- resources -------------------------------------------------------------------------------------------------------------

    def check(self, urn: str, type: str, name: str, old: Properties | None, new: Properties) -> CheckResult:
        namespace = str(self._inputs.get("namespace") or "")
        if type == RELEASE_TYPE:
            return releases.check(name, old, new, self._suffix, namespace)
        return checks.complete(kind_of(type), name, old, new, self._suffix, namespace)

    def plan(self, type: str, inputs: Properties, old_outputs: Properties | None) -> Properties:
        if type == RELEASE_TYPE:
            return {**inputs, "status": UNKNOWN}
        return planned(kind_of(type), inputs, None, old_outputs)

    def diff(
        self,
        urn: str,
        type: str,
        id: str,
        old_inputs: Properties,
        old_outputs: Properties,
        new: Properties,
        ignore_changes: Sequence[str],
    ) -> DiffResult:
        self._plans.compared(urn, tuple(ignore_changes))
        try:
            if type == RELEASE_TYPE:
                return releases.compare(old_inputs, new, ignore_changes)
            kind = kind_of(type)
            mutable = _flag(self._inputs, "enableConfigMapMutable" if kind.kind == "ConfigMap" else "enableSecretMutable")
            namespaced = kind.namespaced if kind.namespaced is not None else "/" in id
            return diff.compare(kind, old_inputs, new, ignore_changes, namespaced=namespaced, payload_mutable=mutable)
        except ValueError as error:
            raise ProviderError(
                f"ignoreChanges: {error}, so nothing can be ignored by it; write it like spec.containers[0].image"
            ) from error

    def create(self, urn: str, type: str, name: str, inputs: Properties, step: ProviderStep) -> tuple[str, Properties]:
        if type == RELEASE_TYPE:
            return self._releases.install(inputs, 1, step)
        return self._connected.create(urn, kind_of(type), inputs, step)

    def read(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties) -> LiveResource | None:
        if type == RELEASE_TYPE:
            return self._releases.read(id, inputs, outputs)
        return self._connected.read(urn, kind_of(type), id, inputs, outputs)

    def update(
        self, urn: str, type: str, id: str, old_inputs: Properties, old_outputs: Properties, new: Properties, step: ProviderStep
    ) -> Properties:
        if type == RELEASE_TYPE:
            return self._releases.install(new, self._releases.revision(old_outputs) + 1, step)[1]
        return self._connected.update(urn, kind_of(type), id, old_outputs, new, step)

    def delete(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties, step: ProviderStep) -> None:
        if type == RELEASE_TYPE:
            self._releases.delete(id, inputs, step)
        else:
            self._connected.delete(kind_of(type), id, inputs, outputs, step)

    def invoke(self, token: str, args: Properties, preview: bool) -> Properties:
        raise kinds.refuse_function(token)

    def construct(self, type: str, name: str, inputs: Properties, context: ComponentContext) -> tuple[str, Properties]:
        raise kinds.refuse_component(type)

    # -- the connection --------------------------------------------------------------------------------------------------------

    @property
    def _connected(self) -> LiveObjects:
        with self._lock:
            if self._objects is None:
                found = settings.parse(self._inputs, self._default_kubeconfig)
                self._objects = LiveObjects(self._connect(found, self._clock), found, self._plans, self._clock)
            return self._objects

    @property
    def _releases(self) -> Releases:
        return Releases(self._connected, self._plans, self._definitions, self._marks)


def _flag(inputs: Properties, key: str) -> bool:
    return str(inputs.get(key, False)).lower() == "true"
