"""Runs the real program on the real stack files, under mocks: what a layer registers for each environment, as data."""

import json
import runpy
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from components.handover import kubeconfig
from stacks.settings import FOLDER
from tests.components.recording import Recording, record

PROJECT = FOLDER.parent

UPSTREAM: Mapping[str, Any] = {
    name: f"{name}-of-the-layer-above"
    for name in (
        "artifact_bucket",
        "batch_queue_arn",
        "batch_queue_url",
        "cluster_name",
        "data_key_arn",
        "gateway",
        "gateway_hosts",
        "keda_role_arn",
        "ledger_bucket",
        "otel_endpoint",
        "prometheus_address",
        "region",
        "repositories",
        "telemetry_bucket",
        "volumes_key_arn",
        "vpc_id",
    )
} | {
    "kubeconfig": kubeconfig("a-cluster", "us-west-2", "https://cluster.example", "Q0E="),
    "oidc_issuer": "oidc.eks.mock/id/1",
    "oidc_provider_arn": "arn:aws:iam::000000000000:oidc-provider/oidc.eks.mock/id/1",
}
"""What the layer above has handed over."""


LAYER_STACKS = tuple(
    sorted(file.stem.removeprefix("Pulumi.") for layer in ("cluster", "platform") for file in FOLDER.glob(f"Pulumi.*-{layer}.yaml"))
)
"""The stacks of every environment that hold no tenant."""


def config_of(stack: str, folder: Path = FOLDER) -> dict[str, str]:
    """A stack file's configuration as the engine hands it to the program: full key to text, structures as JSON."""
    read: dict[str, Any] = yaml.safe_load((folder / f"Pulumi.{stack}.yaml").read_text())
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in (read.get("config") or {}).items()}


def cloud_outputs(type: str, name: str, inputs: dict[str, Any]) -> Mapping[str, Any]:
    """What AWS would add to a resource, as far as the program reads it."""
    if not type.startswith("aws:"):
        return {}
    found: dict[str, Any] = {"arn": f"arn:aws:mock:::{name}", "name": inputs.get("name", name)}
    if type == "aws:eks/nodeGroup:NodeGroup":
        found["resources"] = [{"autoscalingGroups": [{"name": f"eks-{name}"}]}]
    if type == "aws:iam/openIdConnectProvider:OpenIdConnectProvider":
        found["arn"] = f"arn:aws:iam::000000000000:oidc-provider/{str(inputs['url']).removeprefix('https://')}"
    if type == "aws:ec2/launchTemplate:LaunchTemplate":
        found["latestVersion"] = 1
    return found


NODE_GROUPS = "aws:eks/getClusters:getClusters"
HANDED_OVER = "aws:ssm/getParametersByPath:getParametersByPath"
"""What a plan asks, by layer: node groups before the first update are none, as there is no cluster."""


def answers(environment: str, *layers: str) -> Callable[[str, dict[str, Any]], Mapping[str, Any]]:
    """What AWS answers to a plan once `layers` have handed over. Nothing else is asked."""

    def answer(token: str, args: dict[str, Any]) -> Mapping[str, Any]:
        if token == NODE_GROUPS:
            return {"names": []}
        assert token == HANDED_OVER, f"{token} is looked up while planning"
        assert args["path"] == f"/headway/{environment}/layers"
        names = [f"{args['path']}/{layer}" for layer in layers]
        return {"names": names, "values": [json.dumps(UPSTREAM) for _ in names], "types": ["String" for _ in names]}

    return answer


def run(stack: str, *, preview: bool = False, deployed: bool = True, config: Mapping[str, str] | None = None) -> Recording:
    """The registrations of `stack`; `deployed` says whether the layers above it are."""
    environment = stack.partition("-")[0]
    above = ("cluster", "platform") if deployed else ()
    return record(
        lambda: runpy.run_path(str(PROJECT / "__main__.py"), run_name="__main__"),
        stack=stack,
        config=config_of(stack) if config is None else config,
        preview=preview,
        outputs=cloud_outputs,
        calls=answers(environment, *above),
    )


@cache
def layer(stack: str) -> Recording:
    """`run(stack)`, once a session: a recording cannot change."""
    return run(stack)
