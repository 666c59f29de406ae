"""Every configuration that the stand-in makes of the program's own objects is one that Envoy accepts."""

import json
import subprocess
from pathlib import Path

import pytest

from sandbox.traffic.mesh import envoy_configuration
from sandbox.traffic.mesh.snapshot import MeshSnapshot
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.programs import programs
from tests.mesh_samples import KEYS, PORTS, cluster, served_pod, two_arms
from tests.traffic.bed import PROJECT
from tests.traffic.static_configuration import static


@pytest.mark.parametrize(("percent", "copies"), [(0, 0), (0, 100), (10, 0), (100, 25)])
def test_envoy_accepts_what_the_programs_objects_become(tmp_path: Path, percent: int, copies: int) -> None:
    made = two_arms(percent, copies)
    keys = {issuer: TokenIssuers(tmp_path).keys(issuer) for issuer in KEYS}
    found = envoy_configuration.compile_(MeshSnapshot.of([*cluster(made), served_pod(made)]), PORTS, str(tmp_path), keys)
    file = tmp_path / "envoy.json"
    file.write_text(json.dumps(static(found)))
    command = [programs(PROJECT).envoy, "--mode", "validate", "-c", file, "--log-level", "error"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
