"""`kubernetes:helm.sh/v3:Release`: recorded, not run. The definitions that the chart brings are installed, and a ConfigMap says so.

The record `helm-release-<name>` holds chart, version and a digest of the values, never the values themselves: they may hold secrets.
What a chart would have started does not run here; whatever needs it must say what it does without.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_embedded.engine.provider import (
    UNKNOWN,
    CheckFailure,
    CheckResult,
    DiffResult,
    LiveResource,
    Properties,
    ProviderError,
    ProviderStep,
)
from pulumi_embedded.providers.kubernetes import charts, crds, diff, names
from pulumi_embedded.providers.kubernetes.await_.waiting import NotReadyError
from pulumi_embedded.providers.kubernetes.charts import CHARTS, chart_name
from pulumi_embedded.providers.kubernetes.errors import ApiRefusal, ApiUnreachableError, UnknownKindError, explain
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind
from pulumi_embedded.providers.kubernetes.objects import LiveObjects
from pulumi_embedded.providers.kubernetes.plans import Plans

_RECORD = ObjectKind("", "v1", "ConfigMap")
_NAMESPACE = ObjectKind("", "v1", "Namespace")
_RELEASE = ObjectKind("helm.sh", "v3", "Release")
_PREFIX = "helm-release-"
_FLOATING = ("", "*", "latest")
_COMPARATORS = ("^", "~", ">", "<", "=", "x", "*", "||", " ")
_INPUTS = frozenset(
    {"atomic", "chart", "cleanupOnFail", "compat", "createNamespace", "dependencyUpdate", "description", "devel", "disableCRDHooks"}
    | {"disableOpenapiValidation", "disableWebhooks", "forceUpdate", "lint", "maxHistory", "name", "namespace", "recreatePods"}
    | {"renderSubchartNotes", "replace", "repositoryOpts", "resetValues", "reuseValues", "skipAwait", "skipCrds", "takeOwnership"}
    | {"timeout", "values", "verify", "version", "waitForJobs", "allowNullValues"}
)

Definitions = Callable[[str, ProviderStep], Sequence[Path]]
"""Files of a set of definitions; may take its time the first time, and says so to the step."""


@dataclass(frozen=True, kw_only=True)
class RecordMarks:
    """How the records of releases are marked in a cluster."""

    label_prefix: str = "pulumi-embedded"
    """`<label_prefix>/recorded=helm-release` selects them."""
    field_manager: str = "pulumi-embedded-helm"


def no_definitions(name: str, step: ProviderStep) -> Sequence[Path]:
    """Where the host has no definitions of charts: none, and a warning."""
    step.warn(f"the definitions of {name} are not at hand, so none was installed; install them before what needs them")
    return ()


def check(name: str, old: Properties | None, new: Properties, suffix: names.Suffix, namespace: str) -> CheckResult:
    """A name and a namespace filled in; every failure at once."""
    failures = [CheckFailure(key, "is not modelled by the embedded Release; leave it out") for key in sorted({*new} - _INPUTS)]
    chart, version, values = new.get("chart"), new.get("version"), new.get("values")
    if chart != UNKNOWN and chart_name(str(chart or "")) not in CHARTS:
        known = ", ".join(sorted(CHARTS))
        failures.append(
            CheckFailure("chart", f"is {chart!r}, which the embedded provider does not know and therefore cannot record; it knows: {known}")
        )
    if version != UNKNOWN and (str(version or "") in _FLOATING or any(mark in str(version) for mark in _COMPARATORS)):
        failures.append(CheckFailure("version", f"is {version!r}, so the next update could install something else; pin one version"))
    if values is not None and values != UNKNOWN and not isinstance(values, dict):
        failures.append(CheckFailure("values", f"is a {type(values).__name__}; values are a mapping, as in values.yaml"))
    named = new.get("name") or (old or {}).get("name") or f"{name}-{suffix()}"
    placed = new.get("namespace") or namespace or "default"
    return CheckResult({**new, "name": named, "namespace": placed}, tuple(sorted(failures, key=lambda failure: failure.property)))


def compare(old: Properties, new: Properties, ignored: Sequence[str]) -> DiffResult:
    """Name and namespace replace the release; everything else upgrades it."""
    return diff.compare_plain(old, new, ignored, replacing=("name", "namespace"))


def values_digest(values: Any) -> str:
    """SHA-256 of the values as canonical JSON."""
    return hashlib.sha256(json.dumps(values or {}, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class Releases:
    """Releases of one provider instance."""

    objects: LiveObjects
    plans: Plans
    definitions: Definitions
    marks: RecordMarks = RecordMarks()

    def install(self, inputs: Properties, revision: int, step: ProviderStep) -> tuple[str, Properties]:
        """Create (revision 1) or upgrade; the same work, because a record and its definitions are applied."""
        chart = CHARTS[chart_name(str(inputs["chart"]))] if inputs["chart"] != UNKNOWN else CHARTS["gateway"]
        if step.preview:
            if not inputs.get("skipCrds"):
                self.plans.note_groups(charts.groups(chart))
            if inputs.get("createNamespace"):
                self.plans.note(_NAMESPACE, str(inputs["namespace"]), made=True)
            return "", {**inputs, "status": _status(inputs, revision)}
        where = names.object_id(str(inputs["namespace"]), str(inputs["name"]))
        try:
            if inputs.get("createNamespace"):
                self._create_namespace(str(inputs["namespace"]))
            if not inputs.get("skipCrds"):
                self._install_definitions(chart, step)
            self.objects.cluster.apply(_RECORD, _record(inputs, revision, self.marks), self.marks.field_manager, force=True)
        except (ApiRefusal, UnknownKindError, ApiUnreachableError) as error:
            raise explain(error, _RELEASE, where) from error
        except NotReadyError as error:
            raise ProviderError(
                f"Release {where}: a definition of the chart was refused, so the release was not recorded; {error}"
            ) from error
        step.status(f"recorded, not run: {inputs['chart']} {inputs['version']}")
        return where, {**inputs, "status": _status(inputs, revision)}

    def revision(self, outputs: Properties) -> int:
        """Of the recorded release."""
        status = outputs.get("status")
        return int(status.get("revision") or 1) if isinstance(status, dict) else 1

    def read(self, id: str, inputs: Properties, outputs: Properties) -> LiveResource | None:
        namespace, name = names.split_id(id)
        try:
            record = self.objects.cluster.get(_RECORD, namespace or "default", _PREFIX + name)
        except (ApiRefusal, UnknownKindError, ApiUnreachableError) as error:
            raise explain(error, _RELEASE, id) from error
        if record is None:
            return None
        data: Mapping[str, str] = record.get("data") or {}
        live: Properties = {**inputs, "name": name, "namespace": namespace, "chart": data.get("chart"), "version": data.get("version")}
        if data.get("valuesDigest") != values_digest(inputs.get("values")):
            # The values themselves are nowhere in the cluster; that they differ is all that can be told.
            live["values"] = {"valuesDigest": data.get("valuesDigest")}
        return LiveResource(id, live, {**outputs, **live, "status": _status(live, int(data.get("revision") or 1))})

    def delete(self, id: str, inputs: Properties, step: ProviderStep) -> None:
        """Remove the record, and definitions that are templates of the chart, with every object of their kinds, unless the values keep them."""
        namespace, name = names.split_id(id)
        self.objects.delete(_RECORD, names.object_id(namespace or "default", _PREFIX + name), {}, {}, step)
        chart = CHARTS[chart_name(str(inputs["chart"]))]
        if not chart.kept_by or _said(inputs.get("values"), chart.kept_by) == "keep":
            return
        for definition in crds.read(file for each in chart.definitions for file in self.definitions(each, step)):
            self.objects.delete(crds.DEFINITION, definition["metadata"]["name"], {}, {}, step)

    def _create_namespace(self, namespace: str) -> None:
        if self.objects.cluster.get(_NAMESPACE, "", namespace) is None:
            body: Properties = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            self.objects.cluster.apply(_NAMESPACE, body, self.marks.field_manager, force=True)

    def _install_definitions(self, chart: charts.KnownChart, step: ProviderStep) -> None:
        files = [file for name in chart.definitions for file in self.definitions(name, step)]
        found = crds.read(files) + [charts.permissive(*definition, self.marks.label_prefix) for definition in chart.own]
        if found:
            step.status(f"installing {len(found)} definitions")
            crds.install(found, self.objects.cluster, step, self.objects.clock)


def _said(values: Any, path: Sequence[str]) -> Any:
    for key in path:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _status(inputs: Properties, revision: int) -> Properties:
    return {
        "appVersion": "",
        "chart": inputs.get("chart"),
        "name": inputs.get("name"),
        "namespace": inputs.get("namespace"),
        "revision": revision,
        "status": "deployed",
        "version": inputs.get("version"),
    }


def _record(inputs: Properties, revision: int, marks: RecordMarks) -> Properties:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": _PREFIX + str(inputs["name"]),
            "namespace": str(inputs["namespace"]),
            "labels": {f"{marks.label_prefix}/recorded": "helm-release"},
        },
        "data": {
            "chart": str(inputs["chart"]),
            "name": str(inputs["name"]),
            "revision": str(revision),
            "state": "recorded, not run",
            "valuesDigest": values_digest(inputs.get("values")),
            "version": str(inputs["version"]),
        },
    }
