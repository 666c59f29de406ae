"""The charts themselves, rendered by Helm with the values of the program: what their pods request is what the sums say, with a mirror none of
them names another registry, and what they bring fits the namespaces that they are put into.

Runs where somebody has the charts at their versions, unpacked in folders of their names: `HEADWAY_CHARTS=FOLDER`.
Charts lie in no registry that CI reaches; Helm is built at the first use.
"""

import gzip
import json
import os
import re
import subprocess
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from components import versions
from components.addons import chart_pods, images
from components.platform.namespaces import NAMESPACES, PodSecurity
from headway.contract.units import Bytes, MilliCpu
from sandbox.autoscaling import servers as keda_servers
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT
from tests.components.addons.test_chart_values import GIVEN, chart_of

CHARTS = os.environ.get("HEADWAY_CHARTS", "")
pytestmark = [pytest.mark.needs("charts"), pytest.mark.timeout(1800)]  # the first test waits for Helm to be built
MIRROR = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror"
HOSTS = sorted({image.partition("/")[0] for chart in versions.CHARTS for image in chart.images})
FOREIGN = re.compile(r"(?<![\w.-])(?:" + "|".join(map(re.escape, [*HOSTS, "public.ecr.aws", "gcr.io"])) + r")/[^\s\"']+")
OPERATORS = {"Prometheus": ("prometheus", 1), "Alertmanager": ("alertmanager", 1)}
"""Kinds of which an operator makes pods, each with its reloader beside it."""


@cache
def helm() -> Path:
    return ensure_toolchain(Layout.of(PROJECT), Silent(), ("helm",)).binary("helm")


@cache
def rendered(release: str, mirror: str | None = None) -> str:
    values = images.switched(chart_of(release), GIVEN[release], mirror)
    command = [
        helm(),
        "template",
        "release",
        str(Path(CHARTS) / chart_of(release)),
        "--kube-version",
        f"{versions.KUBERNETES}.0",
        "-f",
        "-",
    ]
    ended = subprocess.run([*command, "--include-crds=false"], input=json.dumps(values), capture_output=True, text=True, check=False)
    assert not ended.returncode, ended.stderr
    return ended.stdout


def objects(release: str) -> list[dict[str, Any]]:
    if chart_of(release) == "prometheus-operator-crds":
        return []
    return [found for found in yaml.load_all(rendered(release), Loader=yaml.CSafeLoader) if found]


def requested(containers: list[dict[str, Any]]) -> tuple[int, int]:
    asked = [container["resources"]["requests"] for container in containers]
    return sum(MilliCpu.parse(str(each["cpu"])) for each in asked), sum(Bytes.parse(each["memory"]) for each in asked)


@pytest.mark.parametrize("release", sorted(GIVEN))
def test_pods_request_what_the_sums_say(release: str) -> None:
    found = Counter[tuple[int, int, bool]]()
    for body in objects(release):
        spec = body.get("spec") or {}
        if body["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
            every = body["kind"] == "DaemonSet"
            # A sidecar among the initial containers stays; others are smaller than what follows them.
            pod = spec["template"]["spec"]
            kept = [each for each in pod.get("initContainers", ()) if each.get("restartPolicy") == "Always"]
            found[(*requested([*kept, *pod["containers"]]), every)] += 1
        elif body["kind"] in OPERATORS:
            reloader = GIVEN[release]["prometheusOperator"]["prometheusConfigReloader"]
            found[(*requested([{"resources": spec["resources"]}, reloader]), False)] += 1
    summed = Counter((int(each.cpu), int(each.memory), each.every_node) for each in chart_pods.workloads(chart_of(release), GIVEN[release]))
    assert found == summed


@pytest.mark.parametrize("release", sorted(GIVEN))
def test_with_a_mirror_no_other_registry_is_named(release: str) -> None:
    lines = [line for line in rendered(release, MIRROR).splitlines() if not line.strip().startswith("#")]
    assert [line.strip() for line in lines if FOREIGN.search(line)] == []


def test_without_a_mirror_the_same_search_finds_them() -> None:
    found = {release for release in GIVEN if FOREIGN.search(rendered(release))}
    assert {"cluster-autoscaler", "gpu-operator", "keda", "kube-prometheus-stack", "loki", "tempo"} <= found


def pod_of(body: dict[str, Any]) -> dict[str, Any] | None:
    return body["spec"]["template"]["spec"] if body["kind"] in ("DaemonSet", "Deployment", "Job", "StatefulSet") else None


def unrestricted(pod: dict[str, Any], container: dict[str, Any]) -> list[str]:
    """What of a container the restricted Pod Security level refuses (Kubernetes, "Pod Security Standards")."""
    own, all_of = container.get("securityContext") or {}, pod.get("securityContext") or {}
    both = {**all_of, **own}
    kept = {
        "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
        "capabilities": (own.get("capabilities") or {}).get("drop") == ["ALL"] and not (own.get("capabilities") or {}).get("add"),
        "runAsNonRoot": both.get("runAsNonRoot") is True,
        "seccompProfile": (both.get("seccompProfile") or {}).get("type") == "RuntimeDefault",
        "volumes": not any("hostPath" in volume for volume in pod.get("volumes", ())),
        "host": not any(pod.get(each) for each in ("hostIPC", "hostNetwork", "hostPID")),
    }
    return [field for field, held in kept.items() if not held]


@pytest.mark.parametrize("release", sorted(set(GIVEN) & {each.name for each in NAMESPACES if each.level is PodSecurity.RESTRICTED}))
def test_pods_are_admitted_by_their_namespace(release: str) -> None:
    """Charts that have a namespace of their name; the others' lets agents of the node in."""
    pods = [pod for body in objects(release) if (pod := pod_of(body))]
    refused = [
        (c["name"], found) for pod in pods for c in (*pod.get("initContainers", ()), *pod["containers"]) if (found := unrestricted(pod, c))
    ]
    assert pods and refused == []


@pytest.mark.parametrize("release", sorted(GIVEN))
def test_what_runs_on_every_node_has_a_priority(release: str) -> None:
    agents = [body for body in objects(release) if body["kind"] == "DaemonSet"]
    assert [body["metadata"]["name"] for body in agents if not body["spec"]["template"]["spec"].get("priorityClassName")] == []


@pytest.mark.parametrize("release", sorted(GIVEN))
def test_the_api_server_reaches_every_webhook_of_a_chart(release: str) -> None:
    """By the port of the pod, which the namespace's network policy names."""
    bodies = objects(release)
    services = {body["metadata"]["name"]: body for body in bodies if body["kind"] == "Service"}
    named = {
        port.get("name"): port["containerPort"]
        for body in bodies
        if (pod := pod_of(body))
        for container in pod["containers"]
        for port in container.get("ports", ())
    }
    asked = [webhook["clientConfig"]["service"] for body in bodies for webhook in body.get("webhooks", ())]
    asked += [body["spec"]["service"] for body in bodies if body["kind"] == "APIService"]
    opened = {port for namespace in NAMESPACES for port in namespace.webhooks}
    for each in asked:
        # The validating webhook of Istio's definitions is served by the chart of its control plane.
        ports = services[each["name"]]["spec"]["ports"] if each["name"] in services else [{"port": 443, "targetPort": 15017}]
        (target,) = (port.get("targetPort", port["port"]) for port in ports if port["port"] == each.get("port", 443))
        assert named.get(target, target) in opened, (each, target)


KEEPS_SECRETS = {
    "cert-manager": "it makes certificates, in any namespace",
    "istiod": "it hands the gateway's certificate to the gateway",
    "kube-prometheus-stack": "its operator writes configurations, which are Secrets, and reads receivers of any namespace",
}


@pytest.mark.parametrize("release", sorted(GIVEN))
def test_no_chart_reads_every_secret_that_needs_not(release: str) -> None:
    rules = [rule for body in objects(release) if body["kind"] == "ClusterRole" for rule in body.get("rules") or ()]
    every = [rule for rule in rules if {"", "*"} & set(rule.get("apiGroups", ())) and {"secrets", "*"} & set(rule.get("resources", ()))]
    assert bool([rule for rule in every if not rule.get("resourceNames")]) is (release in KEEPS_SECRETS)


@pytest.mark.parametrize("release", sorted(GIVEN))
def test_a_release_fits_into_the_secret_in_which_helm_keeps_it(release: str) -> None:
    """Chart without its own charts, values and manifest, packed and written as text (helm v3, pkg/storage/driver/util.go, `encodeRelease`);
    a Secret holds 1 MiB."""
    folder, left_out = Path(CHARTS) / chart_of(release), {"charts", "ci", "examples", "hack", "tests", "unittests"}
    files = [file for file in folder.rglob("*") if file.is_file() and file.relative_to(folder).parts[0] not in left_out]
    chart = {str(file): b64encode(file.read_bytes()).decode() for file in files}
    whole = json.dumps({"chart": chart, "config": GIVEN[release], "manifest": rendered(release)})
    assert len(b64encode(gzip.compress(whole.encode(), 9))) < 2**20


def rights(bodies: Iterable[dict[str, Any]]) -> dict[tuple[str, str | None, str], list[Any]]:
    """Roles and bindings by kind, namespace and name: what they say."""
    return {
        (body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"]): [
            body.get(field) for field in ("rules", "roleRef", "subjects")
        ]
        for body in bodies
        if body["kind"].removeprefix("Cluster") in ("Role", "RoleBinding")
    }


def test_keda_has_in_the_sandbox_the_very_rights_that_its_chart_gives() -> None:
    brought = yaml.safe_load_all((PROJECT / "sandbox/autoscaling/keda.yaml").read_text(encoding="utf-8"))
    given = rendered("keda").replace("namespace: default", "namespace: keda")  # Helm is told of no namespace here
    assert rights(brought) == rights(body for body in yaml.safe_load_all(given) if body)


def test_each_part_of_keda_runs_as_the_service_account_of_its_pods() -> None:
    accounts = {body["spec"]["template"]["spec"]["serviceAccountName"] for body in objects("keda") if body["kind"] == "Deployment"}
    assert set(keda_servers.ACCOUNTS.values()) == accounts


def test_loki_takes_a_node_for_each_replica() -> None:
    hard = [
        body["metadata"]["name"]
        for release in GIVEN
        for body in objects(release)
        if body["kind"] in ("Deployment", "StatefulSet")
        and "requiredDuringSchedulingIgnoredDuringExecution"
        in ((body["spec"]["template"]["spec"].get("affinity") or {}).get("podAntiAffinity") or {})
    ]
    apart = [each.name for pods in chart_pods.CHART_PODS.values() for each in pods if each.apart]
    assert len(hard) == len(apart) == 2
