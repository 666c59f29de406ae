"""What the node health loop knows and may do."""

import json

from components.platform import node_health
from tests.components.platform.test_platform import by_role, pool
from tests.components.program import layer


def test_node_health_knows_what_each_pool_owes() -> None:
    settings = by_role(node_health.manifests([pool("l4", size={"min": 1, "max": 4}, zones=["us-east-1a", "us-east-1b"])]))["settings"][
        "data"
    ]
    assert json.loads(settings["pools.json"]) == {"l4": {"driver": "580.159.03", "nodesAtLeast": 2, "resources": {"nvidia.com/gpu": 4}}}
    assert "@sha256:" in settings["diagnosticImage"]


def test_node_health_may_evict_and_never_delete_what_is_not_its_own() -> None:
    found = by_role(node_health.manifests([]))
    everywhere = {(resource, verb) for rule in found["everywhere"]["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert ("pods/eviction", "create") in everywhere
    assert not any(verb in ("delete", "deletecollection", "update", "*") for _, verb in everywhere)
    assert {subject["namespace"] for role in ("everywhere-binding", "home-binding") for subject in found[role]["subjects"]} == {
        "node-health"
    }


def test_the_right_to_patch_nodes_is_bounded_before_it_is_given() -> None:
    found = {manifest.role: manifest for manifest in node_health.manifests([])}
    policy, binding = found["nodes-stay-as-they-are"].body["spec"], found["nodes-stay-as-they-are-binding"].body["spec"]
    assert "nodes-stay-as-they-are-binding" in found["everywhere-binding"].after
    assert policy["failurePolicy"] == "Fail" and binding["validationActions"] == ["Deny"]
    assert "matchResources" not in binding, "nodes are in no namespace"
    (account,) = found["everywhere-binding"].body["subjects"]
    whose = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    assert f"request.userInfo.username == '{whose}'" in [each["expression"] for each in policy["matchConditions"]]


HEADWAY = f"registry.example.com/headway@sha256:{'a' * 64}"


def test_the_loop_of_node_health_runs_by_digest_as_nobody_where_no_gpu_is() -> None:
    bodies = by_role(node_health.loop(HEADWAY, "us-east-1"))
    pod = bodies["loop"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == HEADWAY
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["serviceAccountName"] == node_health.SERVICE_ACCOUNT
    assert pod["nodeSelector"] == {"workload": "system"}
    assert "tolerations" not in pod, "a loop on a GPU node would drain itself"


def test_one_loop_acts_and_another_is_there_when_it_is_lost() -> None:
    bodies = by_role(node_health.loop(HEADWAY, "us-east-1"))
    spec = bodies["loop"]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert bodies["loop-budget"]["spec"]["maxUnavailable"] == 1, "its own nodes can be drained"
    picked = spec["selector"]["matchLabels"].items()
    assert all(picked == bodies[role]["spec"]["selector"]["matchLabels"].items() for role in ("loop-budget", "loop-monitor"))
    assert picked <= spec["template"]["metadata"]["labels"].items()


def test_the_loops_container_is_started_with_options_that_the_command_knows() -> None:
    from typer.testing import CliRunner

    from headway.cli.main import app

    (container,) = by_role(node_health.loop(HEADWAY, "us-east-1"))["loop"]["spec"]["template"]["spec"]["containers"]
    help_text = CliRunner().invoke(app, [*container["args"][:2], "--help"], env={"COLUMNS": "200"}).output
    assert all(option in help_text for option in container["args"] if option.startswith("--"))
    assert container["args"][-1].endswith(f":{container['ports'][0]['containerPort']}")
    assert container["livenessProbe"]["httpGet"]["port"] == container["ports"][0]["name"]


def test_an_environment_that_names_no_image_of_headway_deploys_no_loop() -> None:
    assert not [r.name for r in layer("sandbox-platform").registrations if r.name.startswith("node-health-loop")]


def test_node_health_may_end_instances_of_its_own_cluster_only() -> None:
    (statement,) = node_health.permissions("one", "123456789012", "us-east-1")
    assert statement.actions == ["autoscaling:TerminateInstanceInAutoScalingGroup"]
    assert statement.conditions == {"StringEquals": {"aws:ResourceTag/k8s.io/cluster-autoscaler/one": "owned"}}
