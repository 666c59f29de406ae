"""What the proxies of replicas count with, as releases and promises are judged by: by which edges. Pure.

The trap: Istio's proxies take edges from an annotation of their own pod and from nowhere else (pkg/bootstrap/config.go of istio/istio).
Without it they count by Envoy's, between which a service may become twice as slow unseen.
"""

import json

from components.addons.istio import BUCKETS_ANNOTATION
from headway.signals.buckets import latency_edges_milliseconds

DURATIONS = "istiocustom"
"""How the names of Istio's own histograms begin."""


def annotations() -> dict[str, str]:
    """Of the pod of each replica."""
    return {BUCKETS_ANNOTATION: json.dumps({DURATIONS: list(latency_edges_milliseconds())}, separators=(",", ":"))}
