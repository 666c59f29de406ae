"""Labels of Kubernetes objects and tags of AWS resources: one function each, with the keys of `headway.wire`.

A Deployment's selector is immutable, so `selector` holds only what never changes for the object's whole life.
"""

from components.naming import label_value
from headway.wire import MODEL, PART_OF, PREFIX, RELEASE, SYSTEM_NODES, TENANT, WORKLOAD_CLASS

QUEUES = f"{PREFIX}/queues"
"""Annotation of a tenant's namespace: the addresses of its models' queues, which their autoscalers may ask about."""
MODELS = f"{PREFIX}/models"
"""Annotation of a tenant's namespace: the names of its models, each of which has one route."""
WORKLOAD_LABEL, SYSTEM = SYSTEM_NODES


def labels(
    component: str,
    *,
    tenant: str | None = None,
    model: str | None = None,
    release: str | None = None,
    workload_class: str | None = None,
) -> dict[str, str]:
    """Labels of an object that plays the part `component` ("server", "quota", "gateway"); only what is given
    appears, sorted by key.
    """
    name = "-".join(part for part in (tenant, model) if part) or component
    by_key = {
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": "pulumi",
        "app.kubernetes.io/name": label_value(name),
        "app.kubernetes.io/part-of": PART_OF,
        TENANT: tenant,
        MODEL: model,
        RELEASE: release,
        WORKLOAD_CLASS: workload_class,
    }
    return {key: label_value(value) for key, value in sorted(by_key.items()) if value is not None}


def selector(*, tenant: str, model: str, release: str | None = None) -> dict[str, str]:
    """What picks the pods of a model, or of one release of it, and of nothing else."""
    by_key = {MODEL: model, RELEASE: release, TENANT: tenant}
    return {key: label_value(value) for key, value in sorted(by_key.items()) if value is not None}


def tags(environment: str, layer: str, **more: str) -> dict[str, str]:
    """Default tags of every AWS resource of a layer: what cost reports, leftover searches and tag conditions go by."""
    by_key = {"environment": environment, "layer": layer, "managed-by": "pulumi", "part-of": PART_OF, **more}
    return {f"{PREFIX}/{key}": value for key, value in sorted(by_key.items())}
