"""The loop of `headway evaluate` in the cluster: asks what serves its labelled requests, where the environment names an image. Pure.

Two replicas that both ask, for of two rounds at once the second is dropped. It reads the holdout sets and the releases of the services
that it asks, writes their evaluations, and asks replicas as each tenant's role `evaluator` allows. It takes nothing back: who may release
may change every object of a tenant and the state of its stack, which no loop of the platform should.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from components.addons.service_account import Annotations
from components.labels import labels
from components.manifests import Manifest, object_
from components.naming import bucket_arn
from components.permissions import Statement
from components.platform import loops
from headway.contract.evaluation import Evaluation
from headway.ledger.witness import named
from headway.wire import ARTIFACT_BUCKET_OUTPUT, EVALUATION_NAMESPACE, LEDGER_BUCKET_OUTPUT

NAME = EVALUATION_NAMESPACE
"""Its objects have the name of their namespace."""
FILE = "evaluation.json"
PORT, PORT_NAME = 8080, "metrics"


def settings(environment: str, region: str, services: Mapping[str, Evaluation], *, artifacts: str, ledger: str) -> str:
    """What the loop must know, as the file that it reads: `services` by their chain, and the names of the two buckets."""
    found = {
        "environment": environment,
        "region": region,
        "cluster": {ARTIFACT_BUCKET_OUTPUT: artifacts, LEDGER_BUCKET_OUTPUT: ledger},
        "services": {chain: each.model_dump(mode="json") for chain, each in services.items()},
    }
    return json.dumps(found, sort_keys=True)


def manifests(image: str, region: str, known: str, annotations: Annotations = None) -> tuple[Manifest, ...]:
    """Service account with its `annotations`, what the loop knows, the loop itself and what scrapes it; needs the Prometheus operator's
    definitions. `image`: one of headway by digest; `known`: the settings."""
    found = labels(NAME)
    monitor = {
        "selector": {"matchLabels": loops.picked(NAME)},
        "sampleLimit": 2000,
        "podMetricsEndpoints": [{"port": PORT_NAME, "path": "/metrics", "interval": "15s", "scrapeTimeout": "10s"}],
    }
    return (
        Manifest(
            role="account",
            body=object_("v1", "ServiceAccount", NAME, namespace=EVALUATION_NAMESPACE, labels=found, annotations=annotations),
        ),
        Manifest(role="settings", body=object_("v1", "ConfigMap", NAME, namespace=EVALUATION_NAMESPACE, labels=found, data={FILE: known})),
        Manifest(
            role="loop",
            after=("account", "settings"),
            body=loops.deployment(NAME, EVALUATION_NAMESPACE, _container(image, region, known), grace_seconds=30, settings=NAME),
        ),
        Manifest(role="budget", body=loops.budget(NAME, EVALUATION_NAMESPACE)),
        Manifest(
            role="monitor",
            body=object_("monitoring.coreos.com/v1", "PodMonitor", NAME, namespace=EVALUATION_NAMESPACE, labels=found, spec=monitor),
        ),
    )


def _container(image: str, region: str, known: str) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/healthz", "port": PORT_NAME}, "periodSeconds": 10, "timeoutSeconds": 2}
    return {
        "image": image,
        "args": ["evaluate", "--in-cluster", f"{loops.SETTINGS}/{FILE}", "--watch", "--serve", f"0.0.0.0:{PORT}"],
        "env": [
            # The one name that boto3 reads (botocore/configprovider.py, BOTOCORE_DEFAULT_SESSION_VARIABLES).
            {"name": "AWS_DEFAULT_REGION", "value": region},
            # Who acts, in the ledger; the pod's user has no name.
            {"name": "USER", "value": NAME},
            # Other settings are other pods, for the loop reads them once.
            {"name": "SETTINGS", "value": hashlib.sha256(known.encode()).hexdigest()[:12]},
        ],
        "ports": [{"name": PORT_NAME, "containerPort": PORT, "protocol": "TCP"}],
        # A holdout set has 64 MiB at most, and several times that while it is read.
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        "livenessProbe": {**probe, "failureThreshold": 3},
        "readinessProbe": {**probe, "failureThreshold": 1},
    }


def permissions(services: Mapping[str, Evaluation], *, witnesses: str, artifacts: str, ledger: str) -> tuple[Statement, ...]:
    """Read each holdout set and the ledger, and write and witness evaluations; nothing for no service. `artifacts` and `ledger` are the
    environment's own buckets, `witnesses` the ARN below which the ledger's witnesses are.

    Sets are named one by one. Chains are named by their form, for five names of each service are too many for a role from some twenty
    services on (`INLINE_LIMIT`): `TENANT/MODEL/evaluation` has a part more than any chain of releases, also of a model named `evaluation`.
    """
    if not services:
        return ()
    sets = {each.holdout.located(artifacts).removeprefix("s3://") for each in services.values()}
    chains, rounds = "*/*", "*/*/evaluation"

    def witnessed(form: str) -> list[str]:
        return [f"{witnesses}/{named(form, f's3://{ledger}')}"]

    return (
        Statement(sid="ReadHoldouts", actions=["s3:GetObject"], resources=[f"arn:aws:s3:::{each}" for each in sorted(sets)]),
        Statement(
            sid="ReadLedger",
            actions=["s3:GetObject", "s3:GetObjectVersion"],
            resources=[f"{bucket_arn(ledger)}/{chains}/*"],
        ),
        Statement(sid="AskWitness", actions=["ssm:GetParameter"], resources=witnessed(chains)),
        Statement(sid="WitnessEvaluations", actions=["ssm:GetParameter", "ssm:PutParameter"], resources=witnessed(rounds)),
        Statement(
            sid="WriteEvaluations",
            actions=["s3:PutObject"],
            resources=[f"{bucket_arn(ledger)}/{rounds}/*"],
        ),
        Statement(
            sid="FindEvents",
            actions=["s3:ListBucket", "s3:ListBucketVersions"],
            resources=[bucket_arn(ledger)],
            conditions={"StringLike": {"s3:prefix": [f"{chains}/*"]}},
        ),
    )
