"""Runs the real program on the real stack files, under mocks: what a layer registers for each environment, as data."""

import json
import runpy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

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
        "oidc_issuer",
        "oidc_provider_arn",
        "otel_endpoint",
        "prometheus_address",
        "region",
        "repositories",
        "telemetry_bucket",
        "volumes_key_arn",
    )
} | {"kubeconfig": {"secret": "{}"}}


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
    if type == "aws:ec2/launchTemplate:LaunchTemplate":
        found["latestVersion"] = 1
    return found


def nothing_deployed(token: str, args: dict[str, Any]) -> Mapping[str, Any]:
    """What EKS answers before the first update: no cluster. Nothing else is asked."""
    assert token == "aws:eks/getClusters:getClusters", f"{token} is looked up while planning"
    return {"names": []}


def run(stack: str, *, preview: bool = False, deployed: bool = True, config: Mapping[str, str] | None = None) -> Recording:
    """The registrations of `stack`; `deployed` says whether the layers above it are."""
    environment = stack.partition("-")[0]
    above = {f"organization/headway/{environment}-{layer}": UPSTREAM for layer in ("cluster", "platform")} if deployed else {}
    return record(
        lambda: runpy.run_path(str(PROJECT / "__main__.py"), run_name="__main__"),
        stack=stack,
        config=config_of(stack) if config is None else config,
        stacks=above,
        preview=preview,
        outputs=cloud_outputs,
        calls=nothing_deployed,
    )


@cache
def layer(stack: str) -> Recording:
    """`run(stack)`, once a session: a recording cannot change."""
    return run(stack)
