"""Tenants by environment: who has whom stands in stack files, and every environment of this repository is in order."""

from pathlib import Path

import pytest

from headway.contract.reading.loader import load_tenants
from headway.contract.reading.pools import pools_of
from headway.contract.reading.tenants import folder_missing, tenants_of

ROOT = Path(__file__).parents[3]
STACKS, TENANTS = ROOT / "stacks", ROOT / "tenants"
ENVIRONMENTS = sorted(file.name.split(".")[1].removesuffix("-cluster") for file in STACKS.glob("Pulumi.*-cluster.yaml"))


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_tenants_of_every_environment_are_accepted_without_a_warning(environment: str) -> None:
    pools, refused = pools_of(STACKS / f"Pulumi.{environment}-cluster.yaml")
    assert (refused, tuple(folder_missing(environment, STACKS, TENANTS))) == ((), ())
    only = tenants_of(environment, STACKS)
    result = load_tenants(TENANTS, pools, only=only)
    assert result.findings == ()
    assert [each.tenant.name for each in result.contracts] == only
    assert only, "an environment without a tenant answers nobody"


def test_every_tenant_of_this_repository_is_in_some_environment() -> None:
    somewhere = {tenant for environment in ENVIRONMENTS for tenant in tenants_of(environment, STACKS)}
    assert somewhere == {folder.name for folder in TENANTS.iterdir() if folder.is_dir()}


def test_dev_needs_one_l4_and_no_other_gpu() -> None:
    (contracts,) = load_tenants(TENANTS, only=tenants_of("dev", STACKS)).contracts
    (model,) = contracts.models
    assert (model.envelope.gpu.accelerator, model.envelope.gpu.count, model.scaling.max_replicas) == ("l4", 1, 1)


def test_only_a_stack_file_makes_a_folder_a_tenant_of_an_environment(tmp_path: Path) -> None:
    for name in ("Pulumi.lab-cluster.yaml", "Pulumi.lab-platform.yaml", "Pulumi.lab-ours.yaml", "Pulumi.other-theirs.yaml"):
        (tmp_path / name).touch()
    assert tenants_of("lab", tmp_path) == ["ours"]
    assert load_tenants(TENANTS, only=["hello"]).left_out == ("assist", "vision")


def test_a_stack_file_without_a_tenants_folder_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.lab-ours.yaml").touch()
    (found,) = folder_missing("lab", tmp_path, tmp_path)
    assert (found.rule, found.file) == ("stack-has-a-tenant", "Pulumi.lab-ours.yaml")
