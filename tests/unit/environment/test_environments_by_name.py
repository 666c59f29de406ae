"""Which environment answers by a name, where its ledger and its logs are, and who guards releases in it."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
from moto import mock_aws

from headway.environment import selection
from headway.environment.production import Production
from headway.ledger.location import witness
from headway.ledger.witness_place import FolderWitness
from headway.private_folder import state_folder
from headway.problem import UserError
from headway.release import guard
from headway.release.service_place import ServicePlace
from headway.wire import PROMETHEUS_PROXIED
from sandbox.environment import Sandbox
from sandbox.layout import Layout


@pytest.mark.parametrize("said", [None, "s3://production-ledger", "file:///elsewhere"])
def test_stacks_and_releases_of_the_sandbox_have_one_ledger_in_any_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("HEADWAY_LEDGER", raising=False)
    if said:
        monkeypatch.setenv("HEADWAY_LEDGER", said)
    here = ServicePlace(project=tmp_path, environment="sandbox", tenant="vision", model="defects")
    planned = Layout.of(tmp_path).engine_environment()["HEADWAY_LEDGER"]
    assert here.address == planned == (tmp_path / "state" / "ledger").as_uri()


def test_another_environments_ledger_is_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_LEDGER", "s3://other/prefix")
    assert ServicePlace(project=tmp_path, environment="prod", tenant="vision", model="defects").address == "s3://other/prefix"


def test_stacks_and_releases_of_the_sandbox_have_one_witness_in_any_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HEADWAY_LEDGER", "s3://production-ledger")
    FolderWitness(Path(Layout.of(tmp_path).engine_environment()["HEADWAY_WITNESS"])).write("vision/defects", "1:a")
    found = Sandbox(tmp_path).ledger_witness
    assert found is not None and found.said("vision/defects") == "1:a"


OWN = "s3://lab-ledger"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.lab-cluster.yaml").write_text("config: {'headway:account': {id: '1', region: eu-west-1}}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HEADWAY_WITNESS", str(tmp_path / "of a sandbox"))  # as a shell of the sandbox has it
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    monkeypatch.delenv("HEADWAY_LEDGER", raising=False)
    return tmp_path


@mock_aws
def test_each_ledger_of_an_environment_has_a_witness_of_its_own(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = (lab / "ledger").as_uri()
    for address in (OWN, "s3://a-copy/prefix", "s3://a-copy", folder):
        monkeypatch.setenv("HEADWAY_LEDGER", address)
        found = Production("lab", lab).ledger_witness
        assert found.said("vision/defects") is None, address
        found.write("vision/defects", address)
        monkeypatch.setenv("HEADWAY_LEDGER", f"{address}/")
        assert Production("lab", lab).ledger_witness.said("vision/defects") == address, "the same place, written otherwise"
    client = boto3.client("ssm", region_name="eu-west-1")
    assert len(client.get_parameters_by_path(Path="/headway/lab/witness/vision", Recursive=True)["Parameters"]) == 3
    assert len(list((lab / "state" / "headway").rglob("vision.defects"))) == 1
    assert not (lab / "of a sandbox").exists()


@mock_aws
def test_stacks_and_releases_of_production_have_one_witness(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = Production("lab", lab)
    released.__dict__["_handed_over"] = {"cluster": {"ledger_bucket": "lab-ledger"}}
    released.ledger_witness.write("vision/defects", "1:a")
    assert witness(OWN, "lab", lambda: "eu-west-1").said("vision/defects") == "1:a"
    monkeypatch.setenv("HEADWAY_LEDGER", OWN)
    assert Production("lab", lab).ledger_witness.said("vision/defects") == "1:a", "its own ledger, named by hand"


def test_an_environment_is_what_is_registered_by_its_name_or_production(tmp_path: Path) -> None:
    assert isinstance(selection.environment("sandbox", tmp_path), Sandbox)
    assert isinstance(selection.environment("prod", tmp_path), Production)


def test_logs_lie_where_the_environment_in_use_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    selection.environment("sandbox", tmp_path)
    assert selection.logs() == tmp_path / "state" / "logs"
    selection.environment("prod", tmp_path)
    assert selection.logs() == state_folder() / "logs"


@pytest.mark.parametrize(
    ("variables", "folder"),
    [({"XDG_STATE_HOME": "/state", "HOME": "/home/ann"}, "/state/headway"), ({"HOME": "/home/ann"}, "/home/ann/.local/state/headway")],
)
def test_production_keeps_files_in_the_users_state_folder(variables: dict[str, str], folder: str) -> None:
    assert state_folder(variables) == Path(folder)


def test_production_starts_no_guard_beside_the_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "guarded", lambda *_: None)
    monkeypatch.setattr(Production, "kubernetes", None)
    here = ServicePlace(project=tmp_path, environment="prod", tenant="vision", model="defects")
    with pytest.raises(UserError, match="Nobody guards the releases of vision in prod"):
        here.guard()


def test_production_takes_no_pod_for_simulated(tmp_path: Path) -> None:
    node = {"metadata": {"name": "a", "annotations": {"sandbox.platform.io/address": "x"}}, "spec": {"nodeName": "n"}}
    assert not Production("prod", tmp_path).simulated([node])


@mock_aws
def test_production_learns_of_its_layers_by_one_path_of_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWAY_LEDGER", raising=False)
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.lab-cluster.yaml").write_text("config: {'headway:account': {id: '1', region: eu-west-1}}")
    parameters = boto3.client("ssm", region_name="eu-west-1")
    with pytest.raises(UserError, match="no cluster with a platform"):
        _ = Production("lab", tmp_path).kubernetes
    for layer, values in {"cluster": {"ledger_bucket": "of-lab"}, "platform": {"kubeconfig": {}, "prometheus_address": "p:9090"}}.items():
        parameters.put_parameter(Name=f"/headway/lab/layers/{layer}", Type="String", Value=json.dumps(values))
    parameters.put_parameter(Name="/headway/lab2/layers/cluster", Type="String", Value='{"ledger_bucket": "of-another"}')
    found = Production("lab", tmp_path)
    assert found.ledger_address == "s3://of-lab"
    # Not the exported name, which is the cluster's own: each replica by the API server's proxy, on loopback.
    replicas = [urlsplit(address) for address in (found.metrics_address or "").split(",")]
    assert [(each.hostname, each.path) for each in replicas] == [("127.0.0.1", f"/{service}") for service in PROMETHEUS_PROXIED]
    assert (found.alertmanager_address or "").count("/kube-prometheus-stack-alertmanager-") == 2


@pytest.mark.parametrize(("annotations", "simulated"), [({}, True), ({"sandbox.platform.io/address": "127.1.2.3"}, False)])
def test_a_pod_on_a_simulated_node_is_simulated_unless_it_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, annotations: dict[str, str], simulated: bool
) -> None:
    class Nodes:
        def get(self, path: str) -> dict[str, object]:
            assert path == "/api/v1/nodes/n"
            return {"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}}

    monkeypatch.setattr(Sandbox, "kubernetes", Nodes())
    pod = {"metadata": {"name": "a", "annotations": annotations}, "spec": {"nodeName": "n"}}
    assert Sandbox(tmp_path).simulated([pod]) is simulated
