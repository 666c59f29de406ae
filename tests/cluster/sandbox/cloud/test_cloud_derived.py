"""Processes that need the SDK's types and the service models, with and without what was derived from them before."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pulumi_embedded.providers.derived import CACHE_VARIABLE

RUN = """
import json, sys, tempfile
from pathlib import Path
from aws_world import World
world = World(Path(tempfile.mkdtemp(dir=sys.argv[1])))
group = world.node_group()
refused = world.check("ec2/vpc", cidrBlok="10.0.0.0/16", instanceTenancy="mine")
changed = sorted(group.diff(scalingConfig={"minSize": 0, "desiredSize": 3, "maxSize": 8}).details)
heavy = sorted({"pulumi_aws", "pulumi_eks", "botocore.loaders", "botocore.model"} & sys.modules.keys())
print(json.dumps({"heavy": heavy, "answer": [sorted(map(str, refused)), changed, group.outputs]}))
"""


def run(cache: Path, scratch: Path) -> Any:
    environment = {**os.environ, CACHE_VARIABLE: str(cache)}
    root = Path(__file__).parents[4]
    environment["PYTHONPATH"] = os.pathsep.join((str(root), str(root / "packages" / "pulumi-embedded" / "tests" / "providers")))
    done = subprocess.run([sys.executable, "-c", RUN, str(scratch)], cwd=root, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_warm_cache_answers_like_a_cold_one_without_importing_an_sdk(tmp_path: Path) -> None:
    cold, warm = run(tmp_path / "cache", tmp_path), run(tmp_path / "cache", tmp_path)
    assert "pulumi_aws" in cold["heavy"]
    assert warm["heavy"] == []
    assert warm["answer"] == cold["answer"]
