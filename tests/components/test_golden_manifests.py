"""The sample contracts' objects as text: a change of what is rendered shows up in review as a diff of YAML.

After a wanted change: `HEADWAY_UPDATE_GOLDEN=1 pytest tests/components/test_golden_manifests.py`, then read the
difference.
"""

from typing import Any

import pytest
import yaml

from components.manifests import Manifest
from components.model_service.manifests import ServicePlan
from components.tenant.manifests import TenantPlan
from headway.contract.arithmetic.surge import pool_for
from headway.contract.model import Model
from headway.contract.released import release_id
from tests.components import golden
from tests.components.contracts import POOLS, SURROUNDINGS, document, tenant

SCRIPTS = ("fetch.py", "probe.py", "relay.py")
SAMPLES = (("assist", "chat"), ("vision", "defects"), ("vision", "embeddings"))
FULL = ("vision", "defects")
"""The sample that is recorded in full; of the others, what they do differently."""


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def written(manifests: tuple[Manifest, ...]) -> str:
    """One document an object. Scripts are left out (they have tests of their own), and so is the digest that they
    enter.
    """
    bodies = [dict(manifest.body) for manifest in manifests]
    names: dict[str, str] = {}
    for body in bodies:
        if body["kind"] == "ConfigMap" and body.get("immutable"):
            name = body["metadata"]["name"]
            names[name] = name.rpartition("-")[0] + "-<digest>"
            body["data"] = {key: "<script>" if key in SCRIPTS else value for key, value in body["data"].items()}
    text = yaml.dump_all(bodies, Dumper=_Dumper, sort_keys=False, width=150, allow_unicode=True)
    for name, shown in names.items():
        text = text.replace(name, shown)
    return text


def sample(tenant_name: str, name: str) -> tuple[Manifest, ...]:
    model = Model.model_validate(document(tenant_name, name))
    pool = pool_for(model, POOLS)
    assert pool is not None
    return ServicePlan.of(tenant_name, model, pool, SURROUNDINGS).manifests()


def names(tenant_name: str, name: str) -> dict[str, str]:
    """What is another name in every sample: its own, its tenant's and its release's."""
    return {"tenant": tenant_name, "model": name, "release": release_id(Model.model_validate(document(tenant_name, name)))}


@pytest.mark.parametrize(("tenant_name", "name"), SAMPLES)
def test_a_sample_service_is_rendered_as_recorded(tenant_name: str, name: str) -> None:
    text = written(sample(tenant_name, name))
    if (tenant_name, name) == FULL:
        return golden.compare(f"{tenant_name}-{name}.yaml", text)
    full, other = golden.named(written(sample(*FULL)), names(*FULL)), golden.named(text, names(tenant_name, name))
    found = golden.difference(golden.objects(full), golden.objects(other), names(tenant_name, name), ordered=True)
    return golden.compare(f"{tenant_name}-{name}.txt", found)


@pytest.mark.parametrize("name", ["assist", "vision"])
def test_a_sample_tenant_is_rendered_as_recorded(name: str) -> None:
    text = written(sample_tenant(name))
    if name == FULL[0]:
        return golden.compare(f"{name}-tenant.yaml", text)
    full, other = golden.named(written(sample_tenant(FULL[0])), {"tenant": FULL[0]}), golden.named(text, {"tenant": name})
    found = golden.difference(golden.objects(full), golden.objects(other), {"tenant": name}, ordered=True)
    return golden.compare(f"{name}-tenant.txt", found)


def sample_tenant(name: str) -> tuple[Manifest, ...]:
    models = tuple(Model.model_validate(document(name, model)) for owner, model in SAMPLES if owner == name)
    return TenantPlan(tenant=tenant(name), models=models, pools=POOLS, surroundings=SURROUNDINGS).manifests()


def test_rendering_twice_gives_the_same_text() -> None:
    assert written(sample("vision", "defects")) == written(sample("vision", "defects"))
