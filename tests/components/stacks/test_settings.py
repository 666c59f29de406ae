"""A stack file is taken whole or refused whole, and no field of it is without effect."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest
import yaml

from components.identity import Binding
from components.nodes.gpu_pool import GpuPool, GpuPoolArgs
from headway.contract.pool import Pool
from headway.problem import Problem, ProblemLevel
from stacks.sections import many_rules
from stacks.settings import FOLDER, ClusterSettings, PlatformSettings, SettingsError, TenantSettings, load
from stacks.settings_error import HIDDEN
from tests.components.program import cloud_outputs, config_of, run
from tests.components.recording import Recording, record


def cluster(**changes: Any) -> dict[str, Any]:
    """The sandbox's cluster sections, with whole sections replaced; None removes one."""
    read: dict[str, Any] = {key.removeprefix("headway:"): json.loads(text) for key, text in config_of("sandbox-cluster").items()}
    return {key: value for key, value in {**read, **changes}.items() if value is not None}


def within(section: str, **fields: Any) -> dict[str, Any]:
    """The sandbox's cluster sections, with fields of one section changed."""
    return cluster(**{section: {**cluster()[section], **fields}})


def raw(sections: Mapping[str, Any]) -> dict[str, str]:
    return {f"headway:{key}": json.dumps(value) for key, value in sections.items()}


def refused(sections: Mapping[str, Any], stack: str = "sandbox-cluster", **more: Any) -> SettingsError:
    with pytest.raises(SettingsError) as found:
        load(stack, raw(sections), **more)
    return found.value


def test_the_name_of_a_stack_says_its_layer() -> None:
    assert isinstance(load("sandbox-cluster", config_of("sandbox-cluster")), ClusterSettings)
    assert isinstance(load("sandbox-platform", config_of("sandbox-platform")), PlatformSettings)
    tenant = load("sandbox-vision", config_of("sandbox-vision"))
    assert isinstance(tenant, TenantSettings)
    assert (tenant.environment, tenant.tenant) == ("sandbox", "vision")


def test_an_environments_name_leaves_room_for_the_names_of_its_caches() -> None:
    assert isinstance(load("performance-cluster", raw(cluster())), ClusterSettings)
    found = str(refused(cluster(), "preproduction-cluster"))
    assert "headway-preproduction-ecr-public, of 32 characters" in found
    assert "at most 11 characters" in found


def test_lower_layers_read_account_and_pools_where_the_cluster_states_them() -> None:
    above = load("sandbox-cluster", config_of("sandbox-cluster"))
    below = load("sandbox-vision", config_of("sandbox-vision"))
    assert isinstance(above, ClusterSettings)
    assert isinstance(below, TenantSettings)
    assert (below.account, below.pools) == (above.account, above.pools)


def test_a_tenant_cannot_contradict_its_environment(tmp_path: Path) -> None:
    for stack in ("sandbox-cluster", "sandbox-platform"):
        (tmp_path / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": {k: json.loads(v) for k, v in config_of(stack).items()}}))
    found = load("sandbox-vision", raw({"account": {"id": "999999999999", "region": "eu-west-1"}}), tmp_path)
    assert found.account.id == "000000000000"


def test_an_environment_without_a_cluster_file_is_refused_by_what_is_missing(tmp_path: Path) -> None:
    error = refused({}, "nowhere-vision", folder=tmp_path)
    assert {problem.dotted for problem in error.problems} == {
        "headway:account",
        "headway:gateway",
        "headway:loops",
        "headway:network",
        "headway:observability",
        "headway:pools",
    }


def test_every_problem_is_reported_at_once() -> None:
    sections = cluster(
        storage=None,
        netwrk={},
        network={**cluster()["network"], "cidr": "10.0.0.0/26", "nat": "some", "endpoints": ["s3", "telepathy"]},
        control_plane={**cluster()["control_plane"], "public_cidrs": ["0.0.0.0/0"], "log_days": 2},
    )
    assert {problem.dotted for problem in refused(sections).problems} == {
        "headway:control_plane.log_days",
        "headway:control_plane.public_cidrs[0]",
        "headway:network.cidr",
        "headway:network.endpoints",
        "headway:network.nat",
        "headway:netwrk",
        "headway:storage",
    }


def test_a_refusal_says_fact_value_consequence_and_remedy() -> None:
    text = str(refused(within("network", zones=["us-east-1a", "us-west-2b"])))
    assert "headway:network.zones = 'us-west-2b'" in text
    assert "us-west-2b is not a zone of us-east-1" in text
    assert "after half the layer has been created" in text
    assert "Remedy: " in text
    assert "Nothing was planned" in text


def test_bad_settings_end_the_program_without_a_traceback() -> None:
    assert issubclass(SettingsError, pulumi.RunError), "the SDK shows every other exception as a traceback"


@pytest.mark.parametrize(
    ("sections", "path", "fact"),
    [
        (within("network", zones=["us-east-1a", "us-east-1a"]), "headway:network.zones", "stands more than once"),
        (within("network", cidr="8.0.0.0/16"), "headway:network.cidr", "not a private range"),
        (within("network", cidr="127.0.0.0/16"), "headway:network.cidr", "not a private range"),
        (within("network", cidr="169.254.0.0/16"), "headway:network.cidr", "not a private range"),
        (within("network", nat="none"), "headway:network.endpoints", "by endpoints only"),
        (within("control_plane", administrators=[]), "headway:control_plane.administrators", "No one may administer"),
        (within("control_plane", public_cidrs=["10.0.0.0/8"]), "headway:control_plane.public_cidrs[0]", "opens the API server"),
        (within("control_plane", public_cidrs=["10.1.0.96/27"]), "headway:control_plane.public_cidrs[0]", "is a private range"),
        (
            within("control_plane", public_cidrs=[f"203.0.113.{n}/32" for n in range(41)]),
            "headway:control_plane.public_cidrs",
            "at most 40",
        ),
        (within("control_plane", private_cidrs=[]), "headway:control_plane.private_cidrs", "nobody but the cluster's own nodes"),
        (within("control_plane", private_cidrs=["10.0.0.0/8"]), "headway:control_plane.private_cidrs[0]", "opens the API server"),
        (within("control_plane", private_cidrs=[f"10.{n}.0.0/24" for n in range(26)]), "headway:control_plane.private_cidrs", "at most 25"),
        (
            within("control_plane", groups={"system:masters": ["arn:aws:iam::000000000000:role/me"]}),
            "headway:control_plane.groups.system:masters",
            "a group of Kubernetes or of EKS itself",
        ),
        (within("account", id="12345"), "headway:account.id", "match pattern"),
        (within("system_pool", zones=["us-east-1d"]), "headway:system_pool.zones", "has no subnet"),
        (within("system_pool", release="1.36.2-20260101"), "headway:system_pool.release", "not among those"),
        (cluster(pools=[*cluster()["pools"], cluster()["pools"][0]]), "headway:pools", "two pools are named l4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_impossible_setting_is_refused_at_its_path(sections: dict[str, Any], path: str, fact: str) -> None:
    found = [problem for problem in refused(sections).problems if problem.dotted == path]
    assert found, f"nothing was said about {path}: {refused(sections)}"
    assert fact in found[0].fact


EVERY_ENDPOINT = ["autoscaling", "ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "elasticloadbalancing", "kms", "logs", "s3", "sts"]


@pytest.mark.parametrize(
    ("binding", "left_out", "missing"),
    [
        ("pod-identity", "eks-auth", "eks-auth"),
        ("pod-identity", "sts", "sts"),
        ("irsa", "eks-auth", None),
        ("irsa", "sts", "sts"),
    ],
)
def test_without_nat_pods_need_a_way_to_whoever_gives_them_credentials(binding: str, left_out: str, missing: str | None) -> None:
    endpoints = [each for each in EVERY_ENDPOINT if each != left_out]
    sections = {**within("network", nat="none", endpoints=endpoints), "workload_identity": binding}
    told = [problem.fact for problem in refused(sections).problems if problem.rule == "a-way-to-aws"]
    assert told == ([f"without NAT, nodes reach {missing} by endpoints only, and these are missing"] if missing else [])


def test_every_layer_of_an_environment_binds_its_workloads_as_the_cluster_says(tmp_path: Path) -> None:
    for stack in ("prod-access", "prod-cluster", "prod-platform"):
        found = yaml.safe_load((FOLDER / f"Pulumi.{stack}.yaml").read_text())
        found["config"] |= {"headway:workload_identity": "irsa"} if stack == "prod-cluster" else {}
        (tmp_path / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(found))
    for stack in ("prod-access", "prod-cluster", "prod-platform", "prod-vision"):
        given = config_of(stack, tmp_path) if stack != "prod-vision" else {}
        assert load(stack, given, tmp_path).workload_identity is Binding.IRSA
        assert load(stack, config_of(stack)).workload_identity is Binding.POD_IDENTITY


def test_a_section_of_the_cluster_is_not_taken_from_another_layer_alone() -> None:
    sections = {key.removeprefix("headway:"): json.loads(text) for key, text in config_of("sandbox-platform").items()}
    (problem,) = refused({**sections, "workload_identity": "irsa"}, "sandbox-platform").problems
    assert problem.dotted == "headway:workload_identity"
    assert problem.remedy == "Move it to Pulumi.sandbox-cluster.yaml"


def test_an_unknown_binding_is_refused_with_those_that_there_are() -> None:
    (problem,) = refused(cluster(workload_identity="kiam")).problems
    assert problem.dotted == "headway:workload_identity"
    assert "'pod-identity' or 'irsa'" in problem.fact


IMPOSSIBLE = {
    "mig-on-l4": ({"sharing": {"mode": "mig", "layout": {"1g.10gb": 7}}}, ".sharing.mode", "p4de.24xlarge"),
    "efa": ({"efa": True}, ".efa", "Leave efa out"),
    "slices-for-latency": ({"sharing": {"mode": "slice", "replicas": 2}}, ".sharing.mode", "Use whole, mig or mps"),
    "two-modes": ({"sharing": {"mode": "mps", "replicas": 2, "layout": {"1g.10gb": 7}}}, ".sharing.mps.layout", "Delete it"),
    "two-shapes": ({"instance_types": ["g6.xlarge", "g6.12xlarge"]}, ".instance_types[1]", "Make a pool for each"),
    "spot-for-latency": ({"capacity": {"kind": "spot"}}, ".capacity.kind", "workload_class: batch"),
    "reserved-twice": (
        {"capacity": {"kind": "reservation", "id": "cr-0123456789abcdef0"}, "zones": ["us-east-1a", "us-east-1b"]},
        ".zones",
        "Name the reservation's zone only",
    ),
    "stopped-on-nvme": ({"warm": {"size": 1}}, ".model_cache", "Set model_cache: disk"),
    "hibernated": ({"warm": {"size": 1, "state": "hibernated"}, "model_cache": "disk"}, ".warm.state", "running"),
    "unknown-type": ({"instance_types": ["g9.huge"]}, ".instance_types[0]", "p5.48xlarge"),
}
"""Pool -> what is wrong with it, the path where that stands, and part of the remedy, which names the legal choices."""


def test_every_impossible_pool_is_refused_at_once_with_the_legal_choices() -> None:
    base = {**cluster()["pools"][0], "instance_types": ["g6.xlarge"], "zones": ["us-east-1a"]}
    pools = [{**base, "name": name, **changes} for name, (changes, _, _) in IMPOSSIBLE.items()]
    told = {problem.dotted: problem.remedy for problem in refused(cluster(pools=pools)).problems}
    wanted = {f"headway:pools[{n}]{path}": remedy for n, (_, path, remedy) in enumerate(IMPOSSIBLE.values())}
    assert set(told) == set(wanted)
    assert [path for path, part in wanted.items() if part not in told[path]] == []


def test_a_pool_cannot_claim_a_driver_that_its_release_does_not_bring() -> None:
    pools = [{**pool, "ami": {**pool["ami"], "driver": "999.1.1"}} for pool in cluster()["pools"][:1]]
    (problem,) = refused(cluster(pools=pools)).problems
    assert problem.dotted == "headway:pools[0].ami.driver"
    assert "580.159.03" in problem.remedy


def test_the_value_of_a_secret_is_never_shown() -> None:
    with pytest.raises(SettingsError) as error:
        load("sandbox-cluster", raw(within("account", id="hunter2")), secrets=frozenset({"headway:account"}))
    assert "hunter2" not in str(error.value)
    assert HIDDEN in str(error.value)


def test_a_public_gateway_needs_a_certificate() -> None:
    sections = {key.removeprefix("headway:"): json.loads(text) for key, text in config_of("sandbox-platform").items()}
    sections["gateway"] = {**sections["gateway"], "public": True}
    (problem,) = refused(sections, "sandbox-platform").problems
    assert problem.dotted == "headway:gateway.certificate"


def test_the_bucket_of_batch_work_has_no_dot_in_its_name() -> None:
    (problem,) = refused({"batch": {"bucket": "batch.example"}}, "sandbox-vision").problems
    assert (problem.rule, problem.dotted, problem.value) == ("bucket-without-dots", "headway:batch.bucket", "'batch.example'")


@pytest.mark.parametrize(
    ("given", "remedy"), [(12, "Put it in quotes"), (1.5, "Put it in quotes"), (["a"], "Write a text"), (None, "Write a text")]
)
def test_only_what_yaml_took_for_a_number_is_to_be_put_in_quotes(given: Any, remedy: str) -> None:
    (problem,) = refused({"batch": {"bucket": given}}, "sandbox-vision").problems
    assert (problem.fact, problem.remedy.partition(":")[0]) == ("it is no text", remedy)


@pytest.mark.parametrize(("certificate", "most"), [(None, 60), ("models-tls", 30)])
def test_clients_of_the_gateway_above_a_usual_group_are_told(certificate: str | None, most: int) -> None:
    sections = {key.removeprefix("headway:"): json.loads(text) for key, text in config_of("sandbox-platform").items()}
    gateway = {**sections["gateway"], "certificate": certificate, "clients": [f"203.0.113.{number}/32" for number in range(most)]}

    def warned() -> tuple[Problem, ...]:
        found = load("sandbox-platform", raw({**sections, "gateway": gateway}))
        assert isinstance(found, PlatformSettings)
        return many_rules(found.gateway)

    assert warned() == ()
    gateway["clients"].append("192.0.2.0/24")
    (problem,) = warned()
    assert (problem.dotted, problem.level) == ("headway:gateway.clients", ProblemLevel.WARNING)
    assert f"Name at most {most} ranges" in problem.remedy and "Service Quotas" in problem.remedy


@pytest.mark.parametrize(
    ("hosts", "fact"),
    [
        (["Models.example.com"], "match pattern"),
        (["*.models.example.com"], "match pattern"),
        (["https://models.example.com"], "match pattern"),
        (["models"], "match pattern"),
        ([f"{'long-label.' * 16}example.com"], "at most 171 characters"),
        (["models.example.com", "models.example.com"], "named twice"),
    ],
)
def test_a_gateway_serves_host_names_that_proxies_compare(hosts: list[str], fact: str) -> None:
    sections = {key.removeprefix("headway:"): json.loads(text) for key, text in config_of("sandbox-platform").items()}
    sections["gateway"] = {**sections["gateway"], "hosts": hosts}
    last = refused(sections, "sandbox-platform").problems[-1]
    assert (last.dotted, fact in last.fact) == (f"headway:gateway.hosts[{len(hosts) - 1}]", True)


@pytest.mark.parametrize("above", ["vision.models.sandbox.test", "eu.vision.models.sandbox.test"])
def test_no_host_ends_as_a_tenants_models_do(tmp_path: Path, above: str) -> None:
    for stack in ("sandbox-cluster", "sandbox-platform"):
        sections = {k: json.loads(v) for k, v in config_of(stack).items()}
        if "headway:gateway" in sections:
            sections["headway:gateway"]["hosts"] = ["models.sandbox.test", above]
        (tmp_path / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": sections}))
    (problem,) = refused({}, "sandbox-vision", folder=tmp_path).problems
    assert (problem.rule, problem.dotted) == ("host-is-no-tenants", "headway:gateway.hosts[1]")
    assert isinstance(load("sandbox-assist", {}, tmp_path), TenantSettings)


def certified(monkeypatch: pytest.MonkeyPatch, tenants: int) -> Recording:
    """The platform of prod, whose gateway has a certificate by ACME, with so many tenants."""
    monkeypatch.setattr("stacks.platform.tenants_of", lambda *_: [f"t{number}" for number in range(tenants)])
    return run("prod-platform")


def test_a_certificate_that_no_authority_would_issue_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError) as found:
        certified(monkeypatch, 101)
    (problem,) = found.value.problems
    assert (problem.rule, problem.dotted) == ("certificate-has-room", "headway:gateway.authority")
    assert "101 names" in problem.fact


def test_without_a_tenant_no_certificate_is_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    found = certified(monkeypatch, 0)
    assert not found.of_type("kubernetes:cert-manager.io/v1:Certificate")
    assert any("no tenant" in line for line in found.log)
    assert found.one("kubernetes:networking.istio.io/v1:Gateway")


def test_warm_capacity_is_for_pools_that_exist() -> None:
    sections = {key.removeprefix("headway:"): json.loads(text) for key, text in config_of("sandbox-platform").items()}
    sections["warm"] = [{"pool": "b200", "replicas": 1}]
    (problem,) = refused(sections, "sandbox-platform").problems
    assert (problem.dotted, "a100-mig, h100, l4" in problem.remedy) == ("headway:warm[0].pool", True)


def stack_files(folder: Path, environment: str, image: str | None) -> dict[str, str]:
    """The environment's stack files in `folder`, with `image` for its loops; what its platform layer is given."""
    for layer in ("cluster", "platform"):
        config = {key: json.loads(text) for key, text in config_of(f"{environment}-{layer}").items()}
        if layer == "platform":
            config["headway:loops"] = {"image": image}
        (folder / f"Pulumi.{environment}-{layer}.yaml").write_text(yaml.safe_dump({"config": config}))
    return config_of(f"{environment}-platform", folder)


@pytest.mark.parametrize("environment", ["staging", "prod"])
def test_pools_that_mig_cuts_are_refused_where_nobody_would_admit_their_nodes(environment: str, tmp_path: Path) -> None:
    given = stack_files(tmp_path, environment, None)
    with pytest.raises(SettingsError) as refusal:
        load(f"{environment}-platform", given, tmp_path)
    (problem,) = refusal.value.problems
    assert (problem.rule, problem.dotted) == ("mig-needs-the-loops", "headway:loops.image")
    assert "a100-mig" in problem.fact and "no model would ever be placed there" in problem.consequence
    assert f"headway loops push --environment {environment}" in problem.remedy
    load(f"{environment}-cluster", config_of(f"{environment}-cluster", tmp_path), tmp_path)  # makes the repository for the image


@pytest.mark.parametrize("environment", ["dev", "sandbox"])
def test_no_image_is_needed_without_mig_or_where_the_loops_are_processes(environment: str, tmp_path: Path) -> None:
    load(f"{environment}-platform", stack_files(tmp_path, environment, None), tmp_path)


CLUSTER_CHANGES: Mapping[str, Any] = {
    "account.id": "111111111111",
    "account.region": "us-east-1",
    "control_plane.administrators": ["arn:aws:iam::000000000000:role/other"],
    "control_plane.creator_is_administrator": True,
    "control_plane.deletion_protection": True,
    "control_plane.groups": {"vision-ml": ["arn:aws:iam::000000000000:role/vision"]},
    "control_plane.log_days": 30,
    "control_plane.private_cidrs": ["10.200.0.0/24"],
    "control_plane.private_security_groups": ["sg-0123456789abcdef0"],
    "control_plane.public_cidrs": ["203.0.113.0/24"],
    "control_plane.support": "EXTENDED",
    "network.cidr": "10.64.0.0/16",
    "network.endpoints": ["s3"],
    "network.flow_log_days": 30,
    "network.nat": "per-zone",
    "network.zones": ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"],
    "storage.disposable": False,
    "storage.ledger_lock_days": 90,
    "storage.repositories": ["fetch"],
    "storage.superseded_days": 30,
    "storage.telemetry_days": 30,
    "system_pool.disk": {"size": "300Gi"},
    "system_pool.instance_types": ["m7i.2xlarge"],
    "system_pool.name": "plain",
    "system_pool.size": {"min": 3, "max": 9},
    "system_pool.zones": ["us-east-1a"],
}
"""A change of every field of the cluster layer, but of those that have no second legal value: see below."""

CLUSTER_FIXED = {"system_pool.release", "account.region"}
"""Only one AMI release is known, and zones would have to change with the region."""

POOL_CHANGES: Mapping[str, Any] = {
    "ami": None,
    "capacity": {"kind": "reservation", "id": "cr-0123456789abcdef0"},
    "disk": {"size": "400Gi"},
    "efa": None,
    "instance_types": ["p5en.48xlarge"],
    "labels": {"team": "blue"},
    "model_cache": "disk",
    "name": "other",
    "packing": None,
    "repair": {"enabled": False},
    "sharing": {"mode": "mig", "layout": {"7g.80gb": 1}},
    "size": {"min": 0, "max": 8},
    "taints": [{"key": "team", "value": "blue"}],
    "update": {"max_unavailable": 2},
    "warm": {"size": 1, "state": "running"},
    "workload_class": "batch",
    "zones": ["us-east-1a"],
}
POOL_WITHOUT_EFFECT = {"ami", "efa", "packing"}
"""One known release; EFA is refused; packing decides how pods are laid out, which the tenant layer does."""

PLATFORM_CHANGES: Mapping[str, Any] = {
    "gateway.certificate": "models-tls",
    "gateway.clients": ["10.0.0.0/8", "192.0.2.0/24"],
    "gateway.authority": {"kind": "own", "secret": "models-ca"},
    "gateway.hosts": ["other.sandbox.test"],
    "gateway.public": True,
    "gateway.replicas_max": 9,
    "gateway.replicas_min": 3,
    "loops.image": f"registry.example.com/headway@sha256:{'a' * 64}",
    "observability.grafana": "https://grafana.example.com",
    "observability.logs_days": 9,
    "observability.metrics_days": 9,
    "observability.metrics_storage": "99Gi",
    "observability.runbooks": "https://git.example.com/docs/runbooks",
    "observability.traces_days": 9,
    "registry.mirror": "registry.example.com/mirror",
    "warm": [{"pool": "l4", "replicas": 3}],
}


@cache
def outcome(stack: str, sections: str) -> list[tuple[str, str]]:
    """What `stack` registers with `sections` (as JSON, so that the answer can be kept)."""
    return flattened(run(stack, config=raw(json.loads(sections))))


def flattened(found: Recording) -> list[tuple[str, str]]:
    return sorted(
        (r.urn, json.dumps([dict(r.inputs), r.protect, sorted(r.depends_on)], sort_keys=True, default=str)) for r in found.registrations
    )


def changed(sections: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    section, _, name = path.partition(".")
    return {**sections, section: {**sections[section], name: value} if name else value}


def fields(model: Any, prefix: str = "") -> Iterator[str]:
    for name in model.model_fields:
        yield f"{prefix}{name}"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(set(CLUSTER_CHANGES) - CLUSTER_FIXED))
def test_every_field_of_the_cluster_layer_changes_what_is_registered(path: str) -> None:
    after = changed(cluster(), path, CLUSTER_CHANGES[path])
    assert outcome("sandbox-cluster", json.dumps(after)) != outcome("sandbox-cluster", json.dumps(cluster())), (
        f"{path} is accepted and ignored"
    )


@pytest.mark.parametrize("name", sorted(set(POOL_CHANGES) - POOL_WITHOUT_EFFECT))
def test_every_field_of_a_pool_changes_what_is_registered(name: str) -> None:
    given = next(pool for pool in cluster()["pools"] if pool["name"] == "h100")
    assert nodes(Pool(**{**given, name: POOL_CHANGES[name]})) != nodes(Pool(**given)), f"{name} is accepted and ignored"


def nodes(pool: Pool) -> list[tuple[str, str]]:
    """What the pool alone registers."""

    def program() -> None:
        args = GpuPoolArgs(
            pool=pool,
            cluster_name="headway-test",
            kubernetes_version="1.36",
            role_arn="arn:aws:iam::123456789012:role/nodes",
            subnet_ids=dict.fromkeys(pool.zones, "subnet-1"),
            volumes_key_arn="arn:aws:kms:us-east-1:123456789012:key/volumes",
            tags={},
            live={},
            after=[],
            now=datetime(2026, 11, 21, tzinfo=UTC),
        )
        GpuPool(pool.name, args, pulumi.ResourceOptions(provider=aws.Provider("aws", region="us-east-1")))

    return flattened(record(program, outputs=cloud_outputs))


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(PLATFORM_CHANGES))
def test_every_field_of_the_platform_layer_changes_what_is_registered(path: str) -> None:
    sections = {key.removeprefix("headway:"): json.loads(text) for key, text in config_of("sandbox-platform").items()}
    if path in ("gateway.authority", "gateway.public"):
        sections = changed(sections, "gateway.certificate", "models-tls")
    after = changed(sections, path, PLATFORM_CHANGES[path])
    assert outcome("sandbox-platform", json.dumps(after)) != outcome("sandbox-platform", json.dumps(sections)), (
        f"{path} is accepted and ignored"
    )


def test_the_tests_above_name_every_field() -> None:
    def named(model: Any, sections: tuple[str, ...]) -> set[str]:
        return {f"{section}.{field}" for section in sections for field in fields(model.model_fields[section].annotation)}

    assert named(ClusterSettings, ("account", "control_plane", "network", "storage", "system_pool")) == set(CLUSTER_CHANGES) | CLUSTER_FIXED
    assert named(PlatformSettings, ("gateway", "loops", "observability", "registry")) | {"warm"} == set(PLATFORM_CHANGES)
    cluster = load("sandbox-cluster", config_of("sandbox-cluster"))
    assert isinstance(cluster, ClusterSettings)
    pool = next(iter(cluster.pools))
    assert set(type(pool).model_fields) == set(POOL_CHANGES)


def test_an_authority_needs_a_secret_for_what_it_issues() -> None:
    sections = {key.removeprefix("headway:"): json.loads(text) for key, text in config_of("sandbox-platform").items()}
    after = changed(sections, "gateway.authority", {"kind": "own", "secret": "models-ca"})
    (problem,) = refused(after, "sandbox-platform").problems
    assert (problem.dotted, problem.rule) == ("headway:gateway.certificate", "authority-has-a-secret")
