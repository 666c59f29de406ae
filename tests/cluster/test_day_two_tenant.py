"""Procedures of `docs/guide/day-two.md` for platform and tenants, walked by the page's own commands in a sandbox with a real API server.

One sandbox for the file: the tests follow each other as the procedures of one environment's life, to its end.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config, dynamic
from kubernetes.dynamic.exceptions import ApiException
from moto import mock_aws
from typer.testing import CliRunner

from headway.cli.main import app
from headway.environment.aws import Clients
from headway.ledger.store import FolderStore
from headway.wire import TENANT
from pulumi_embedded.providers.aws.account import AccountObject
from pulumi_embedded.providers.aws.kind import ACCOUNT_ID
from sandbox.cloud import objectstore
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.progress import Silent
from tests import day_two_page
from tests.account_clients import account_clients, adoption_rows, held_in
from tests.cluster.command import SECONDS, Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

STACK, NAME, PLATFORM = "sandbox-vision", "vision", "sandbox-platform"
REGION, RELEASE, NEW_RELEASE = "us-east-1", "1.36.2-20260714", "1.36.9-20261101"
AUTHORITIES = ("events", "componentstatuses", "bindings")
"""Kinds that are no objects of anybody."""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path_factory.mktemp("day-two"))
    try:
        made.up()
        yield made
    finally:
        made.run("sandbox", "down")


def commands(heading: str, stack: str = "dev-hello") -> list[str]:
    """The page's `pulumi` commands for a stack below a heading, for the sandbox's stack."""
    return [line.replace("dev-hello", STACK).replace("dev-", "sandbox-") for line in day_two_page.commands(heading, stack)]


def pulumi(sandbox: Sandbox, line: str) -> tuple[int, str]:
    """The page's command in the checkout, in a shell that `headway sandbox env` set up. What `up` and `destroy` do is looked at, not what they
    show of it first, which would run the program twice."""
    line = re.sub(r"(pulumi (?:up|destroy) -s \S+)(?!.* --skip-preview)", r"\1 --skip-preview", line)
    environment = {**os.environ, **sandbox.environment, "PATH": f"{sandbox.layout.bin}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", line], cwd=sandbox.project, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def cluster(sandbox: Sandbox) -> dynamic.DynamicClient:
    return dynamic.DynamicClient(config.new_client_from_config(str(sandbox.layout.kubeconfig)))


def objects(sandbox: Sandbox) -> Mapping[str, str]:
    """Every object of the tenant, in its namespace or with its label, of whatever kind: uid by kind, namespace and name."""
    api: Any = cluster(sandbox)
    found = dict[str, str]()
    for kind in api.resources.search():
        if "list" not in (kind.verbs or ()) or kind.name in AUTHORITIES or "/" in kind.name or kind.kind.endswith("List"):
            continue
        for query in ({"namespace": NAME},) if kind.namespaced else ():
            found |= _listed(kind, **query)
        found |= _listed(kind, label_selector=f"{TENANT}={NAME}")
    return found


def _listed(kind: Any, **query: Any) -> dict[str, str]:
    try:
        items = kind.get(**query).to_dict()["items"]
    except ApiException:
        return {}
    heads = [item["metadata"] for item in items]
    return {f"{kind.group}/{kind.kind} {head.get('namespace', '')}/{head['name']}": head["uid"] for head in heads}


def held(sandbox: Sandbox) -> list[AccountObject]:
    """Everything in the sandbox's account."""
    return [each for file in sandbox.layout.cloud.glob("account-*.sqlite") for each in held_in(file)]


def in_aws(sandbox: Sandbox) -> list[str]:
    """What the account holds of the tenant's stack, by what its tags or its URN say."""
    return sorted(
        f"{each.type} {each.id}"
        for each in held(sandbox)
        if f":{STACK}::" in each.urn or (each.outputs.get("tagsAll") or {}).get(TENANT) == NAME
    )


def clients(sandbox: Sandbox) -> Clients:
    """AWS as `headway leftovers` meets it: the sandbox's account and its object store."""
    url = objectstore.endpoint(sandbox.layout)
    return account_clients(lambda: held(sandbox), ACCOUNT_ID, REGION, lambda service: objectstore.client(service, REGION, url))


def leftovers(sandbox: Sandbox, heading: str) -> tuple[int, dict[str, str]]:
    """The page's `headway leftovers` below a heading: exit code, and what is left by kind."""
    (line,) = [line for line in day_two_page.sections()[heading] if line.startswith("headway leftovers")]
    words = shlex.split(re.sub(r"\bdev\b", "sandbox", line).replace("hello", NAME), comments=True)[1:]
    with mock_aws(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.environment.aws.clients", lambda region, **_: clients(sandbox))
        done = CliRunner().invoke(app, [*words, "--project", str(sandbox.project), "--output", "json"])
    assert done.exit_code in (0, 1) and done.output, f"{done.exception!r} {done.output}"
    return done.exit_code, {each["kind"]: each["id"] for each in json.loads(done.output)["leftovers"]}


def test_the_nightly_command_names_what_somebody_changed_in_the_cluster(sandbox: Sandbox) -> None:
    nightly, repair = commands("Drift, every night")
    code, said = pulumi(sandbox, nightly)
    assert code == 0, said
    core: Any = client.CoreV1Api(config.new_client_from_config(str(sandbox.layout.kubeconfig)))
    (quota, *_) = core.list_namespaced_resource_quota(NAME).items
    (limit, *_) = sorted(quota.spec.hard)
    core.patch_namespaced_resource_quota(quota.metadata.name, NAME, {"spec": {"hard": {limit: "77"}}})
    code, said = pulumi(sandbox, nightly)
    assert code != 0
    assert limit.rpartition("/")[2] in said and "ResourceQuota" in said
    code, said = pulumi(sandbox, repair.removeprefix("PULUMI_K8S_ENABLE_PATCH_FORCE=true "))
    assert code != 0 and "another manager owns fields" in said
    code, said = pulumi(sandbox, repair)
    assert code == 0, said
    assert pulumi(sandbox, nightly)[0] == 0


def test_the_nightly_command_names_what_somebody_changed_in_the_platform(sandbox: Sandbox) -> None:
    (nightly,) = commands("Drift, every night", "dev-platform")
    repair = commands("Drift, every night")[1].replace(STACK, PLATFORM)
    code, said = pulumi(sandbox, nightly)
    assert code == 0, said
    core: Any = client.CoreV1Api(config.new_client_from_config(str(sandbox.layout.kubeconfig)))
    (dashboard, *_) = core.list_config_map_for_all_namespaces(label_selector=f"grafana_dashboard,!{TENANT}").items
    where = (dashboard.metadata.name, dashboard.metadata.namespace)
    (panel, *_) = dashboard.data
    core.patch_namespaced_config_map(*where, {"data": {panel: "{}"}})
    code, said = pulumi(sandbox, nightly)
    assert code != 0
    assert where[0] in said and panel in said
    code, said = pulumi(sandbox, repair)
    assert code == 0, said
    assert pulumi(sandbox, nightly)[0] == 0
    assert core.read_namespaced_config_map(*where).data == dashboard.data


def rebuilt(sandbox: Sandbox, stack: str) -> None:
    """Lose a stack's state and walk the page's way back. Fails if anything in AWS was made, changed or replaced."""
    own = [each for each in held(sandbox) if f":{stack}::" in each.urn]
    assert own, "nothing of it is in AWS, so the test would prove half"
    assert pulumi(sandbox, f"pulumi stack rm {stack} --force --yes --preserve-config")[0] == 0
    begin, listing, adopt, *after = [line.replace(STACK, stack) for line in commands("Lost state")]
    assert pulumi(sandbox, begin)[0] == 0
    code, said = pulumi(sandbox, listing)
    assert code == 0, said
    assert all(f'"{each.type}"' in said and f"::{each.name}" in said for each in own), "the list leaves out what exists"
    code, said = pulumi(sandbox, adopt)
    assert code != 0 and "AlreadyExists" in said, f"AWS refuses to make what exists:\n{said}"
    file = sandbox.project / "stacks" / "adopted" / f"{stack}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"resources": adoption_rows(own)}))
    for line in (adopt, *after):
        code, said = pulumi(sandbox, line)
        assert code == 0, f"{line}\n{said}"
    now = [each for each in held(sandbox) if f":{stack}::" in each.urn]
    assert [(each.type, each.id, each.inputs) for each in now] == [(each.type, each.id, each.inputs) for each in own]


def test_a_tenants_lost_state_is_rebuilt_from_what_serves(sandbox: Sandbox) -> None:
    before = objects(sandbox)
    assert len(before) > 30
    rebuilt(sandbox, STACK)
    after = objects(sandbox)
    moving = re.compile(r"/(Pod|PodMetrics|EndpointSlice|Endpoints|ReplicaSet|Event|Lease) ")
    assert {k: v for k, v in after.items() if not moving.search(k)} == {k: v for k, v in before.items() if not moving.search(k)}
    assert {k for k in after if "/Pod " in k} == {k for k in before if "/Pod " in k}, "a pod was restarted"


def test_a_platforms_lost_state_is_rebuilt_by_import(sandbox: Sandbox) -> None:
    def kept() -> list[str]:
        api: Any = cluster(sandbox)
        kinds = [("v1", "Namespace"), ("v1", "ConfigMap"), ("v1", "ServiceAccount"), ("scheduling.k8s.io/v1", "PriorityClass")]
        listed = [api.resources.get(api_version=version, kind=kind).get().to_dict()["items"] for version, kind in kinds]
        return sorted(f"{item['metadata']['name']} {item['metadata']['uid']}" for items in listed for item in items)

    before = kept()
    rebuilt(sandbox, PLATFORM)
    assert kept() == before


def test_a_node_image_with_a_new_driver_is_done_once_the_platform_states_it(sandbox: Sandbox) -> None:
    checked = ("nodes", "check", "--kubeconfig", str(sandbox.layout.kubeconfig))
    new = f'"{RELEASE}": "580.159.03", "{NEW_RELEASE}": "580.167.08"'
    with (
        sandbox.changed("components/versions.py", rf'"{RELEASE}": "580.159.03"', new),
        sandbox.changed("sandbox/cloud/nodes.py", rf'"{RELEASE}": "580.159.03"', new),
        sandbox.changed(
            "stacks/Pulumi.sandbox-cluster.yaml",
            rf"ami: {{release: {RELEASE}, driver: 580.159.03}}",
            f"ami: {{release: {NEW_RELEASE}, driver: 580.167.08}}",
        ),
    ):
        code, said = pulumi(sandbox, "pulumi up -s sandbox-cluster --yes")
        assert code == 0, said
        assert "runs driver 580.167.08, and pool l4 states 580.159.03" in " ".join(sandbox.run(*checked)[1].split())
        code, said = pulumi(sandbox, f"pulumi up -s {PLATFORM} --yes")
        assert code == 0, said
        assert "runs driver" not in sandbox.run(*checked)[1]


@pytest.fixture
def new_definitions(sandbox: Sandbox, tmp_path: Path) -> Path:
    """A cache in which the definitions of KEDA are copies, so that a test may change what its next version brings."""
    made = tmp_path / "cache" / "toolchain"
    made.mkdir(parents=True)
    for folder in sandbox.layout.toolchain.iterdir():
        if folder.name.startswith("crds-"):
            shutil.copytree(folder, made / folder.name)
        else:
            (made / folder.name).symlink_to(folder)
    # Another checkout's definitions may lie in the cache too.
    (file,) = (file for file in ensure_toolchain(sandbox.layout, Silent()).crds("keda") if file.name == "keda.sh_scaledobjects.yaml")
    return made / file.relative_to(sandbox.layout.toolchain)


def test_definitions_move_with_their_chart_and_objects_survive(sandbox: Sandbox, new_definitions: Path) -> None:
    move = f"HEADWAY_CACHE={new_definitions.parents[3]} pulumi up -s {PLATFORM} --yes"
    api: Any = cluster(sandbox)
    kind = api.resources.get(api_version="keda.sh/v1alpha1", kind="ScaledObject")
    uids = {each.metadata.name: each.metadata.uid for each in kind.get(namespace=NAME).items}
    assert uids
    body = yaml.safe_load(new_definitions.read_text())
    (version,) = body["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["fallback"]["properties"]["patience"] = {"type": "integer"}
    new_definitions.write_text(yaml.safe_dump(body))
    with sandbox.changed("components/versions.py", 'version="2.20.2"', 'version="2.20.9"'):
        code, said = pulumi(sandbox, move)
        assert code == 0, said
        name = min(uids)
        kind.patch(name=name, namespace=NAME, body={"spec": {"fallback": {"patience": 7}}}, content_type="application/merge-patch+json")
        assert kind.get(name=name, namespace=NAME).spec.fallback.patience == 7, "the new definition is not what the API server goes by"
        version["name"] = "v2"
        new_definitions.write_text(yaml.safe_dump(body))
    with sandbox.changed("components/versions.py", 'version="2.20.2"', 'version="3.0.0"'):
        code, said = pulumi(sandbox, move)
        assert code != 0 and "status.storedVersions" in said, said
    assert {each.metadata.name: each.metadata.uid for each in kind.get(namespace=NAME).items} == uids
    code, said = pulumi(sandbox, f"pulumi up -s {PLATFORM} --yes")
    assert code == 0, said


def test_a_tenant_that_is_removed_leaves_its_ledger_and_nothing_else(sandbox: Sandbox) -> None:
    ledger = FolderStore(sandbox.layout.ledger).list(f"{NAME}/")
    others = set(objects_of(sandbox, "assist"))
    assert in_aws(sandbox)
    code, left = leftovers(sandbox, "A tenant leaves")
    assert code == 1 and "role" in left
    for line in commands("A tenant leaves"):
        code, said = pulumi(sandbox, f"{line} --yes" if " destroy " in line or " rm " in line else line)
        assert code == 0, f"{line}\n{said}"
    remove_artifacts(sandbox)
    assert leftovers(sandbox, "A tenant leaves") == (0, {})
    assert objects(sandbox) == {}
    assert in_aws(sandbox) == []
    assert FolderStore(sandbox.layout.ledger).list(f"{NAME}/") == ledger
    assert set(objects_of(sandbox, "assist")) == others, "a neighbour lost something"


def remove_artifacts(sandbox: Sandbox) -> None:
    """The page's `aws s3 rm`, in a sandbox without the AWS CLI."""
    (bucket,) = [each.id for each in held(sandbox) if each.name == "storage-artifacts-bucket"]
    s3 = objectstore.client("s3", REGION, objectstore.endpoint(sandbox.layout))
    for found in s3.list_objects_v2(Bucket=bucket, Prefix=f"{NAME}/").get("Contents", ()):
        s3.delete_object(Bucket=bucket, Key=found["Key"])


def objects_of(sandbox: Sandbox, tenant: str) -> list[str]:
    core: Any = client.CoreV1Api(config.new_client_from_config(str(sandbox.layout.kubeconfig)))
    apps: Any = client.AppsV1Api(core.api_client)
    listed = [*core.list_namespaced_service(tenant).items, *apps.list_namespaced_deployment(tenant).items]
    return sorted(f"{type(each).__name__} {each.metadata.name} {each.metadata.uid}" for each in listed)


def test_a_destroy_from_the_top_leaves_nothing_and_what_is_left_is_told(sandbox: Sandbox) -> None:
    (line,) = [line for line in day_two_page.sections()["Destroy"] if "pulumi destroy" in line]
    assert leftovers(sandbox, "Destroy")[0] == 0, "what a living cluster uses is no failure"
    for step in line.replace("dev-hello", "sandbox-assist").replace("dev-", "sandbox-").split(" && "):
        code, said = pulumi(sandbox, f"{step} --yes")
        assert code == 0, f"{step}\n{said}"
    assert [f"{each.type} {each.id}" for each in held(sandbox)] == []
    assert leftovers(sandbox, "Destroy") == (0, {})
