"""Which of an environment's services are worth a whole look: a few questions about all of them at once. Pure but for the asking.

It may name one too many, never one too few by more than its thresholds, which are those of the symptoms. What cannot be asked for all at
once leaves every service in.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from headway.diagnosis.measure import ANSWERED
from headway.diagnosis.measures import MEASURES
from headway.diagnosis.objects import Body
from headway.diagnosis.states import states
from headway.service_status.promises import ALLOWED
from headway.service_status.replicas import service_of

Ask = Callable[[str], Sequence[tuple[Mapping[str, str], float]]]

_BY = "sum by (destination_service_namespace, destination_service_name)"
_ALL = 'reporter="source",destination_service_name=~".+-r[0-9a-f]{10}(-baseline)?"'
_REFUSED = "401|403|429|400|404|405|411|413|415|422"
_FULL = f"max({MEASURES['gateway_overloaded'].query} > 0.04 or {MEASURES['gateway_closed'].query} > 0.08)"
"""A gateway that takes no more hurts whoever is behind it."""
_TIME = "istio_request_duration_milliseconds"
_UNREAD = 'group by (platform_io_tenant, platform_io_model) (up{platform_io_model!=""} == 0)'
_SILENT = (
    'group by (label_platform_io_tenant, label_platform_io_model) (kube_pod_labels{label_platform_io_model!=""} unless on (namespace, pod)'
    ' label_replace(label_replace(DCGM_FI_DEV_FB_USED{exported_pod!=""}, "pod", "$1", "exported_pod", "(.*)"),'
    ' "namespace", "$1", "exported_namespace", "(.*)") and on () group(DCGM_FI_DEV_FB_USED))'
)
"""Where GPUs are told of at all, those of a service's pods are not."""


def _named(query: str, prefix: str) -> str:
    """With the tenant and the model that labels which begin so name."""
    by_tenant = f'label_replace({query}, "tenant", "$1", "{prefix}_tenant", "(.*)")'
    return f'label_replace({by_tenant}, "model", "$1", "{prefix}_model", "(.*)")'


def questions(window: str, before: str) -> tuple[str, ...]:
    """PromQL that answers a series for each service that fails or refuses requests, is slower than `before` ago, burns a promise, or
    is not measured."""
    bad = f'{_BY} (rate(istio_requests_total{{{_ALL},response_code=~"5..|{_REFUSED}"}}[{window}]))'
    answered = f"{{{_ALL},{ANSWERED}}}[{window}]"
    mean = f"{_BY} (rate({_TIME}_sum{answered})) / {_BY} (rate({_TIME}_count{answered}))"
    earlier = mean.replace(f"[{window}]", f"[{window}] offset {before}")
    return (
        f"{bad} / {_BY} (rate(istio_requests_total{{{_ALL}}}[{window}])) > 0.004",
        f"({mean}) > 1.2 * ({earlier})",
        f"({mean}) unless ({earlier})",
        f"{_BY} (rate(istio_requests_total{{{_ALL}}}[{window}])) and on () ({_FULL} > 0)".replace("$window", window),
        f"headway:slo_bad:share5m > on (tenant, model, objective) {ALLOWED}",
        _named(_UNREAD, "platform_io"),
        _named(_SILENT, "label_platform_io"),
    )


def measured(ask: Ask, window: str, before: str) -> set[str]:
    """Services that a question names, as `tenant/model`."""
    found = set[str]()
    for question in questions(window, before):
        for labels, _ in ask(question):
            if "tenant" in labels:
                found.add(f"{labels['tenant']}/{labels.get('model')}")
            else:
                model = labels.get("destination_service_name", "").removesuffix("-baseline").rpartition("-")[0]
                found.add(f"{labels.get('destination_service_namespace')}/{model}")
    return found


def placed(deployments: Iterable[Body], pods: Iterable[Body], nodes: Sequence[Body], *, at: float) -> set[str]:
    """Services of which an object of the cluster says something."""
    by_service: dict[str, tuple[list[Body], list[Body]]] = {}
    for number, objects in enumerate((deployments, pods)):
        for each in objects:
            if service := service_of(each["metadata"], each["metadata"].get("labels") or {}):
                by_service.setdefault("/".join(service), ([], []))[number].append(each)
    return {chain for chain, (mine, theirs) in by_service.items() if states(mine, theirs, nodes, theirs, (), at=at)}
