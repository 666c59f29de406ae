"""Every hypothesis, one file a failure layer. An earlier one is preferred where two explain as much: the more special stand first."""

from headway.diagnosis.hypotheses import contract, deployment, gateway, gpu, model_server, node, release, request, starting, watchers
from headway.diagnosis.hypothesis import Hypothesis

HYPOTHESES: tuple[Hypothesis, ...] = (
    *contract.ALL,
    *release.ALL,
    *starting.ALL,
    *node.ALL,
    *gpu.ALL,
    *deployment.ALL,
    *request.ALL,
    *gateway.ALL,
    *model_server.ALL,
    *watchers.ALL,
)
"""All of them, in order of preference."""
