"""A folder of tenants: all errors of all files at once, each in its place, and the rules that need several contracts together."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.contract.crosscheck.batch_store import placed, queued_out_of_reach
from headway.contract.crosscheck.bucket import of_another_environment
from headway.contract.crosscheck.image import without_nat
from headway.contract.crosscheck.tenant import keys_in_reach
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.reading.loader import CheckResult, load_tenant, load_tenants
from headway.contract.reading.pools import pools_of
from headway.contract.runtime import Engine
from headway.contract.starter import model_starter, tenant_starter
from headway.contract.tenant import Tenant
from headway.problem import Problem, ProblemLevel
from tests.contract_samples import (
    ADAPTED,
    ASSIST,
    CHAT,
    CUSTOM,
    DEFECTS,
    EMBEDDINGS,
    GONE,
    H100_POOL,
    L4_POOL,
    MIG_POOL,
    PREFILL,
    SPANNING,
    VISION,
    changed,
    pool,
)

ROOT = Path(__file__).parents[3]
POOLS = (pool(L4_POOL), pool(MIG_POOL), pool(H100_POOL))
BATCH = {
    "max_replicas": 1,
    "messages_per_replica": 10,
    "deadline": "1h",
    "message_timeout": "1m",
    "store": "s3://example-batch/vision/defects/",
}

Tree = dict[str, Any]
L4 = {"share": "whole", "accelerator": "l4", "memory": "20Gi"}
SAMPLES: Tree = {
    "vision/tenant": VISION,
    "vision/defects": DEFECTS,
    "vision/embeddings": EMBEDDINGS,
    "assist/tenant": ASSIST,
    "assist/chat": CHAT,
}


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., CheckResult]:
    """Writes a tree of contracts and loads it."""

    def write_and_load(tree: Tree, pools: tuple[Pool, ...] | None = POOLS) -> CheckResult:
        for name, data in tree.items():
            file = tmp_path / f"{name}.yaml"
            file.parent.mkdir(exist_ok=True)
            file.write_text(data if isinstance(data, str) else yaml.safe_dump(data), encoding="utf-8")
        return load_tenants(tmp_path, pools)

    return write_and_load


def rules(result: CheckResult) -> dict[str, Problem]:
    return {finding.rule: finding for finding in result.findings}


def test_every_error_of_every_file_shows_in_one_pass(load: Callable[..., CheckResult]) -> None:
    result = load(
        {
            "vision/tenant": changed(VISION, {"priority": "huge"}),
            "vision/defects": changed(DEFECTS, {"envelope/cpu": "3 cores", "scaling/min_replicas": GONE, "health/drain": 30}),
            "vision/embeddings": changed(EMBEDDINGS, {"placement/isolation": "dedicated"}),
            "assist/tenant": ASSIST,
            "assist/chat": "contract: [",
        }
    )
    assert not result.ok
    assert [(f.file, f.dotted) for f in result.findings] == [
        ("assist/chat.yaml", ""),
        ("vision/defects.yaml", "envelope.cpu"),
        ("vision/defects.yaml", "health.drain"),
        ("vision/defects.yaml", "scaling.min_replicas"),
        ("vision/embeddings.yaml", "placement.isolation"),
        ("vision/tenant.yaml", "priority"),
    ]


def test_a_finding_points_to_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "vision").mkdir()
    source = (ROOT / "tenants/vision/defects.yaml").read_text(encoding="utf-8")
    (tmp_path / "vision" / "defects.yaml").write_text(source.replace("memory: 8Gi", "memory: 8GB"), encoding="utf-8")
    finding = rules(load_tenant(tmp_path / "vision"))["unit"]
    line = source.splitlines()[finding.line - 1]
    assert line[finding.column - 1 :].startswith("memory: 8Gi")
    assert finding.value == "8GB"
    assert finding.place == f"vision/defects.yaml:{finding.line}:{finding.column}"


THEIR_KEYS = changed(ASSIST, {"issuers/0/issuer": VISION["issuers"][0]["issuer"], "issuers/0/jwks_uri": "https://evil.test/keys"})


def test_tenants_that_state_different_keys_for_one_issuer_are_both_refused(load: Callable[..., CheckResult]) -> None:
    for theirs in (THEIR_KEYS, {**THEIR_KEYS, "issuers": [*THEIR_KEYS["issuers"], ASSIST["issuers"][0]]}):
        found = [f for f in load({**SAMPLES, "assist/tenant": theirs}).findings if f.rule == "issuer-has-one-set-of-keys"]
        assert [(f.file, f.dotted) for f in found] == [
            ("assist/tenant.yaml", "issuers[0].jwks_uri"),
            ("vision/tenant.yaml", "issuers[0].jwks_uri"),
        ]
    shared = changed(THEIR_KEYS, {"issuers/0/jwks_uri": VISION["issuers"][0]["jwks_uri"]})
    assert load({**SAMPLES, "assist/tenant": shared}).ok


def test_a_tenant_alone_is_compared_with_those_beside_it(tmp_path: Path, load: Callable[..., CheckResult]) -> None:
    load({**SAMPLES, "assist/tenant": THEIR_KEYS, "assist/chat": "contract: ["})
    alone = load_tenant(tmp_path / "vision", beside=["assist", "vision", "gone"])
    assert [(f.file, f.rule) for f in alone.findings if f.level is ProblemLevel.ERROR] == [
        ("vision/tenant.yaml", "issuer-has-one-set-of-keys")
    ]
    assert load_tenant(tmp_path / "vision").ok


def test_a_misspelt_field_is_told_its_name(load: Callable[..., CheckResult]) -> None:
    result = load({**SAMPLES, "vision/defects": changed(DEFECTS, {"scaling/warm_replica": 1})})
    assert "warm_replicas" in rules(result)["field-unknown"].remedy


def test_a_misspelt_field_is_not_missing_besides(load: Callable[..., CheckResult]) -> None:
    result = load({**SAMPLES, "vision/defects": changed(DEFECTS, {"workload_class": GONE, "workload_clas": "latency"})})
    assert [finding.rule for finding in result.findings if finding.level is ProblemLevel.ERROR] == ["field-unknown"]


def test_a_beginning_is_taken_for_all_that_begin_so(load: Callable[..., CheckResult]) -> None:
    result = load({**SAMPLES, "vision/defects": changed(DEFECTS, {"envelope/gpu/accelerator": "a100"})})
    assert rules(result)["value-not-legal"].remedy == "Did you mean a100-40gb or a100-80gb?"


def test_memory_beyond_a_quota_is_told_in_the_quotas_unit(load: Callable[..., CheckResult]) -> None:
    result = load({**SAMPLES, "vision/tenant": changed(VISION, {"quota/gpu_memory": "100Gi"})})
    found = rules(result)["quota-at-maximum-replicas"]
    assert "at their maximum need 186Gi, and 100Gi are granted" in found.fact
    assert found.remedy.startswith("Grant 186Gi, or ")


def test_a_number_where_a_text_is_wanted_is_told_to_be_quoted(load: Callable[..., CheckResult]) -> None:
    result = load({**SAMPLES, "vision/defects": changed(DEFECTS, {"artifact/version": 1.1})})
    assert rules(result)["value-wrong-type"].remedy == 'Put it in quotes: "1.1"'


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"vision/defects": changed(DEFECTS, {"name": "defect"})}, "name-is-the-files"),
        ({"vision/tenant": changed(VISION, {"name": "sight"})}, "name-is-the-files"),
        ({"vision/tenant": changed(VISION, {"quota/gpus": {"l4": 6}})}, "quota-at-maximum-replicas"),
        ({"vision/tenant": changed(VISION, {"quota/cpu": "33"})}, "quota-at-maximum-replicas"),
        ({"vision/tenant": changed(VISION, {"runtimes": ["vllm"]})}, "runtime-allowed"),
        ({"assist/tenant": changed(ASSIST, {"quota/tokens": GONE})}, "token-quota-of-language-models"),
        ({"vision/tenant": changed(VISION, {"quota/monthly_budget": "1000 USD"})}, "budget-covers-the-minimum"),
        ({"vision/defects": changed(DEFECTS, {"artifact/uri": "s3://example-models/assist/defects/1/"})}, "artifact-below-the-tenant"),
        ({"vision/defects": changed(DEFECTS, {"artifact/uri": "s3://example-models/assist/vision/1/"})}, "artifact-below-the-tenant"),
        ({"vision/defects": changed(DEFECTS, {"artifact/uri": "s3://vision/x/"})}, "artifact-below-the-tenant"),
        (
            {"vision/embeddings": changed(EMBEDDINGS, {"evaluation/holdout/uri": "artifacts://assist/holdout/1/"})},
            "holdout-below-the-tenant",
        ),
        ({"vision/defects": changed(DEFECTS, {"artifact/uri": "artifacts://teams/vision/defects/1/"})}, "artifact-below-the-tenant"),
        ({"vision/defects": changed(DEFECTS, {"degradation/fallback": {"model": "lite", "priorities": ["normal"]}})}, "fallback-exists"),
        ({"vision/defects": changed(DEFECTS, {"envelope/gpu/memory": "4Gi"})}, "fits-into-gpu-memory"),
        ({"vision/defects": changed(DEFECTS, {"envelope/memory": "3Gi"})}, "fits-into-ram"),
        (
            {"assist/chat": changed(CHAT, {**ADAPTED, "runtime/architecture/intermediate": 8192})},
            "adapters-need-a-dense-model",
        ),
        (
            {"assist/chat": changed(CHAT, {"envelope/gpu/count": 2, "envelope/shared_memory": "1Gi"})},
            "gpus-of-a-replica-share-memory",
        ),
        (
            {"assist/chat": changed(CHAT, {"envelope/gpu/count": 4, "envelope/gpu/accelerator": "l4", "envelope/gpu/memory": "20Gi"})},
            "gpus-of-a-replica-are-joined",
        ),
        ({"assist/chat": changed(CHAT, {"prefill": {**PREFILL, "max_replicas": 1}})}, "prefill-keeps-up"),
        ({"assist/chat": changed(CHAT, {"prefill": {**PREFILL, "max_replicas": 3, "min_replicas": 3}})}, "prefill-has-work"),
        (
            {"assist/chat": changed(CHAT, {"prefill": {**PREFILL, "prompt_tokens": 4800, "max_replicas": 3}})},
            "first-token-after-the-transfer",
        ),
        (
            {
                "assist/chat": changed(
                    CHAT,
                    {
                        "envelope/gpu": L4,
                        "envelope/cpu": "2",
                        "envelope/memory": "10Gi",
                        "envelope/shared_memory": GONE,
                        "placement/pool": "l4",
                        "prefill": {**PREFILL, "gpu": dict(L4), "pool": "l4"},
                    },
                )
            },
            "kv-caches-have-a-network",
        ),
        ({"assist/chat": changed(CHAT, {"prefill": PREFILL})}, "prefill-is-judged-only"),
        ({"assist/chat": changed(CHAT, SPANNING)}, "pipeline-is-judged-only"),
        ({"assist/chat": changed(CHAT, SPANNING)}, "nodes-of-a-replica-are-joined"),
        ({"assist/chat": changed(CHAT, SPANNING)}, "replica-fits-into-a-zone"),
        ({"assist/chat": changed(CHAT, {**SPANNING, "envelope/gpu/count": 4})}, "pipeline-takes-whole-nodes"),
        ({"assist/chat": changed(CHAT, {"prefill": PREFILL})}, "quota-at-maximum-replicas"),
        ({"vision/defects": changed(DEFECTS, {"health/startup_budget": "3m"})}, "startup-within-budget"),
        ({"vision/defects": changed(DEFECTS, {"envelope/gpu/accelerator": "l40s"})}, "pool-offers-the-envelope"),
        ({"vision/defects": changed(DEFECTS, {"placement/pool": "h100"})}, "pool-offers-the-envelope"),
        ({"vision/defects": changed(DEFECTS, {"envelope/cpu": "3500m"})}, "replica-fits-on-a-node"),
        ({"vision/defects": changed(DEFECTS, {"runtime/minimum_driver": "595.10"})}, "driver-new-enough"),
        ({"vision/defects": changed(DEFECTS, {"batch": BATCH})}, "batch-has-a-pool"),
        (
            {"vision/defects": changed(DEFECTS, {"batch": {**BATCH, "store": "s3://example-batch/assist/defects/"}})},
            "batch-store-below-the-tenant",
        ),
        (
            {"vision/defects": changed(DEFECTS, {"batch": {**BATCH, "store": "s3://ledger/assist/chat/events/vision/"}})},
            "batch-store-below-the-tenant",
        ),
        (
            {"vision/defects": changed(DEFECTS, {"batch": {**BATCH, "store": "s3://headway-prod-ledger-333333333333/vision/"}})},
            "batch-store-outside-the-platform",
        ),
        ({"vision/defects": changed(DEFECTS, {"rollout/surge": "surge"})}, "rollout-has-room"),
        ({"vision/defects": changed(DEFECTS, {"scaling/max_replicas": 16})}, "pool-holds-the-maximum"),
        ({"vision/tenant": changed(VISION, {"quota/mig": {"1g.10gb": 5}})}, "blue-green-needs-both"),
        (
            {
                "assist/tenant": changed(ASSIST, {"quota/gpus": {"h100": 1}}),
                "assist/chat": changed(CHAT, {"scaling/max_replicas": 1}),
            },
            "rollout-has-room",
        ),
        ({"vision/defects": changed(DEFECTS, {"artifact/files/0/sha256": "0" * 64})}, "digest-is-real"),
        ({"vision/tenant": changed(VISION, {"quota/monthly_budget": "3000 USD"})}, "budget-may-be-exceeded"),
        (
            {"assist/chat": changed(CHAT, {"slo/0/objective": "99.999%"})},
            "one-replica-and-a-strict-objective",
        ),
    ],
)
def test_contracts_that_do_not_go_together_are_refused(load: Callable[..., CheckResult], change: Tree, rule: str) -> None:
    assert rules(load(SAMPLES)) == {}
    found = rules(load({**SAMPLES, **change}))
    assert rule in found, sorted(found)


@pytest.mark.parametrize(
    ("change", "scarce"),
    [
        ({"vision/tenant": changed(VISION, {"quota/mig": {"1g.10gb": 5}})}, "quota.mig.1g.10gb leaves room for 2 "),
        ({"vision/defects": changed(DEFECTS, {"rollout/surge": "surge"})}, "quota.gpus.l4 leaves room for 3 "),
        (
            {
                "vision/tenant": changed(
                    VISION, {"quota/gpus/l4": 99, "quota/gpu_memory": "9Ti", "quota/cpu": "9000", "quota/memory": "9Ti"}
                ),
                "vision/defects": changed(DEFECTS, {"rollout/surge": "surge", "scaling/max_replicas": 12}),
            },
            "pool l4 leaves room for 3 ",
        ),
    ],
)
def test_a_rollout_without_room_is_told_what_is_scarce(load: Callable[..., CheckResult], change: Tree, scarce: str) -> None:
    found = next(each for rule, each in rules(load({**SAMPLES, **change})).items() if rule in {"blue-green-needs-both", "rollout-has-room"})
    assert found.fact.startswith(scarce), found.fact


def test_no_rule_between_contracts_is_without_a_test() -> None:
    import re

    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "headway/contract/crosscheck").glob("*.py"))
    stated = set(re.findall(r'problem\(\s*"([a-z0-9-]+)"', source))
    assert len(stated) > 15
    tests = Path(__file__).read_text(encoding="utf-8")
    assert [rule for rule in sorted(stated) if f'"{rule}"' not in tests] == []


ON_SPOT = changed(DEFECTS, {"batch": {**BATCH, "store": "batches://vision/models/"}, "artifact/uri": "s3://theirs/vision/models/1/"})


@pytest.mark.parametrize(
    ("bucket", "store", "found"),
    [
        (None, "s3://example-batch/vision/", []),
        (None, "batches://vision/", ["batch-store-has-a-bucket"]),
        ("ours", "batches://vision/models/1/", []),
        ("theirs", "batches://vision/models/1/", ["batch-writes-beside-the-artifact"]),
        ("theirs", "batches://vision/models/", []),
    ],
)
def test_a_store_of_each_environment_needs_a_bucket_apart_from_the_artifact(bucket: str | None, store: str, found: list[str]) -> None:
    model = Model.model_validate(changed(ON_SPOT, {"batch/store": store}))
    assert [each.rule for each in placed(model, bucket, "Pulumi.lab-vision.yaml")] == found


@pytest.mark.parametrize(
    ("bucket", "found"),
    [
        ("s3://models", []),
        ("artifacts:/", []),
        ("s3://headway-lab-artifacts-111111111111", []),
        ("s3://headway-research", []),
        ("s3://headway-prod-telemetry-111111111111", []),
        ("s3://headway-prod-artifacts-111111111111", ["artifact-of-this-environment"]),
        ("s3://headway-lab-artifacts-222222222222", ["artifact-of-this-environment"]),
    ],
)
@pytest.mark.parametrize(("contract", "path"), [(DEFECTS, "artifact.uri"), (EMBEDDINGS, "evaluation.holdout.uri")])
def test_artifacts_of_another_environment_are_not_read(contract: dict[str, Any], path: str, bucket: str, found: list[str]) -> None:
    model = Model.model_validate(changed(contract, {path.replace(".", "/"): f"{bucket}/vision/set/1/"}))
    told = list(of_another_environment(model, "lab", "111111111111"))
    assert ([each.rule for each in told], {each.dotted for each in told}) == (found, {path} if found else set())


@pytest.mark.parametrize(
    ("registry", "found"),
    [
        ("1.dkr.ecr.eu-west-1.amazonaws.com", []),
        ("nvcr.io", ["image-reached-without-nat"]),
        ("1.dkr.ecr.eu-west-1.amazonaws.com.example", ["image-reached-without-nat"]),
    ],
)
def test_without_nat_images_come_from_the_regions_ecr(registry: str, found: list[str]) -> None:
    model = Model.model_validate(changed(DEFECTS, {"runtime/image": f"{registry}/team/server:1@sha256:{'a' * 64}"}))
    assert [each.rule for each in without_nat(model, "eu-west-1")] == found


@pytest.mark.parametrize(
    ("contract", "endpoints", "found"), [(ON_SPOT, {"s3"}, ["batch-queue-in-reach"]), (ON_SPOT, {"s3", "sqs"}, []), (DEFECTS, {"s3"}, [])]
)
def test_without_nat_batch_work_needs_a_way_to_its_queue(contract: dict[str, Any], endpoints: set[str], found: list[str]) -> None:
    assert [each.rule for each in queued_out_of_reach(Model.model_validate(contract), endpoints)] == found


@pytest.mark.parametrize(("eks_endpoint", "without_nat", "refused"), [(True, False, True), (False, True, True), (False, False, False)])
def test_keys_of_the_cluster_itself_have_to_be_reached(eks_endpoint: bool, without_nat: bool, refused: bool) -> None:
    keys = "https://oidc.eks.us-east-1.amazonaws.com/id/0123/keys"
    tenant = Tenant.model_validate(changed(VISION, {"issuers/0/jwks_uri": keys}))
    found = list(keys_in_reach(tenant, eks_endpoint=eks_endpoint, without_nat=without_nat))
    assert [(each.rule, each.value) for each in found] == ([("issuer-keys-in-reach", keys)] if refused else [])
    elsewhere = Tenant.model_validate(VISION)
    assert not list(keys_in_reach(elsewhere, eks_endpoint=eks_endpoint, without_nat=without_nat))


def test_warnings_do_not_refuse(load: Callable[..., CheckResult]) -> None:
    result = load({**SAMPLES, "vision/tenant": changed(VISION, {"quota/monthly_budget": "3000 USD"})})
    assert result.ok
    assert [finding.level for finding in result.findings] == [ProblemLevel.WARNING]


def test_fallbacks_must_not_lead_in_a_circle(load: Callable[..., CheckResult]) -> None:
    to = {"priorities": ["normal"]}
    result = load(
        {
            **SAMPLES,
            "vision/defects": changed(DEFECTS, {"degradation/fallback": {"model": "embeddings", **to}}),
            "vision/embeddings": changed(EMBEDDINGS, {"degradation/reject": ["low"], "degradation/fallback": {"model": "defects", **to}}),
        }
    )
    circle = [finding for finding in result.findings if finding.rule == "fallback-without-a-circle"]
    assert [finding.file for finding in circle] == ["vision/defects.yaml", "vision/embeddings.yaml"]
    assert "defects -> embeddings -> defects" in circle[0].fact


def test_a_fallback_must_understand_the_same_requests(load: Callable[..., CheckResult]) -> None:
    result = load(
        {
            "assist/tenant": changed(
                ASSIST, {"runtimes": ["vllm", "triton"], "quota/gpus": {"h100": 4, "l4": 9}, "quota/gpu_memory": "1Ti"}
            ),
            "assist/chat": changed(CHAT, {"degradation/fallback": {"model": "defects", "priorities": ["normal"]}}),
            "assist/defects": changed(DEFECTS, {"artifact/uri": "s3://example-models/assist/defects/1/"}),
        }
    )
    assert set(rules(result)) == {"fallback-speaks-the-same"}


def test_an_online_service_named_onto_a_spot_pool_is_refused(load: Callable[..., CheckResult]) -> None:
    spot = pool(L4_POOL, name="spot", workload_class="batch", capacity={"kind": "spot"})
    result = load({**SAMPLES, "vision/defects": changed(DEFECTS, {"placement/pool": "spot"})}, pools=(*POOLS, spot))
    assert "online-never-on-spot" in rules(result)


def test_a_batch_variant_finds_its_spot_pool(load: Callable[..., CheckResult]) -> None:
    spot = pool(L4_POOL, name="spot", workload_class="batch", capacity={"kind": "spot"})
    assert "batch-has-a-pool" not in rules(load({**SAMPLES, "vision/defects": changed(DEFECTS, {"batch": BATCH})}, pools=(*POOLS, spot)))


def test_a_fallback_whose_contract_is_refused_is_not_called_missing(load: Callable[..., CheckResult]) -> None:
    result = load(
        {
            **SAMPLES,
            "vision/defects": changed(DEFECTS, {"degradation/fallback": {"model": "embeddings", "priorities": ["normal"]}}),
            "vision/embeddings": changed(EMBEDDINGS, {"owner": 1}),
        }
    )
    assert set(rules(result)) == {"value-wrong-type"}


def test_quotas_are_judged_even_while_another_contract_is_refused(load: Callable[..., CheckResult]) -> None:
    result = load({**SAMPLES, "vision/tenant": changed(VISION, {"quota/gpus": {}}), "vision/embeddings": "{"})
    assert {"document-syntax", "quota-at-maximum-replicas"} <= set(rules(result))


def test_a_tenant_has_at_most_25_models(load: Callable[..., CheckResult]) -> None:
    tree: Tree = {
        "vision/tenant": changed(
            VISION, {"quota/gpus": {"l4": 1000}, "quota/gpu_memory": "100Ti", "quota/cpu": "9000", "quota/memory": "9Ti"}
        )
    }
    for number in range(26):
        name = f"m{number}"
        tree[f"vision/{name}"] = changed(DEFECTS, {"name": name})
    assert set(rules(load(tree, pools=None))) == {"models-at-most", "budget-covers-the-minimum"}


def test_without_pools_it_says_what_it_did_not_check(load: Callable[..., CheckResult]) -> None:
    result = load(SAMPLES, pools=None)
    assert result.ok
    assert any("the GPU pools are not known" in note for note in result.notes)
    assert load(SAMPLES).notes == ()


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("vision/defects.yml", "folder-layout"),
        ("stray.yaml", "folder-layout"),
        ("vision/deep/model.yaml", "folder-layout"),
        ("empty/.keep", "tenant-has-a-contract"),
    ],
)
def test_misplaced_files_are_refused_and_not_ignored(tmp_path: Path, load: Callable[..., CheckResult], name: str, rule: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("x: 1\n", encoding="utf-8")
    assert rule in rules(load(SAMPLES))


def test_notes_and_hidden_files_are_ignored(tmp_path: Path, load: Callable[..., CheckResult]) -> None:
    load(SAMPLES)
    (tmp_path / "README.md").write_text("x", encoding="utf-8")
    (tmp_path / "vision" / ".swp").write_text("x", encoding="utf-8")
    assert load(SAMPLES).findings == ()


def test_links_pipes_and_folders_are_refused_and_never_waited_for(tmp_path: Path, load: Callable[..., CheckResult]) -> None:
    load(SAMPLES)
    (tmp_path / "vision" / "link.yaml").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "vision" / "pipe.yaml")
    (tmp_path / "vision" / "folder.yaml").mkdir()
    result = load_tenants(tmp_path, POOLS)
    assert sorted((f.file, f.rule) for f in result.findings) == [
        ("vision/folder.yaml", "folder-layout"),
        ("vision/link.yaml", "file-readable"),
        ("vision/pipe.yaml", "file-readable"),
    ]


def test_names_that_are_no_text_are_shown_and_refused(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    os.close(os.open(os.fsencode(folder) + b"/\xff\x1b[31m.yaml", os.O_CREAT | os.O_WRONLY))
    for finding in load_tenants(tmp_path).findings:
        assert finding.file.isprintable()
        finding.file.encode("utf-8")


def test_a_file_with_thousands_of_mistakes_shows_the_first_and_counts_the_rest(tmp_path: Path) -> None:
    (tmp_path / "vision").mkdir()
    (tmp_path / "vision" / "tenant.yaml").write_text("".join(f"k{number}: 1\n" for number in range(3000)))
    result = load_tenants(tmp_path)
    assert not result.ok
    assert len(result.findings) == 201
    (rest,) = (finding for finding in result.findings if finding.rule == "more-findings")
    assert rest.fact.startswith("2,8"), "3,000 unknown fields and the missing ones, less those shown"


def test_misspellings_are_looked_up_for_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def close(word: str, *_: Any) -> list[str]:
        asked.append(word)
        return []

    monkeypatch.setattr("difflib.get_close_matches", close)
    (tmp_path / "acme").mkdir()
    keys = [f"k{number}" for number in range(3000)]
    (tmp_path / "acme" / "tenant.yaml").write_text("".join(f"{key}: 1\n" for key in keys), encoding="utf-8")
    load_tenants(tmp_path)
    assert 150 < len(asked) <= 200
    assert set(asked) <= set(keys)


def test_a_missing_folder_is_a_problem(tmp_path: Path) -> None:
    assert set(rules(load_tenants(tmp_path / "gone"))) == {"folder-readable"}


def test_a_tenants_folder_that_cannot_be_read_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vision").mkdir()
    real = Path.iterdir

    def closed(path: Path) -> Iterator[Path]:
        if path.name == "vision":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr("pathlib.Path.iterdir", closed)
    assert set(rules(load_tenants(tmp_path))) == {"folder-readable"}


@pytest.mark.parametrize("engine", list(Engine))
def test_starters_pass_check_with_nothing_but_placeholders_to_replace(load: Callable[..., CheckResult], engine: Engine) -> None:
    result = load({"acme/tenant": tenant_starter("acme"), "acme/first": model_starter("acme", "first", engine)})
    assert result.ok
    assert set(rules(result)) == {"digest-is-real"}


def test_starters_of_all_runtimes_fit_into_the_starters_quota(load: Callable[..., CheckResult]) -> None:
    tree = {
        "acme/tenant": tenant_starter("acme"),
        **{f"acme/m-{engine}": model_starter("acme", f"m-{engine}", engine) for engine in Engine},
    }
    assert load(tree).ok


def test_custom_containers_are_judged_by_the_same_rules(load: Callable[..., CheckResult]) -> None:
    result = load({**SAMPLES, "vision/custom": CUSTOM})
    assert "runtime-allowed" in rules(result), "the tenant has not been allowed the escape hatch"


def test_a_stack_file_without_pools_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x-cluster.yaml"
    file.write_text("config:\n  headway:network: {}\n", encoding="utf-8")
    pools, found = pools_of(file)
    assert pools == ()
    assert [finding.rule for finding in found] == ["environment-has-pools"]


def test_a_wrong_pool_is_placed_in_the_stack_file(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x-cluster.yaml"
    file.write_text(
        yaml.safe_dump({"config": {"headway:pools": [L4_POOL, changed(MIG_POOL, {"efa": "yes"})]}}, sort_keys=False), encoding="utf-8"
    )
    _, (finding,) = pools_of(file)
    assert finding.dotted == "pools[1].efa"
    assert file.read_text().splitlines()[finding.line - 1].strip() == "efa: 'yes'"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("tenant.yaml", "jwks_uri: https://", "jwks_uri: ftp://me:hunter2-secret@"),
        ("tenant.yaml", "jwks_uri: https://", "jwks_uri: https://me:hunter2-secret@"),
        ("tenant.yaml", "jwks_uri: https://", "jwks_uri: 'https://x/?token=hunter2-secret' # "),
        ("tenant.yaml", "jwks_uri: https://", "'https://me:hunter2-secret@x': https://"),
        ("defects.yaml", "uri: ", "uri: https://hunter2-secret@s3.example.com/ # "),
        ("defects.yaml", "uri: ", "uri: s3://b/x/?X-Amz-Signature=hunter2-secret # "),
        ("defects.yaml", "uri: ", f"uri: https://me:hunter2-secret{'x' * 200}@s3.example.com/ # "),
        ("defects.yaml", "owner: ", "owner: ['Bearer hunter2-secret'] # "),
    ],
)
def test_what_is_wrong_with_a_secret_in_it_is_said_without_the_secret(tmp_path: Path, name: str, old: str, new: str) -> None:
    folder = tmp_path / "vision"
    shutil.copytree(Path(__file__).parents[3] / "tenants" / "vision", folder)
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    found = load_tenant(folder).findings
    assert found and "hunter2-secret" not in "\n".join(map(str, found))
