"""What a contract says of its artifact against what the model registry says, by a double and by the real clients."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
import yaml
from moto import mock_aws
from typer.testing import CliRunner

from headway.cli.contracts import app
from headway.model_registry.entry import DIGEST_TAG, ModelRegistry, Registered, disagreements
from headway.model_registry.mlflow import MlflowRegistry
from headway.model_registry.sagemaker import SageMakerRegistry
from headway.problem import UserError
from tests.contract_samples import ASSIST, CHAT, DEFECTS, VISION, changed, model
from tests.loopback import Handler, served

ARTIFACT = model(DEFECTS).artifact
ENTRY = ARTIFACT.registry
SAME = Registered(ARTIFACT.uri, ARTIFACT.digest)


class Double:
    """A registry of one version."""

    def __init__(self, found: Registered) -> None:
        self.found = found

    def find(self, model: str, version: str) -> Registered | None:
        return self.found if (model, version) == (ENTRY.model, ENTRY.version) else None


def rules(registry: ModelRegistry, artifact: Any = ARTIFACT) -> dict[str, str]:
    return {v.rule: ".".join(map(str, v.path)) for v in disagreements(artifact, registry)}


def test_a_version_that_resolves_to_the_contracts_uri_and_digest_is_accepted() -> None:
    assert rules(Double(SAME)) == {}
    assert rules(Double(Registered(ARTIFACT.uri.rstrip("/"), ARTIFACT.digest))) == {}


def test_a_path_of_each_environment_is_registered_wherever_its_bucket_is() -> None:
    assert ARTIFACT.uri == "artifacts://vision/defects/2026.11.2/"
    for place in ("s3://headway-staging-artifacts-1/vision/defects/2026.11.2", "s3://headway-prod-artifacts-2/vision/defects/2026.11.2/"):
        assert rules(Double(Registered(place, ARTIFACT.digest))) == {}
    absolute = model(changed(DEFECTS, {"artifact/uri": "s3://models/vision/defects/2026.11.2/"})).artifact
    assert "registry-names-the-artifact" in rules(Double(Registered("s3://other/vision/defects/2026.11.2/", ARTIFACT.digest)), absolute)


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        (Registered("s3://elsewhere/vision/defects/1/", ARTIFACT.digest), {"registry-names-the-artifact": "artifact.uri"}),
        (Registered(ARTIFACT.uri, "0" * 64), {"registry-digest-matches": "artifact.files"}),
        (Registered(ARTIFACT.uri, None), {"registry-holds-the-digest": "artifact.registry"}),
        (Registered(ARTIFACT.uri, ARTIFACT.digest, "rejected"), {"registry-approves-the-version": "artifact.registry.version"}),
    ],
)
def test_a_version_that_says_otherwise_is_refused_where_the_contract_says_it(found: Registered, refused: dict[str, str]) -> None:
    assert rules(Double(found)) == refused


def test_a_version_that_nobody_registered_is_refused() -> None:
    other = model(changed(DEFECTS, {"artifact/registry/version": "999"})).artifact
    assert rules(Double(SAME), other) == {"registry-has-the-version": "artifact.registry.version"}


@contextmanager
def mlflow_server(versions: dict[tuple[str, str], dict[str, Any]], token: str = "") -> Generator[str]:
    """MLflow's two endpoints with its answers for what is there and what is not (mlflow.server.handlers)."""

    class Server(Handler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
            found = versions.get((asked["name"], asked["version"]))
            if token and self.headers.get("Authorization") != f"Bearer {token}":
                status, body = 401, {"message": "no"}
            elif found is None:
                status, body = 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Model Version not found"}
            elif parts.path == "/api/2.0/mlflow/model-versions/get-download-uri":
                status, body = 200, {"artifact_uri": found["storage"]}
            else:
                assert parts.path == "/api/2.0/mlflow/model-versions/get"
                status, body = 200, {"model_version": {**asked, "source": "models:/m-1", "status": found["status"], "tags": found["tags"]}}
            self.reply(status, body)

    with served(Server) as url:
        yield url


def version(artifact: Any = ARTIFACT, status: str = "READY") -> dict[str, Any]:
    return {"storage": artifact.uri, "status": status, "tags": [{"key": DIGEST_TAG, "value": artifact.digest}]}


def test_mlflow_says_where_a_version_lies_and_what_it_was_registered_with() -> None:
    with mlflow_server({(ENTRY.model, ENTRY.version): version(), ("half", "1"): version(status="PENDING_REGISTRATION")}, "secret") as url:
        registry = MlflowRegistry.of({"MLFLOW_TRACKING_URI": url, "MLFLOW_TRACKING_TOKEN": "secret"})
        assert registry.find(ENTRY.model, ENTRY.version) == SAME
        assert registry.find("half", "1") == Registered(ARTIFACT.uri, ARTIFACT.digest, "pending registration")
        assert registry.find(ENTRY.model, "999") is None


def test_an_unreachable_registry_is_named_but_its_token_is_not() -> None:
    with mlflow_server({}, "secret") as url, pytest.raises(UserError) as refused:
        MlflowRegistry.of({"MLFLOW_TRACKING_URI": url, "MLFLOW_TRACKING_TOKEN": "wrong-token"}).find("a", "1")
    assert "answers 401" in refused.value.fact
    assert "wrong-token" not in str(refused.value)
    with pytest.raises(UserError) as unset:
        MlflowRegistry.of({})
    assert "MLFLOW_TRACKING_URI is not set" in unset.value.fact


def test_sagemaker_says_place_content_and_approval_of_a_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        client: Any = boto3.client("sagemaker", region_name="eu-west-1")
        client.create_model_package_group(ModelPackageGroupName="defects", ModelPackageGroupDescription="d")
        for approval in ("Approved", "Rejected"):
            client.create_model_package(
                ModelPackageGroupName="defects",
                ModelApprovalStatus=approval,
                CustomerMetadataProperties={DIGEST_TAG: ARTIFACT.digest},
                InferenceSpecification={
                    "Containers": [{"Image": "i", "ModelDataUrl": ARTIFACT.uri}],
                    "SupportedContentTypes": ["application/json"],
                    "SupportedResponseMIMETypes": ["application/json"],
                },
            )
        registry = SageMakerRegistry(client)
        assert registry.find("defects", "1") == SAME
        assert registry.find("defects", "2") == Registered(ARTIFACT.uri, ARTIFACT.digest, "rejected")
        assert registry.find("defects", "3") is None
        assert registry.find("nobody", "1") is None


def test_check_asks_the_registry_that_each_contract_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tenant, data, models in (("vision", VISION, [DEFECTS]), ("assist", ASSIST, [CHAT])):
        (tmp_path / tenant).mkdir()
        (tmp_path / tenant / "tenant.yaml").write_text(yaml.safe_dump(data))
        for each in models:
            alone = {key: value for key, value in each.items() if key != "batch"}
            alone["degradation"] = {key: value for key, value in each["degradation"].items() if key != "fallback"}
            alone["artifact"] = {**each["artifact"], "registry": {"system": "mlflow", "model": each["name"], "version": "7"}}
            (tmp_path / tenant / f"{each['name']}.yaml").write_text(yaml.safe_dump(alone))
    with mlflow_server({("defects", "7"): version()}) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        done = CliRunner().invoke(app, ["check", str(tmp_path), "--registry", "--output", "json"])
    refused = [(f["file"], f["rule"], f["path"]) for f in json.loads(done.output)["findings"] if f["level"] == "error"]
    assert [(file.rsplit("/", 2)[-1], rule, path) for file, rule, path in refused] == [
        ("chat.yaml", "registry-has-the-version", "artifact.registry.version")
    ]
