"""Files of a repository: contracts, stack files, exemptions, lists of objects to adopt."""

import json
from pathlib import Path

import yaml

from headway.capacity.described import described
from headway.cli.certificate import _hosts  # pyright: ignore[reportPrivateUsage]
from headway.cli.loops import with_image
from headway.contract.reading.artifact_section import with_artifact
from headway.contract.reading.document import read, read_file
from headway.contract.reading.loader import load_tenant
from headway.contract.reading.network import closed_network
from headway.contract.reading.pools import pools_of
from headway.contract.reading.tenants import batch_bucket_of
from headway.environment.checkout import region_of
from headway.environment.trusted import trusted
from headway.problem import UserError
from policies.guardrails import exemptions
from stacks.adoption import adopted
from stacks.settings import config_of, load
from stacks.settings_error import SettingsError
from tests.contract_samples import H100_POOL, L4_POOL, MIG_POOL, TENANTS, pool
from tests.fuzz.parser import FuzzedParser, file_of, texts

STACKS = Path(__file__).parents[2] / "stacks"
POOLS = (pool(L4_POOL), pool(MIG_POOL), pool(H100_POOL))
VISION = {path.name: path.read_bytes() for path in sorted((TENANTS / "vision").glob("*.yaml"))}


def _stack(layer: str) -> bytes:
    return (STACKS / f"Pulumi.prod-{layer}.yaml").read_bytes()


def _both(text: bytes) -> tuple[bytes, bytes]:
    """As it was written, and as JSON, which is YAML too."""
    return text, json.dumps(yaml.safe_load(text)).encode()


def _tenants(data: bytes, name: str) -> None:
    for file, text in VISION.items():
        if file in ("tenant.yaml", name):
            file_of(data if file == name else text, f"vision/{file}")
    found = load_tenant(file_of(data, f"vision/{name}").parent, POOLS)
    for each in found.findings:
        assert each.fact and each.consequence and each.remedy
        str(each).encode()
    assert found.contracts or found.findings


def _described(data: bytes) -> None:
    project = file_of(data, "stacks/Pulumi.prod-cluster.yaml").parents[1]
    described(project, "prod-cluster")


def _values(data: bytes) -> None:
    """Single values that other commands take out of a stack file."""
    file = file_of(data, "stacks/Pulumi.prod-vision.yaml")
    closed_network(read_file(file))
    batch_bucket_of("prod", "vision", file.parent)
    pools_of(file)


def _region(data: bytes) -> None:
    region_of(file_of(data, "stacks/Pulumi.prod-cluster.yaml").parents[1], "prod")


def _settings(data: bytes, layer: str) -> None:
    for other in ("access", "cluster", "platform"):
        file_of(_stack(other), f"layers/Pulumi.prod-{other}.yaml")
    file = file_of(data, f"layers/Pulumi.prod-{layer}.yaml")
    config = config_of(file.parent, "prod", layer)
    load(f"prod-{layer}", {str(key): json.dumps(value, default=str) for key, value in config.items()}, file.parent)


def _artifact(data: bytes) -> None:
    with_artifact(data.decode(errors="replace"), "s3://models/vision/x/", "7", ["files: []"])


def _image(data: bytes) -> None:
    with_image(data.decode(errors="replace"), "r.example/headway:1@sha256:" + "a" * 64, "Pulumi.prod-platform.yaml")


PARSERS = (
    FuzzedParser(
        name="yaml-document",
        rooms=("headway/contract/reading/document.py",),
        read=lambda data: read(data, "x.yaml"),
        seeds=texts("a: [1, 2.5, yes, null]\nb: {c: 'x', d: \"\\x41\"}\n", "%YAML 1.2\n---\n? a\n: &b !!str c\n", *VISION.values()),
    ),
    FuzzedParser(
        name="model-contract",
        rooms=("headway/contract/reading/loader.py", "headway/contract/reading/validation.py", "headway/contract/units.py"),
        read=lambda data: _tenants(data, "defects.yaml"),
        seeds=_both(VISION["defects.yaml"]),
    ),
    FuzzedParser(
        name="tenant-contract",
        rooms=("headway/contract/reading/loader.py", "headway/contract/tenant.py"),
        read=lambda data: _tenants(data, "tenant.yaml"),
        seeds=_both(VISION["tenant.yaml"]),
    ),
    FuzzedParser(
        name="artifact-section",
        rooms=("headway/contract/reading/artifact_section.py",),
        read=_artifact,
        refuses=(UserError,),
        seeds=texts(VISION["defects.yaml"], "artifact:\n  registry: {model: a, version: 2026-01-01}\n"),
    ),
    FuzzedParser(
        name="stack-file-values",
        rooms=("headway/contract/reading/pools.py", "headway/contract/reading/network.py", "headway/contract/reading/tenants.py"),
        read=_values,
        seeds=_both(_stack("cluster")),
    ),
    FuzzedParser(
        name="stack-file-described",
        rooms=("headway/capacity/described.py",),
        read=_described,
        refuses=(UserError,),
        seeds=_both(_stack("cluster")),
    ),
    FuzzedParser(
        name="stack-file-region",
        rooms=("headway/environment/checkout.py",),
        read=_region,
        refuses=(UserError,),
        seeds=texts("config:\n  headway:account: {id: '1', region: us-west-2}\n", {"config": {"headway:account": {"region": "x"}}}),
    ),
    FuzzedParser(
        name="stack-file-principals",
        rooms=("headway/environment/trusted.py",),
        read=lambda data: trusted(file_of(data, "Pulumi.prod-access.yaml")),
        seeds=_both(_stack("access")),
    ),
    FuzzedParser(
        name="stack-file-hosts",
        rooms=("headway/cli/certificate.py",),
        read=lambda data: _hosts(file_of(data, "Pulumi.prod-platform.yaml")),
        refuses=(UserError,),
        seeds=texts({"config": {"headway:gateway": {"hosts": ["a.example"]}}}, "config: {headway:gateway: {hosts: [2026-01-01]}}"),
    ),
    FuzzedParser(
        name="stack-file-image",
        rooms=("headway/cli/loops.py",),
        read=_image,
        refuses=(UserError,),
        seeds=texts("config:\n  headway:loops:\n    # its own\n    image: x\n    a: [1]\n"),
    ),
    *(
        FuzzedParser(
            name=f"settings-of-{layer}",
            rooms=("stacks/settings.py", "stacks/settings_error.py"),
            read=lambda data, of=layer: _settings(data, of),
            refuses=(SettingsError,),
            seeds=_both(_stack(layer)),
        )
        for layer in ("access", "cluster", "platform", "vision")
    ),
    FuzzedParser(
        name="adopted-objects",
        rooms=("stacks/adoption.py",),
        read=lambda data: adopted(file_of(data, "prod-cluster.json")),
        refuses=(SettingsError,),
        seeds=texts({"resources": [{"type": "aws:s3/bucket:Bucket", "name": "x", "id": "y", "inputs": {"bucket": "z"}}]}),
    ),
    FuzzedParser(
        name="exemptions",
        rooms=("policies/guardrails/exemptions.py",),
        read=lambda data: exemptions.load(file_of(data, "exemptions.yaml"), ["bucket-encrypted-by-key", "ledger-written-by-prefix"]),
        refuses=(ValueError,),
        seeds=texts(
            exemptions.EXEMPTIONS_FILE.read_bytes(),
            [{"rule": "bucket-encrypted-by-key", "resource": "*", "owner": "a", "reason": "b", "expires": "2027-11-30"}],
        ),
    ),
)
