"""Procedures of `docs/guide/day-two.md` for the cluster layer, walked by the page's own commands on a simulated account."""

import json
import shlex
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.s3.models import s3_backends
from typer.testing import CliRunner

from headway.cli.main import app
from headway.environment.aws import Clients
from pulumi_embedded.providers.aws import clusters
from tests.account_clients import account_clients, adoption_rows, planted
from tests.day_two_page import TEXT, commands, sections
from tests.environments.environments import ROOT, Environment, environment

pytestmark = [pytest.mark.needs("in-memory providers"), pytest.mark.timeout(600)]

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
OLD, NEW = "1.36.2-20260714", "1.36.3-20261101"
RELEASES = f"import components.versions as versions\nversions.NODE_RELEASES = {{'{OLD}': '580.159.03', '{NEW}': '580.167.08'}}\n"


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Environment]:
    """`dev`, deployed, with a GPU node in each of two zones."""
    with environment(tmp_path, "dev-cluster") as found:
        found.settings("zones: [us-west-2a]\n      size: {min: 0, max: 2}", "zones: [us-west-2a, us-west-2b]\n      size: {min: 1, max: 2}")
        result = found.up()
        assert (result.ok, result.errors) == (True, ())
        yield found


def by_hand(found: Environment, type: str, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Somebody, or another program, changes an object in AWS; the state does not hear of it."""
    with closing(sqlite3.connect(found.folder / "account-111111111111.sqlite")) as account, account:
        urns = f"%::{name}"
        for key, text in account.execute("SELECT key, inputs FROM objects WHERE type = ? AND urn LIKE ?", (type, urns)).fetchall():
            inputs = json.loads(text)
            change(inputs)
            account.execute("UPDATE objects SET inputs = ? WHERE key = ?", (json.dumps(inputs), key))
            return
    raise AssertionError(f"there is no {type} {name}")


def autoscaled(found: Environment, group: str) -> None:
    """One more node, as the autoscaler brings it."""
    by_hand(found, NODE_GROUP, group, lambda inputs: inputs["scalingConfig"].update(desiredSize=2))
    (name,) = [name for name in found.plane.manifests if name.startswith(f"{group}-")]
    first, second = found.plane.manifests[name], f"{name.removesuffix('0')}1"
    found.plane.manifests[second] = {**first, "metadata": {**first["metadata"], "name": second}}


def test_the_nightly_command_names_changes_and_not_the_autoscalers(dev: Environment) -> None:
    nightly, repair = commands("Drift, every night", "dev-cluster")
    autoscaled(dev, "l4-a")
    code, said = dev.command(nightly)
    assert code == 0, f"the number of nodes is the autoscaler's:\n{said}"
    by_hand(dev, NODE_GROUP, "l4-b", lambda group: group["updateConfig"].update(maxUnavailable=2))
    before = dev.state_file.read_bytes()
    code, said = dev.command(nightly)
    assert code != 0
    assert "l4-b" in said and "maxUnavailable" in said and "l4-a" not in said
    assert dev.state_file.read_bytes() == before, "looking records nothing"
    assert dev.command(repair)[0] == 0
    assert dev.command(nightly)[0] == 0


def test_a_refresh_tells_what_was_being_made_when_an_update_was_killed(dev: Environment) -> None:
    """The genuine engine then asks at a terminal what became of it (pulumi/pulumi, `pkg/cmd/pulumi/operations/refresh.go`,
    interactiveFixPendingCreate); this one meets the same object again.
    """
    saved = json.loads(dev.state_file.read_text())
    latest = saved["checkpoint"]["latest"]
    (group,) = [each for each in latest["resources"] if each["urn"].endswith("::l4-b")]
    latest["pending_operations"] = [{"resource": group, "type": "creating"}]
    dev.state_file.write_text(json.dumps(saved))
    (line,) = commands("An interrupted update", "dev-cluster")
    code, said = dev.command(line)
    assert code == 0, said
    assert "::l4-b, interrupted while creating" in said


def test_a_lower_maximum_ends_the_nodes_above_it_and_no_other(dev: Environment) -> None:
    autoscaled(dev, "l4-a")
    dev.settings("size: {min: 1, max: 2}", "size: {min: 1, max: 1}")
    assert dev.up().ok
    assert sorted(name.rpartition("-")[2] for name in dev.plane.manifests if name.startswith(("l4-a-", "l4-b-"))) == ["0", "0"]
    assert {step.type for step in dev.changes() if step.op != "update"} == set()


def test_another_binding_and_the_way_back_replace_nothing(dev: Environment) -> None:
    """Sessions that pods have are good until they end. A role trusts the new way alone before the old one is gone, so whatever pod is made
    meanwhile is refused (docs/guide/cluster.md).
    """
    nodes, agent, cni = dict(dev.plane.manifests), "Addon joining-eks-pod-identity-agent", "joining-vpc-cni"
    dev.rewrite(lambda sections: sections.update(workload_identity="irsa"))
    assert dev.up().ok
    assert {step.op for step in dev.changes()} == {"update", "delete"}
    assert (
        dev.began(f"Role {cni}-role")
        < dev.began(f"Addon {cni}")
        < min(dev.began(f"PodIdentityAssociation {cni}-association"), dev.began(agent))
    )

    dev.rewrite(lambda sections: sections.pop("workload_identity"))
    assert dev.up().ok
    assert {step.op for step in dev.changes()} == {"update", "create"}
    order = [dev.began(each) for each in (f"Role {cni}-role", f"PodIdentityAssociation {cni}-association", f"Addon {cni}")]
    assert order == sorted(order)
    assert dev.plane.manifests == nodes


def test_gpus_of_nodes_that_serve_are_not_shared_otherwise(dev: Environment) -> None:
    dev.rewrite(lambda sections: sections["pools"][0].update(sharing={"mode": "mps", "replicas": 2}, packing="spread"))
    result = dev.up()
    assert not result.ok
    assert "whose GPUs are shared otherwise" in " ".join(result.errors)


def test_a_node_image_with_a_new_driver_reaches_one_pool_zone_by_zone(dev: Environment) -> None:
    dev.program(RELEASES)

    def name_it(sections: dict[str, Any]) -> None:
        (pool,) = [pool for pool in sections["pools"] if pool["name"] == "l4"]
        pool["ami"] = {"release": NEW, "driver": "580.167.08"}

    dev.rewrite(name_it)
    assert dev.up().ok
    steps = [(step.name, step.changed) for step in dev.changes()]
    assert steps == [("l4-a", ("releaseVersion",)), ("l4-b", ("releaseVersion",))]


def test_a_pool_that_cannot_be_updated_stops_its_other_zones(dev: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its nodes join and never become ready, as with a driver that does not load."""
    monkeypatch.setattr(clusters, "_READY_SECONDS", 0.2)
    dev.program(RELEASES)
    dev.rewrite(lambda sections: sections["pools"][0].update(ami={"release": NEW, "driver": "580.167.08"}))
    dev.plane.broken |= {name for name in dev.plane.manifests if name.startswith("l4-a-")}
    result = dev.up()
    assert not result.ok
    assert "l4-a" in " ".join(result.errors)
    assert [step.name for step in dev.changes()] == ["l4-a"], "the second zone must go on serving"
    dev.plane.broken.clear()
    assert dev.up().ok, "the update is repeated once its cause is away"
    assert [step.name for step in dev.changes()][-1] == "l4-b"


def test_lost_state_is_the_object_as_it_was_before(dev: Environment) -> None:
    """The bucket of the state is versioned: what was overwritten or deleted is still there."""
    client: Any = boto3.client("s3", region_name="us-west-2", aws_access_key_id="none", aws_secret_access_key="none")
    bucket, key = "state", ".pulumi/stacks/headway/dev-cluster.json"
    client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    good = client.put_object(Bucket=bucket, Key=key, Body=dev.state_file.read_bytes())["VersionId"]
    client.put_object(Bucket=bucket, Key=key, Body=b"{}")
    client.delete_object(Bucket=bucket, Key=key)
    dev.state_file.unlink()
    assert dev.command("pulumi preview -s dev-cluster")[0] != 0, "without its state there is no such stack"

    assert all(word in TEXT for word in ("list-object-versions", "copy-object"))
    kept = client.list_object_versions(Bucket=bucket, Prefix=key)["Versions"]
    assert good in [version["VersionId"] for version in kept]
    client.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": key, "VersionId": good})
    dev.state_file.write_bytes(client.get_object(Bucket=bucket, Key=key)["Body"].read())

    for line in commands("Lost state", "dev-cluster"):
        code, said = dev.command(line)
        assert code == 0, said


def adopting(found: Environment, rows: list[dict[str, Any]]) -> None:
    file = found.folder / "stacks" / "adopted" / f"{found.stack}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"resources": rows}))


def test_a_clusters_lost_state_is_rebuilt_by_import(dev: Environment) -> None:
    before = [(each.type, each.id, each.inputs) for each in dev.held()]
    nodes = dict(dev.plane.manifests)
    assert dev.command("pulumi stack rm dev-cluster --force --yes --preserve-config")[0] == 0
    begin, listing, adopt, *after = (line.replace("dev-hello", "dev-cluster") for line in commands("Lost state", "dev-hello"))
    assert dev.command(begin)[0] == 0
    code, said = dev.command(listing)
    assert code == 0, said
    planned = {
        (step["newState"]["type"], step["urn"].rsplit("::", 1)[-1])
        for step in json.loads(said)["steps"]
        if step["op"] == "create" and step["newState"].get("custom") and step["newState"]["type"].startswith("aws:")
    }
    listed = adoption_rows(dev.held())
    assert planned == {(row["type"], row["name"]) for row in listed}, "a row that nobody knows of, or an object without one"
    adopting(dev, listed)
    code, said = dev.command(adopt)
    assert code == 0, said
    for line in after:
        code, said = dev.command(line)
        assert code == 0, f"{line}\n{said}"
    assert [(each.type, each.id, each.inputs) for each in dev.held()] == before, "something was made, changed or replaced"
    assert dev.plane.manifests == nodes
    assert set(dev.up().changes) == {"same"}


def test_a_name_that_a_provider_made_up_belongs_into_its_row(dev: Environment) -> None:
    assert dev.command("pulumi stack rm dev-cluster --force --yes --preserve-config")[0] == 0
    assert dev.command("pulumi stack init dev-cluster")[0] == 0
    adopting(dev, [{key: value for key, value in row.items() if key != "inputs"} for row in adoption_rows(dev.held())])
    result = dev.up()
    assert not result.ok
    assert all(said.startswith("importing urn:pulumi:dev-cluster") and "they differ at name" in said for said in result.errors)
    assert result.errors, "which of them is refused first is a matter of their order"


def test_a_stacks_secrets_move_to_another_passphrase(dev: Environment) -> None:
    move, cloud = commands("Definitions, certificates, keys", "dev-cluster")
    assert dev.command("pulumi config set --secret headway:spare hidden -s dev-cluster")[0] == 0
    (dev.folder / "NEW-PASSPHRASE").write_text("another one\n")
    code, said = dev.shell(move)
    assert code == 0, said
    code, said = dev.command("pulumi refresh -s dev-cluster --preview-only --expect-no-changes")
    assert code != 0 and "incorrect passphrase" in said
    dev.runner_environment["PULUMI_CONFIG_PASSPHRASE"] = "another one"
    assert dev.command("pulumi refresh -s dev-cluster --preview-only --expect-no-changes")[0] == 0
    assert dev.command("pulumi config get headway:spare -s dev-cluster")[1].strip() == "hidden"
    code, said = dev.shell(cloud)
    assert code != 0 and "is not supported by the embedded engine" in said


def leftovers(clients: Clients, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """`headway leftovers` as the page has it: exit code, what is left, and what people read."""
    (line,) = [line for line in sections()["Destroy"] if line.startswith("headway leftovers")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.environment.aws.clients", lambda region, **_: clients)
        told = CliRunner().invoke(app, [*shlex.split(line)[1:], *words, "--project", str(ROOT)])
        listed = CliRunner().invoke(app, [*shlex.split(line)[1:], *words, "--project", str(ROOT), "--output", "json"])
    assert told.exit_code == listed.exit_code, told.output
    return told.exit_code, json.loads(listed.output)["leftovers"], told.output


def test_a_destroyed_environment_leaves_what_its_cluster_made_and_that_is_told(dev: Environment) -> None:
    clients = account_clients(dev.held, "111111111111", "us-west-2")
    code, found, said = leftovers(clients)
    assert code == 0 and "these are in use" in said
    assert {"ec2", "eks", "s3", "kms", "sqs"} <= {each["kind"] for each in found}, "the search would not see what the stack made"
    (line,) = [line for line in sections()["Destroy"] if "pulumi destroy" in line]
    code, said = dev.command(f"{line.split(' && ')[-1]} --yes")
    assert code == 0, said
    assert leftovers(clients)[:2] == (0, [])
    left = planted(clients, "headway-dev", "dev", "us-west-2a")
    code, found, said = leftovers(clients)
    assert code == 1
    assert {each["kind"]: each["id"].rpartition(":")[2] if each["kind"] == "sqs" else each["id"] for each in found} == left
    assert all(f"aws {each}" in said for each in ("ec2 delete-volume", "elbv2 delete-load-balancer", "ec2 delete-security-group"))


def test_a_protected_environment_goes_once_its_file_says_that_it_may(tmp_path: Path) -> None:
    edit, loosen = (line.replace("prod", "dev") for line in sections()["Destroy"] if "prod-cluster" in line)
    with environment(tmp_path, "dev-cluster") as found:
        found.settings("deletion_protection: false", "deletion_protection: true")
        found.settings("disposable: true", "disposable: false")
        assert found.runner.up("dev-cluster").ok
        # Past the bucket's policy, whose conditions this stand-in does not read.
        s3_backends["111111111111"]["aws"].put_object("headway-dev-ledger-111111111111", "hello/digits/1", b"{}")
        refused, said = found.command("pulumi destroy -s dev-cluster --yes")
        assert refused and "protect" in said
        assert subprocess.run(shlex.split(edit), cwd=found.folder, check=False).returncode == 0
        for line in (loosen, "pulumi destroy -s dev-cluster --yes"):
            code, said = found.command(line)
            assert code == 0, said
        left = {each.type for each in found.held()}
    assert left <= {"aws:kms/key:Key"}, "keys wait out their deletion; all else has gone"
