"""The last step of docs/guide/aws.md: its request to `hello/digits`, answered by a real Triton behind a real Envoy."""

import hashlib
import json
import subprocess
import time
from pathlib import Path

import yaml

from components.model_service.manifests import ServicePlan
from components.tenant.manifests import TenantPlan
from headway.contract.model import Model
from headway.contract.tenant import Tenant
from sandbox.cloud import objectstore
from sandbox.traffic import profile, servers
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.profile import ServedModel
from sandbox.traffic.programs import programs
from tests.cluster.conftest import eventually
from tests.guide_page import commands, hold
from tests.traffic.bed import HOST, POOL, PROJECT, SURROUNDINGS, Bed
from tests.traffic.serving import Serving

DIGITS = ServedModel("hello", "digits")
FOLDER = PROJECT / "tenants/hello"
FILE = "digits/1/model.onnx"
(REQUEST,) = [line for line in commands() if line.startswith("headway golden ")]
(CURL,) = [line for line in commands() if line.startswith("curl -sS ")]


def pushed(bed: Bed, folder: Path) -> Model:
    """The tenant's model, with a stand-in's files in the environment's bucket."""
    made = folder / "model.onnx"
    subprocess.run([str(programs(PROJECT).python), "-I", str(Path(__file__).with_name("digits_model.py")), str(made)], check=True)
    data = made.read_bytes()
    contract = yaml.safe_load((FOLDER / "digits.yaml").read_text(encoding="utf-8"))
    contract["artifact"]["files"] = [{"path": FILE, "sha256": hashlib.sha256(data).hexdigest(), "size": f"{len(data)}B"}]
    contract["health"]["warmup"]["p99"] = "1s"  # a shared CPU is no L4
    store = objectstore.client("s3", SURROUNDINGS.region, objectstore.endpoint(bed.layout, bed.supervisor))
    store.create_bucket(Bucket=SURROUNDINGS.artifact_bucket)
    store.put_object(Bucket=SURROUNDINGS.artifact_bucket, Key=f"hello/digits/12/{FILE}", Body=data)
    return Model.model_validate(contract)


def test_the_guides_request_is_answered_with_ten_numbers(bed: Bed, serving: Serving, tmp_path: Path) -> None:
    model = pushed(bed, tmp_path)
    tenant = Tenant.model_validate(yaml.safe_load((FOLDER / "tenant.yaml").read_text(encoding="utf-8")))
    servers.mark(bed.layout, (*profile.SERVED, DIGITS), bed.progress)
    plan = TenantPlan(tenant=tenant, models=(model,), pools=(POOL,), surroundings=SURROUNDINGS)
    bed.apply(each.body for each in plan.manifests())
    bed.deploy(ServicePlan.of("hello", model, POOL, SURROUNDINGS))
    issuers = TokenIssuers(servers.folder(bed.layout) / "issuers")
    issuer = tenant.issuers[0]
    token = issuers.token(issuer.issuer, issuer.audiences, "somebody", now=time.time(), seconds=3600, claims={})
    gateway = servers.addresses(bed.supervisor).gateway
    shell = {"TENANT": "hello", "HOST": HOST, "TOKEN": token, "GATEWAY": f"127.0.0.1:{gateway}", "NO_COLOR": "1"}
    (tmp_path / "tenants").symlink_to(PROJECT / "tenants")

    def said(line: str) -> str:
        path = f"{PROJECT / '.venv/bin'}:/usr/bin:/bin"
        return subprocess.run(["bash", "-c", line], cwd=tmp_path, env={**shell, "PATH": path}, capture_output=True, text=True).stdout

    said(REQUEST)
    try:
        eventually(lambda: '"outputs"' in said(CURL), within=240)
        answered = said(CURL)
        (answer,) = json.loads(answered)["outputs"]
        assert (answer["name"], answer["shape"], len(answer["data"])) == ("Plus214_Output_0", [1, 10], 10)
        hold({CURL: answered})
    finally:
        bed.kube.delete("/api/v1/namespaces/hello")
        servers.mark(bed.layout, profile.SERVED, bed.progress)
