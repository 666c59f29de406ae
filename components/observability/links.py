"""From a series to the requests behind it: the address of the trail's dashboard, with what the series says of itself.
Pure.

Envoy, Triton and vLLM put no exemplars on what they count, so a metric leads to its traces by tenant, model, release
and time. A variable of Grafana that names a label which the series lacks stays in the address as it stands; so only
labels of the legend are handed on.
"""

import re
from collections.abc import Iterable, Mapping

from headway.wire import TRAIL

TITLE = "Requests, logs and causes of this series"

NAMES: Mapping[str, tuple[str, ...]] = {
    "tenant": ("tenant", "destination_service_namespace", "exported_namespace", "namespace", "platform_io_tenant"),
    "model": ("model", "platform_io_model"),
    "release": ("release", "platform_io_release"),
    "pod": ("pod",),
}
"""The trail's variables, each with the labels of metrics that hold it. A tenant's namespace has its name."""


def address(legends: Iterable[str], about: Mapping[str, str]) -> str | None:
    """Where a panel with `legends` leads, whose series are all `about` something; None where its series say nothing
    of a request.
    """
    named = [set(re.findall(r"\{\{(\w+)\}\}", legend)) for legend in legends]
    common = set.intersection(*named) if named else set[str]()
    found = dict(about)
    for variable, labels in NAMES.items():
        label = next((each for each in labels if each in common), None)
        if variable not in found and label is not None:
            found[variable] = f"${{__field.labels.{label}}}"
    if not found:
        return None
    chosen = "".join(f"&var-{variable}={found[variable]}" for variable in NAMES if variable in found)
    return f"/d/{TRAIL}?${{__url_time_range}}{chosen}"
