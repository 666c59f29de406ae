"""The loops of `headway evaluate` and `headway drift` in the cluster, where the environment names an image: one asks what serves its labelled
requests, the other reads samples of what users send and get. Pure.

Two pods that both look, for of two rounds at once the second is dropped. They read the holdout sets, the samples and the releases of the
services that they look at, write their evaluations and what of the samples is counted, and ask replicas and routes as each tenant's role
`evaluator` allows. They take nothing back: who may release may change every object of a tenant and the state of its stack, which no loop of
the platform should.

Each loop is a container of its own, so that one which reads two weeks of samples keeps no round waiting.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.addons.service_account import Annotations
from components.labels import labels
from components.manifests import Manifest, object_
from components.naming import bucket_arn
from components.permissions import Statement
from components.platform import loops
from headway.contract.drift import WatchedTraffic
from headway.contract.evaluation import Evaluation
from headway.contract.sampling import PREFIX, prefix
from headway.ledger.witness import named
from headway.wire import ARTIFACT_BUCKET_OUTPUT, EVALUATION_NAMESPACE, LEDGER_BUCKET_OUTPUT, TELEMETRY_BUCKET_OUTPUT

NAME = EVALUATION_NAMESPACE
"""Its objects have the name of their namespace."""
FILE = "evaluation.json"
PORTS: Mapping[str, int] = {"evaluate": 8080, "drift": 8081}
"""Of each loop, by its command."""
_PORT_NAMES: Mapping[str, str] = {"evaluate": "metrics", "drift": "drift-metrics"}


@dataclass(frozen=True, kw_only=True)
class LookedAt:
    """What the loops look at, by the services' chains, and the names of the buckets in which it is."""

    asked: Mapping[str, Evaluation]
    watched: Mapping[str, WatchedTraffic]
    artifacts: str
    ledger: str
    telemetry: str


def settings(environment: str, region: str, found: LookedAt) -> str:
    """What the loops must know, as the file that they read."""
    buckets = {ARTIFACT_BUCKET_OUTPUT: found.artifacts, LEDGER_BUCKET_OUTPUT: found.ledger, TELEMETRY_BUCKET_OUTPUT: found.telemetry}
    document = {
        "environment": environment,
        "region": region,
        "cluster": buckets,
        "services": {chain: each.model_dump(mode="json") for chain, each in found.asked.items()},
        "watched": {chain: each.model_dump(mode="json") for chain, each in found.watched.items()},
    }
    return json.dumps(document, sort_keys=True)


def manifests(image: str, region: str, known: str, annotations: Annotations = None) -> tuple[Manifest, ...]:
    """Service account with its `annotations`, what the loops know, the loops themselves and what scrapes them; needs the Prometheus operator's
    definitions. `image`: one of headway by digest; `known`: the settings."""
    account = object_("v1", "ServiceAccount", NAME, namespace=EVALUATION_NAMESPACE, labels=labels(NAME), annotations=annotations)
    return (
        Manifest(role="account", body=account),
        loops.settings(NAME, FILE, known),
        Manifest(
            role="loop",
            after=("account", "settings"),
            body=loops.deployment(
                NAME,
                EVALUATION_NAMESPACE,
                _container("evaluate", image, region, known),
                {"name": "drift", **_container("drift", image, region, known)},
                grace_seconds=30,
                settings=NAME,
            ),
        ),
        Manifest(role="budget", body=loops.budget(NAME, EVALUATION_NAMESPACE)),
        Manifest(role="monitor", body=loops.monitor(NAME, EVALUATION_NAMESPACE, *_PORT_NAMES.values(), series=2000)),
    )


def _container(command: str, image: str, region: str, known: str) -> dict[str, Any]:
    port_name = _PORT_NAMES[command]
    return {
        "image": image,
        "args": [command, "--in-cluster", f"{loops.SETTINGS}/{FILE}", "--watch", "--serve", f"0.0.0.0:{PORTS[command]}"],
        "env": loops.acting(NAME, region, known),
        "ports": [{"name": port_name, "containerPort": PORTS[command], "protocol": "TCP"}],
        # A holdout set, or one reading of samples, has 64 MiB at most, and several times that while it is read.
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        **loops.probes(port_name),
    }


def permissions(found: LookedAt, *, witnesses: str) -> tuple[Statement, ...]:
    """Read holdout sets, samples and the ledger, and write and witness what was found; nothing where there is nothing to look at. `witnesses`
    is the ARN below which the ledger's witnesses are.

    Sets and samples are named one by one. Chains are named by their form, for five names of each service are too many for a role from some
    twenty services on (`INLINE_LIMIT`): `TENANT/MODEL/evaluation` has a part more than any chain of releases, also of a model named
    `evaluation`.
    """
    if not found.asked and not found.watched:
        return ()
    ledger = bucket_arn(found.ledger)
    written = [f"{loops.CHAINS}/{beside}" for beside, served in {"drift": found.watched, "evaluation": found.asked}.items() if served]
    witnessed = [f"{witnesses}/{named(each, f's3://{found.ledger}')}" for each in written]
    writes = (
        Statement(sid="WitnessEvaluations", actions=["ssm:GetParameter", "ssm:PutParameter"], resources=witnessed),
        Statement(sid="WriteEvaluations", actions=["s3:PutObject"], resources=[f"{ledger}/{each}/*" for each in written]),
    )
    return (*_holdouts(found), *_samples(found), *loops.reads_chains(found.ledger, witnesses), *writes)


def _holdouts(found: LookedAt) -> tuple[Statement, ...]:
    sets = sorted({each.holdout.located(found.artifacts).removeprefix("s3://") for each in found.asked.values()})
    if not sets:
        return ()
    return (Statement(sid="ReadHoldouts", actions=["s3:GetObject"], resources=[f"arn:aws:s3:::{each}" for each in sets]),)


def _samples(found: LookedAt) -> tuple[Statement, ...]:
    """Read of a watched service alone, as long as they are kept; their names, which say when they were stored, are found of all (`INLINE_LIMIT`)."""
    split = ((chain.partition("/"), each.retention) for chain, each in sorted(found.watched.items()))
    kept = [prefix(tenant, model, retention) for (tenant, _, model), retention in split]
    if not kept:
        return ()
    return (
        Statement(sid="ReadSamples", actions=["s3:GetObject"], resources=[f"{bucket_arn(found.telemetry)}/{each}*" for each in kept]),
        Statement(
            sid="FindSamples",
            actions=["s3:ListBucket"],
            resources=[bucket_arn(found.telemetry)],
            conditions={"StringLike": {"s3:prefix": [f"{PREFIX}/*"]}},
        ),
    )
