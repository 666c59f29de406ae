"""The tenant stack, program and all, under mocks: what it registers for the sample tenants, and how it refuses."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_policy.proxy import unknown_checking_proxy

from headway.contract.placement import WorkloadClass
from headway.contract.pool_parts import Spot
from headway.ledger.store import FolderStore
from policies.guardrails.registry import PACKS
from policies.guardrails.rule import evaluate
from policies.guardrails.view import InputNode, ResourceView, plain
from stacks import settings
from stacks.sections import Nat, NetworkSettings
from stacks.settings_error import SettingsError
from tests.components import golden
from tests.components.contracts import TENANTS, document
from tests.components.recording import Recording, Registration
from tests.components.tenant_layer import planned, settings_of

COMPONENTS = ("headway:tenant:Tenant", "headway:model_service:ModelService")


def run(name: str, folder: Path = TENANTS, *, deployed: bool = True, preview: bool = False) -> Recording:
    return planned(settings_of(f"sandbox-{name}"), folder, deployed=deployed, preview=preview)


def services(recording: Recording) -> dict[str, tuple[Registration, ...]]:
    return {component.name: recording.children(component.urn) for component in recording.of_type("headway:model_service:ModelService")}


def write(folder: Path, name: str, **models: dict[str, Any]) -> Path:
    """A folder of one tenant with these contracts."""
    place = folder / name
    place.mkdir()
    (place / "tenant.yaml").write_text(yaml.safe_dump(document(name, "tenant")))
    for model, content in models.items():
        (place / f"{model}.yaml").write_text(yaml.safe_dump(content))
    return folder


def small_clones(count: int) -> dict[str, dict[str, Any]]:
    """Contracts of different names that together fit the tenant's quota."""
    base = copy.deepcopy(document("vision", "defects"))
    base["envelope"]["gpu"] = {"share": "mig", "accelerator": "a100-80gb", "profile": "1g.10gb", "memory": "8Gi"}
    base |= {"workload_class": "throughput", "placement": {"isolation": "mig"}}
    base.pop("batch", None)
    base["scaling"] |= {"min_replicas": 1, "max_replicas": 1, "warm_replicas": 0}
    return {f"model-{number:02}": {**base, "name": f"model-{number:02}"} for number in range(count)}


@pytest.mark.parametrize("name", ["assist", "vision"])
def test_every_sample_service_is_registered_below_its_tenant(name: str) -> None:
    found = run(name)
    (component,) = found.of_type("headway:tenant:Tenant")
    models = sorted(path.stem for path in (TENANTS / name).glob("*.yaml") if path.stem != "tenant")
    assert sorted(services(found)) == models
    assert all(service.parent == component.urn for service in found.of_type("headway:model_service:ModelService"))


@pytest.mark.parametrize("name", ["assist", "vision"])
def test_a_service_with_one_release_takes_at_most_twenty_resources(name: str) -> None:
    for service, children in services(run(name)).items():
        assert len(children) + 1 <= 20, f"{service}: {[child.name for child in children]}"


def test_no_two_resources_share_a_state_key() -> None:
    found = run("vision")
    keys = [(r.type, r.name, r.parent) for r in found.registrations]
    assert sorted(set(keys)) == sorted(keys)
    assert len({r.urn for r in found.registrations}) == len(found.registrations)


@pytest.mark.parametrize("name", ["assist", "vision", "batch"])
def test_what_a_tenant_registers_is_what_was_reviewed(name: str, tmp_path: Path) -> None:
    """A logical name is a state key: one that changes replaces what it names, which for a Deployment is an outage."""
    found = fed_by_a_queue(tmp_path) if name == "batch" else run(name)
    lines = "".join(f"{line}\n" for line in re.sub(r"\br[0-9a-f]{10}\b", "<release>", "\n".join(found.lines())).splitlines())
    golden.compare(f"sandbox-tenant-{name}.txt", lines)


def test_twenty_five_services_of_one_tenant_keep_apart(tmp_path: Path) -> None:
    found = tenant_of(tmp_path, 25)
    urns = [r.urn for r in found.registrations]
    assert len(set(urns)) == len(urns)
    assert len(services(found)) == 25
    names = [(r.type, r.inputs["metadata"].get("namespace"), r.inputs["metadata"]["name"]) for r in objects(found)]
    assert len(set(names)) == len(names), "two objects would be one in the cluster"


def tenant_of(folder: Path, count: int) -> Recording:
    write(folder, "vision", **small_clones(count))
    contract = document("vision", "tenant")
    contract["quota"] |= {"mig": {"1g.10gb": 60}, "gpu_memory": "1Ti", "cpu": 400, "memory": "1Ti", "monthly_budget": "900000 USD"}
    (folder / "vision" / "tenant.yaml").write_text(yaml.safe_dump(contract))
    found = settings_of("sandbox-vision")
    pools = tuple(
        pool.model_copy(update={"size": pool.size.model_copy(update={"max": 40})}) if pool.name == "a100-mig" else pool
        for pool in found.pools
    )
    grown = found.model_copy(update={"pools": pools})
    return planned(grown, folder)


def objects(recording: Recording) -> list[Registration]:
    return [r for r in recording.registrations if r.type.startswith("kubernetes:")]


def test_objects_of_kubernetes_are_typed_so_that_policies_see_them() -> None:
    found = {r.type for r in objects(run("vision"))}
    assert {
        "kubernetes:apps/v1:Deployment",
        "kubernetes:core/v1:ResourceQuota",
        "kubernetes:core/v1:Service",
        "kubernetes:networking.istio.io/v1:VirtualService",
        "kubernetes:keda.sh/v1alpha1:ScaledObject",
        "kubernetes:policy/v1:PodDisruptionBudget",
    } <= found


def test_names_and_label_values_stay_within_what_kubernetes_takes() -> None:
    for resource in objects(run("vision")):
        metadata = resource.inputs["metadata"]
        assert len(metadata["name"]) <= 63, metadata["name"]
        for key, value in metadata.get("labels", {}).items():
            assert len(value) <= 63, f"{metadata['name']}: {key}"


def test_a_server_waits_for_quota_identity_and_admission_of_its_tenant() -> None:
    found = run("assist")
    server = next(r for r in found.registrations if r.type == "kubernetes:apps/v1:Deployment")
    needed = {r.name for r in found.registrations if r.urn in server.depends_on}
    assert {"assist-namespace", "assist-quota", "assist-identity", "assist-admission-binding"} <= needed


def test_no_pod_of_a_model_is_made_before_its_role_is_bound_to_it() -> None:
    found = run("assist")
    made = [r for r in found.registrations if r.type == "kubernetes:apps/v1:Deployment"]
    bound = {r.urn for r in found.registrations if r.name.startswith("assist-models-") and r.type.startswith("aws:")}
    assert bound and made and all(bound <= r.depends_on for r in made), "EKS gives credentials to a pod while it is made, or never"


def test_the_tenants_identity_reads_its_own_prefix_and_nothing_else() -> None:
    (policy,) = [r for r in run("vision").of_type("aws:iam/rolePolicy:RolePolicy") if r.name.endswith("artifacts")]
    statement = yaml.safe_load(policy.inputs["policy"])["Statement"]
    assert statement == [
        {
            "Sid": "ReadArtifacts",
            "Effect": "Allow",
            "Action": ["s3:GetObject"],
            "Resource": ["arn:aws:s3:::headway-sandbox-artifacts-000000000000/vision/*"],
        }
    ]


def test_a_preview_needs_no_deployed_platform() -> None:
    found = run("vision", deployed=False, preview=True)
    assert len(services(found)) == 2


def test_an_update_without_the_platform_says_what_to_deploy_first() -> None:
    with pytest.raises(Exception, match="pulumi up -s sandbox-platform"):
        run("vision", deployed=False)


def test_refused_contracts_end_the_run_with_the_findings_and_no_traceback(tmp_path: Path) -> None:
    broken = copy.deepcopy(document("vision", "defects"))
    broken["scaling"]["max_replicas"] = 600
    broken["envelope"]["cpu"] = "many"
    write(tmp_path, "vision", defects=broken)
    with pytest.raises(SettingsError) as caught:
        run("vision", tmp_path)
    text = str(caught.value)
    assert "Tenant vision is refused" in text
    assert "envelope.cpu" in text
    assert "Remedy:" in text


@pytest.mark.parametrize(
    ("registry", "refused"),
    [("nvcr.io", True), ("111111111111.dkr.ecr.eu-west-3.amazonaws.com", True), ("111111111111.dkr.ecr.us-east-1.amazonaws.com", False)],
)
def test_without_nat_a_preview_refuses_images_of_registries_out_of_reach(registry: str, refused: bool, tmp_path: Path) -> None:
    model = copy.deepcopy(document("vision", "defects"))
    model["runtime"]["image"] = f"{registry}/nvidia/tritonserver:26.07-py3@sha256:{'a' * 64}"
    write(tmp_path, "vision", defects=model)
    found = settings_of("sandbox-vision")
    closed = found.model_copy(update={"network": found.network.model_copy(update={"nat": Nat.NONE})})
    if not refused:
        planned(closed, tmp_path)
        return
    with pytest.raises(SettingsError) as error:
        planned(closed, tmp_path)
    assert [(problem.rule, problem.dotted) for problem in error.value.problems] == [("image-reached-without-nat", "runtime.image")]


def test_a_preview_refuses_artifacts_of_another_environment(tmp_path: Path) -> None:
    model = copy.deepcopy(document("vision", "defects"))
    model["artifact"]["uri"] = "s3://headway-prod-artifacts-111111111111/vision/defects/1/"
    write(tmp_path, "vision", defects=model)
    with pytest.raises(SettingsError) as error:
        run("vision", tmp_path)
    assert [(problem.rule, problem.dotted) for problem in error.value.problems] == [("artifact-of-this-environment", "artifact.uri")]


def test_an_issuer_whose_keys_the_endpoint_eks_hides_is_refused(tmp_path: Path) -> None:
    place = write(tmp_path, "vision", defects=document("vision", "defects")) / "vision" / "tenant.yaml"
    given = yaml.safe_load(place.read_text())
    given["issuers"][0]["jwks_uri"] = "https://oidc.eks.us-east-1.amazonaws.com/id/0123/keys"
    place.write_text(yaml.safe_dump(given))
    found = settings_of("sandbox-vision")
    hidden = found.model_copy(update={"network": found.network.model_copy(update={"endpoints": (*found.network.endpoints, "eks")})})
    with pytest.raises(SettingsError) as error:
        planned(hidden, tmp_path)
    assert [(problem.rule, problem.subject) for problem in error.value.problems] == [("issuer-keys-in-reach", "vision")]
    planned(found, tmp_path)


def test_a_service_above_its_tenants_quota_is_refused_before_planning(tmp_path: Path) -> None:
    large = copy.deepcopy(document("vision", "defects"))
    large["scaling"]["max_replicas"] = 600
    write(tmp_path, "vision", defects=large)
    with pytest.raises(SettingsError, match="quota"):
        run("vision", tmp_path)


BATCH = {
    "max_replicas": 2,
    "messages_per_replica": 500,
    "deadline": "12h",
    "message_timeout": "2m",
    "store": "batches://vision/defects/",
}


def moved(environment: str, folder: Path, bucket: str) -> Recording:
    """The classifier with a batch variant, planned in `environment`, whose stack file of the tenant names `bucket`."""
    contract = {**document("vision", "defects"), "batch": BATCH}
    place = folder / environment
    place.mkdir()
    write(place, "vision", defects=contract)
    found = settings_of(f"{environment}-vision", {"headway:batch": json.dumps({"bucket": bucket})})
    l4 = next(pool for pool in found.pools if pool.name == "l4")
    spot = l4.model_copy(update={"name": "l4-spot", "workload_class": WorkloadClass.BATCH, "capacity": Spot(kind="spot")})
    grown = found.model_copy(update={"pools": (*(pool for pool in found.pools if pool.workload_class is not WorkloadClass.BATCH), spot)})
    return planned(grown, place, FolderStore(folder / f"{environment}-ledger"))


def test_one_contract_is_one_release_in_staging_and_in_production(tmp_path: Path) -> None:
    """Its artifact and its batch store lie in buckets of each environment; what identifies the release knows neither."""
    found = {name: moved(name, tmp_path, f"example-batch-{name}") for name in ("staging", "prod")}
    assert found["staging"].exports["releases"] == found["prod"].exports["releases"]
    for name, other in (("staging", "prod"), ("prod", "staging")):
        text = json.dumps([dict(r.inputs) for r in found[name].registrations], default=str)
        account = settings_of(f"{name}-vision").account.id
        for own in (f"s3://example-batch-{name}/vision/defects/", f"s3://headway-{name}-artifacts-{account}/vision/defects/"):
            assert own in text
        for foreign in (f"example-batch-{other}", f"headway-{other}-", "batches://", "artifacts://"):
            assert foreign not in text


def test_workers_may_touch_the_bucket_of_their_environment(tmp_path: Path) -> None:
    text = json.dumps([dict(r.inputs) for r in moved("prod", tmp_path, "example-batch-prod").registrations], default=str)
    assert "arn:aws:s3:::example-batch-prod/vision/defects/answers/*" in text


@pytest.mark.parametrize(
    ("bucket", "store", "rule"),
    [
        (None, BATCH["store"], "batch-store-has-a-bucket"),
        ("example-models", "batches://vision/models/1/", "batch-writes-beside-the-artifact"),
    ],
)
def test_a_batch_store_needs_a_bucket_apart_from_the_artifact(bucket: str | None, store: str, rule: str, tmp_path: Path) -> None:
    contract = copy.deepcopy(document("vision", "defects"))
    contract["artifact"]["uri"] = "s3://example-models/vision/models/1/"
    write(tmp_path, "vision", defects={**contract, "batch": {**BATCH, "store": store}})
    found = settings_of("sandbox-vision")
    given = found.model_copy(update={"batch": settings.BatchSettings(bucket=bucket) if bucket else None})
    with pytest.raises(SettingsError) as refused:
        planned(given, tmp_path)
    assert (rule, "batch.store") in [(problem.rule, problem.dotted) for problem in refused.value.problems]


def test_a_bucket_of_the_platform_is_refused_as_a_tenants_own() -> None:
    with pytest.raises(SettingsError) as refused:
        settings.load("prod-vision", {"headway:batch": json.dumps({"bucket": "headway-prod-ledger-333333333333"})})
    assert [(p.rule, p.dotted) for p in refused.value.problems] == [("batch-store-outside-the-platform", "headway:batch.bucket")]


def test_exports_say_where_each_model_answers() -> None:
    exports = run("vision").exports
    assert exports["namespace"] == "vision"
    assert exports["hosts"]["defects"] == ["defects.vision.models.sandbox.test"]
    assert list(exports["releases"]["defects"].values()) == [100]


def fed_by_a_queue(folder: Path, network: NetworkSettings | None = None) -> Recording:
    """The vision tenant with a batch variant of its classifier, in an environment with a spot pool; `network`: another environment's."""
    contract = document("vision", "defects")
    contract["batch"] = {
        "max_replicas": 2,
        "messages_per_replica": 500,
        "deadline": "12h",
        "message_timeout": "2m",
        "store": "s3://example-batch/vision/defects/",
    }
    write(folder, "vision", defects=contract)
    found = settings_of("sandbox-vision")
    l4 = next(pool for pool in found.pools if pool.name == "l4")
    spot = l4.model_copy(update={"name": "l4-spot", "workload_class": WorkloadClass.BATCH, "capacity": Spot(kind="spot")})
    own = found.network.model_copy(update={"endpoints": (*found.network.endpoints, "sqs")})
    grown = found.model_copy(update={"pools": (*found.pools, spot), "network": network or own})
    return planned(grown, folder)


def test_a_batch_variant_fits_into_the_twenty_resources_of_a_service(tmp_path: Path) -> None:
    found = fed_by_a_queue(tmp_path)
    children = services(found)["defects"]
    assert len(children) + 1 <= 20, [child.name for child in children]
    dead, live = (found.one("aws:sqs/queue:Queue", f"defects-batch-{name}") for name in ("dead", "queue"))
    assert dead.urn in live.depends_on, "a queue cannot name a dead-letter queue that is not there"
    assert live.inputs["kmsMasterKeyId"] == "data_key_arn-of-the-layer-above"
    rights = next(r for r in found.registrations if r.name == "vision-models-batch").inputs["policy"]
    assert "headway-sandbox-batch-vision_defects" in rights


def test_alarms_tell_the_owner_of_old_and_of_failed_messages(tmp_path: Path) -> None:
    found = fed_by_a_queue(tmp_path)
    late, unanswered = (
        found.one("aws:cloudwatch/metricAlarm:MetricAlarm", f"vision-defects-batch-{name}").inputs for name in ("late", "unanswered")
    )
    queue = "headway-sandbox-batch-vision_defects"
    assert (late["dimensions"], late["metricName"], late["threshold"]) == (
        {"QueueName": queue},
        "ApproximateAgeOfOldestMessage",
        6 * 3600,
    ), "half of the deadline"
    assert (unanswered["dimensions"], unanswered["metricName"], unanswered["threshold"]) == (
        {"QueueName": f"{queue}-dead"},
        "ApproximateNumberOfMessagesVisible",
        0,
    )
    topic = found.one("aws:sns/topic:Topic", "vision-alarms")
    for alarm in (late, unanswered):
        assert alarm["comparisonOperator"] == "GreaterThanThreshold"
        assert len(alarm["alarmActions"]) == 1
        page = alarm["alarmDescription"].split()[-1]
        assert (Path(__file__).parents[3] / page).is_file(), "a link that leads nowhere helps nobody at night"
    assert topic.inputs["kmsMasterKeyId"] == "data_key_arn-of-the-layer-above"
    (told,) = (r.inputs for r in found.registrations if r.type == "aws:sns/topicSubscription:TopicSubscription")
    assert (told["protocol"], told["endpoint"]) == ("email", "vision-inference@example.com")


@pytest.mark.parametrize("name", ["assist", "vision"])
def test_what_is_registered_breaks_no_rule_of_the_tenants_pack(name: str) -> None:
    assert breaches(run(name)) == []


def test_what_a_batch_variant_registers_breaks_no_rule_either(tmp_path: Path) -> None:
    assert breaches(fed_by_a_queue(tmp_path)) == []


TENANT_STACKS = sorted(
    file.stem.removeprefix("Pulumi.")
    for file in settings.FOLDER.glob("Pulumi.*.yaml")
    if not file.stem.endswith(("-access", "-cluster", "-platform")) and ".sandbox-" not in file.name
)


@pytest.mark.parametrize("stack", TENANT_STACKS)
def test_the_tenants_of_every_environment_can_be_planned_and_break_no_rule(stack: str, tmp_path: Path) -> None:
    found = settings_of(stack)
    recording = planned(found, ledger=FolderStore(tmp_path))
    assert breaches(recording) == []
    models = sorted(path.stem for path in (TENANTS / found.tenant).glob("*.yaml") if path.stem != "tenant")
    assert sorted(services(recording)) == models


def test_one_contract_is_one_release_wherever_it_runs_and_reads_each_bucket(tmp_path: Path) -> None:
    seen: dict[str, set[str]] = {}
    for environment in ("staging", "prod"):
        found = settings_of(f"{environment}-vision")
        recording = planned(found, ledger=FolderStore(tmp_path))
        seen[environment] = {release for releases in recording.exports["releases"].values() for release in releases}
        fetched = [
            r.inputs["data"]["fetch.json"] for r in recording.of_type("kubernetes:core/v1:ConfigMap") if "fetch.json" in r.inputs["data"]
        ]
        bucket = f"headway-{environment}-artifacts-{found.account.id}"
        assert sorted(re.findall(r'"uri": "(.*)"', "".join(fetched))) == [
            f"s3://{bucket}/vision/defects/2026.11.2/",
            f"s3://{bucket}/vision/embeddings/3.1.0/",
        ]
    assert seen["staging"] == seen["prod"]


def breaches(recording: Recording) -> list[str]:
    state: dict[str, dict[str, Any]] = {}
    found: list[str] = []
    for r in recording.registrations:
        for rule in PACKS["tenant"]:
            if rule.covers(r.type):
                properties = InputNode(plain(unknown_checking_proxy(dict(r.inputs))))
                view = ResourceView(r.type, r.name, r.urn, properties, state=state.setdefault(rule.id, {}))
                verdict = evaluate(rule, view)
                assert verdict.unevaluated is None, f"{rule.id} could not judge {r.name}: {verdict.unevaluated}"
                found += [f"{rule.id} {r.name} {breach.dotted}: {breach.fact}" for breach in verdict.breaches]
    return found
