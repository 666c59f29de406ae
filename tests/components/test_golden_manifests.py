"""The sample contracts' objects as text: a change of what is rendered shows up in review as a diff of YAML.

After a deliberate change: `HEADWAY_WRITE_GOLDEN=1 pytest tests/components/test_golden_manifests.py`, then read the diff.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.manifests import Manifest
from components.model_service.manifests import Service
from components.tenant.manifests import Plan
from headway.contract.arithmetic.surge import pool_for
from headway.contract.model import Model
from tests.components.contracts import POOLS, SURROUNDINGS, document, tenant

GOLDEN = Path(__file__).parents[1] / "golden"
SCRIPTS = ("fetch.py", "probe.py", "relay.py")
SAMPLES = (("assist", "chat"), ("vision", "defects"), ("vision", "embeddings"))


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def written(manifests: tuple[Manifest, ...]) -> str:
    """One document an object. Scripts are left out (they have tests of their own), and so is the digest that they enter."""
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
    return Service.of(tenant_name, model, pool, SURROUNDINGS).manifests()


def compare(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("HEADWAY_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs: read the diff, and if it is meant, write it anew (see this file's head)"


@pytest.mark.parametrize(("tenant_name", "name"), SAMPLES)
def test_a_sample_service_is_rendered_as_recorded(tenant_name: str, name: str) -> None:
    compare(f"{tenant_name}-{name}", written(sample(tenant_name, name)))


@pytest.mark.parametrize("name", ["assist", "vision"])
def test_a_sample_tenant_is_rendered_as_recorded(name: str) -> None:
    models = tuple(Model.model_validate(document(name, model)) for owner, model in SAMPLES if owner == name)
    plan = Plan(tenant=tenant(name), models=models, pools=POOLS, surroundings=SURROUNDINGS)
    compare(f"{name}-tenant", written(plan.manifests()))


def test_rendering_twice_gives_the_same_text() -> None:
    assert written(sample("vision", "defects")) == written(sample("vision", "defects"))
