"""Procedures of `docs/guide/day-two.md` for platform and tenant, walked by the page's own commands in a sandbox with a real API server.

One sandbox for the file: the tests follow each other as the procedures of one tenant's life.
"""

import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from kubernetes import client, config, dynamic
from kubernetes.dynamic.exceptions import ApiException

from headway.ledger.store import FolderStore
from headway.wire import TENANT
from tests import day_two_page
from tests.cluster.command import SECONDS, Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

STACK, NAME, PLATFORM = "sandbox-vision", "vision", "sandbox-platform"
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
    """The page's command in the checkout, in a shell that `headway sandbox env` set up."""
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


def in_aws(sandbox: Sandbox) -> list[str]:
    """What the account holds of the tenant's stack, by what its tags or its URN say."""
    found: list[str] = []
    for file in sandbox.layout.cloud.glob("account-*.sqlite"):
        with closing(sqlite3.connect(file)) as account:
            rows = account.execute("SELECT type, id, urn, outputs FROM objects").fetchall()
        found += [f"{type} {id}" for type, id, urn, outputs in rows if f":{STACK}::" in urn or f'"{TENANT}": "{NAME}"' in outputs]
    return sorted(found)


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


def test_a_tenants_lost_state_is_rebuilt_from_what_serves(sandbox: Sandbox) -> None:
    before = objects(sandbox)
    assert len(before) > 30
    assert pulumi(sandbox, f"pulumi stack rm {STACK} --force --yes --preserve-config")[0] == 0
    for line in commands("Lost state"):
        code, said = pulumi(sandbox, line)
        assert code == 0, f"{line}\n{said}"
    after = objects(sandbox)
    moving = re.compile(r"/(Pod|PodMetrics|EndpointSlice|Endpoints|ReplicaSet|Event|Lease) ")
    assert {k: v for k, v in after.items() if not moving.search(k)} == {k: v for k, v in before.items() if not moving.search(k)}
    assert {k for k in after if "/Pod " in k} == {k for k in before if "/Pod " in k}, "a pod was restarted"


def test_a_tenant_that_is_removed_leaves_its_ledger_and_nothing_else(sandbox: Sandbox) -> None:
    ledger = FolderStore(sandbox.layout.ledger).list(f"{NAME}/")
    others = set(objects_of(sandbox, "assist"))
    assert in_aws(sandbox)
    for line in commands("A tenant leaves"):
        code, said = pulumi(sandbox, f"{line} --yes" if " destroy " in line or " rm " in line else line)
        assert code == 0, f"{line}\n{said}"
    assert objects(sandbox) == {}
    assert in_aws(sandbox) == []
    assert FolderStore(sandbox.layout.ledger).list(f"{NAME}/") == ledger
    assert set(objects_of(sandbox, "assist")) == others, "a neighbour lost something"


def objects_of(sandbox: Sandbox, tenant: str) -> list[str]:
    core: Any = client.CoreV1Api(config.new_client_from_config(str(sandbox.layout.kubeconfig)))
    apps: Any = client.AppsV1Api(core.api_client)
    listed = [*core.list_namespaced_service(tenant).items, *apps.list_namespaced_deployment(tenant).items]
    return sorted(f"{type(each).__name__} {each.metadata.name} {each.metadata.uid}" for each in listed)
