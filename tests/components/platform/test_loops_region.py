"""Every loop that speaks to AWS asks the environment's region, by the name that boto3 reads."""

from typing import Any

import boto3
import pytest

from components.platform import artifact_cache, evaluation, node_health
from headway.contract.units import Bytes
from tests.components.platform import test_artifact_cache

IMAGE = test_artifact_cache.IMAGE
STORE = artifact_cache.NodeCache(pool=test_artifact_cache.LATENCY, room=Bytes(10 * 2**30))
LOOPS = {
    "artifact cache": artifact_cache.manifests(IMAGE, "us-west-2", [STORE]),
    "evaluation": evaluation.manifests(IMAGE, "us-west-2", "{}"),
    "node health": node_health.loop(IMAGE, "us-west-2"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_its_clients_ask_the_environments_region(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (pod,) = [each.body["spec"]["template"]["spec"] for each in LOOPS[name] if each.body["kind"] in ("Deployment", "DaemonSet")]
    for container in pod["containers"]:
        for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            monkeypatch.delenv(variable, raising=False)
        for each in container["env"]:
            if "value" in each:
                monkeypatch.setenv(each["name"], each["value"])
        monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
        session: Any = boto3.Session()
        assert session.region_name == "us-west-2"
