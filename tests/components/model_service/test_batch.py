"""The batch variant: workers on spot that no online request, signal or quota mistakes for a replica."""

import json
from dataclasses import replace
from typing import Any

import pytest

from components.model_service.batch import requests_at_once
from components.model_service.manifests import ServicePlan
from components.model_service.queues import queues
from components.tenant.isolation import network_policies
from components.tenant.queues import rights
from headway.contract.arithmetic.quota import quota_use
from headway.contract.arithmetic.replica import WORKER_CPU, replica_cpu
from headway.contract.arithmetic.surge import batch_pool_for
from headway.contract.model import Model
from tests.components.contracts import DEFECTS, MODELS, POOLS, SURROUNDINGS, changed, pool_of, service, tenant

NIGHT = MODELS["defects-night"]


def of(model: Model) -> ServicePlan:
    return ServicePlan.of("vision", model, pool_of(model), SURROUNDINGS, None, batch_pool_for(model, POOLS))


def body(found: ServicePlan, role: str) -> dict[str, Any]:
    return next(dict(m.body) for m in found.manifests() if m.role == role)


def worker_pod(found: ServicePlan) -> dict[str, Any]:
    return body(found, "batch-workers")["spec"]["template"]


def test_nothing_of_a_batch_variant_exists_unless_asked_for() -> None:
    plain = service("defects")
    assert plain.queues == ()
    assert not [m.role for m in plain.manifests() if "batch" in m.role]
    assert rights("vision", [plain.model], SURROUNDINGS) == ()
    assert [role for role, _ in network_policies("vision", SURROUNDINGS)] == ["deny", "ingress", "egress"]


def test_workers_run_on_spot_below_every_online_service() -> None:
    pod = worker_pod(service("defects-night"))
    assert pod["spec"]["nodeSelector"] == {"platform.io/pool": "l4-spot"}
    assert pod["spec"]["priorityClassName"] == "headway-vision-batch-l4"
    assert pod["metadata"]["labels"]["platform.io/class"] == "batch"
    assert "topologySpreadConstraints" not in pod["spec"]


def test_no_service_budget_or_signal_of_the_online_service_picks_a_worker() -> None:
    found = service("defects-night")
    labels = worker_pod(found)["metadata"]["labels"]
    (release,) = found.releases
    assert labels["platform.io/release"] == f"{release}-batch", "signals ask for a release by its exact name"
    for manifest in found.manifests():
        spec = manifest.body.get("spec", {})
        if manifest.kind in ("Service", "PodDisruptionBudget", "Deployment") and manifest.role != "batch-workers":
            picks = spec["selector"].get("matchLabels", spec["selector"])
            assert not picks.items() <= labels.items(), f"{manifest.role} picks batch workers"
    monitor = body(found, "monitor")["spec"]["selector"]
    assert monitor["matchExpressions"] == [{"key": "platform.io/arm", "operator": "NotIn", "values": [labels["platform.io/arm"]]}]


def test_another_deadline_restarts_workers_and_no_online_replica() -> None:
    assert NIGHT.batch is not None
    later = NIGHT.model_copy(update={"batch": NIGHT.batch.model_copy(update={"message_timeout": type(NIGHT.batch.message_timeout)(10**7)})})
    before, after = of(NIGHT), of(later)
    (online,) = [m.role for m in before.manifests() if m.role.endswith("-server")]
    assert body(before, online) == body(after, online)
    assert worker_pod(before) != worker_pod(after)


def test_the_release_that_most_requests_get_is_the_one_that_workers_run() -> None:
    found = service("defects-night")
    (release,) = found.releases.values()
    server = body(found, f"{release.id}-server")["spec"]["template"]["spec"]
    assert worker_pod(found)["spec"]["containers"][0] == server["containers"][0]
    assert worker_pod(found)["spec"]["initContainers"] == server["initContainers"]


def test_queues_keep_and_hide_messages_as_long_as_the_contract_says() -> None:
    (_, dead), (_, live) = queues("vision", NIGHT, SURROUNDINGS)
    assert live["name"] == "headway-test-batch-vision_defects-night"
    assert dead["name"] == "headway-test-batch-vision_defects-night-dead"
    assert (live["message_retention_seconds"], live["visibility_timeout_seconds"]) == (12 * 3600, 120)
    assert json.loads(live["redrive_policy"]) == {
        "deadLetterTargetArn": "arn:aws:sqs:us-west-2:111122223333:headway-test-batch-vision_defects-night-dead",
        "maxReceiveCount": 5,
    }
    assert '"aws:SecureTransport": "false"' in live["policy"]


def test_workers_come_by_the_length_of_the_queue_and_leave_when_it_is_empty() -> None:
    spec = body(service("defects-night"), "batch-autoscaler")["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 2)
    (trigger,) = spec["triggers"]
    assert trigger["metadata"] == {
        "awsRegion": "us-west-2",
        "identityOwner": "operator",
        "queueLength": "500",
        "queueURL": "https://sqs.us-west-2.amazonaws.com/111122223333/headway-test-batch-vision_defects-night",
        "scaleOnInFlight": "true",
    }


def test_workers_stay_while_nobody_can_tell_how_long_the_queue_is() -> None:
    fallback = body(service("defects-night"), "batch-autoscaler")["spec"]["fallback"]
    assert fallback["behavior"] == "currentReplicasIfHigher"
    assert fallback["replicas"] == 1, "KEDA takes workers to zero at an error when this is zero"


def test_workers_touch_their_own_queue_and_store_only() -> None:
    found = {sid: (actions, arns) for sid, actions, arns in rights("vision", [MODELS["defects"], NIGHT], SURROUNDINGS)}
    assert found["TakeMessages"][1] == ["arn:aws:sqs:us-west-2:111122223333:headway-test-batch-vision_defects-night"]
    assert found["ReadRequests"] == (("s3:GetObject",), ["arn:aws:s3:::example-batch/vision/defects/requests/*"])
    assert found["WriteAnswers"] == (("s3:PutObject",), ["arn:aws:s3:::example-batch/vision/defects/answers/*"])


def test_only_workers_may_reach_the_endpoint_inside_the_network() -> None:
    inside = replace(SURROUNDINGS, sqs=("10.0.0.0/19", "10.0.32.0/19"))
    policy = dict(network_policies("vision", inside, queues=True))["queue-egress"]["spec"]
    assert policy["podSelector"] == {"matchLabels": {"platform.io/arm": "batch"}}
    blocks = [{"ipBlock": {"cidr": cidr}} for cidr in inside.sqs]
    assert policy["egress"] == [{"to": blocks, "ports": [{"port": 443, "protocol": "TCP"}]}]


def test_where_queues_answer_on_the_internet_no_pod_called_a_worker_goes_inside() -> None:
    assert "queue-egress" not in dict(network_policies("vision", SURROUNDINGS, queues=True))


def test_the_quota_is_charged_for_what_feeds_the_workers_too() -> None:
    uses = {use.path: use.used for use in quota_use(tenant("vision"), [NIGHT])}
    assert uses["quota", "gpus", "l4"] == 6 + 1 + 2
    assert uses["quota", "cpu"] == 9 * replica_cpu(NIGHT) + 2 * WORKER_CPU


@pytest.mark.parametrize(
    ("model", "requests"),
    [
        (NIGHT, 48),  # two instances with batches of 16, twice over, is 64; the replica says 503 beyond 48
        (MODELS["plain"], 4),
        (changed({**DEFECTS, "batch": None}, degradation__overload_at=20), 20),
        (MODELS["chat"], 64),
    ],
)
def test_a_worker_asks_enough_to_fill_batches_and_no_more_than_a_replica_takes(model: Model, requests: int) -> None:
    assert requests_at_once(model) == requests


def test_a_batch_variant_without_a_pool_is_not_rendered() -> None:
    with pytest.raises(ValueError, match="no pool"):
        replace(of(NIGHT), batch_pool=None).manifests()
