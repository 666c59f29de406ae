"""The arrows of the architecture: each contract of the import check holds, and fails on an import in the wrong direction."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from importlinter import configuration
from importlinter.application import use_cases
from importlinter.application.user_options import UserOptions

PROJECT = Path(__file__).parents[3]
PRODUCT = ("headway", "components", "stacks", "policies")

LAYERS = "Headway stands on its ground: roof, what acts over time, port, ledger, vocabulary"
CONTRACTS = "Contracts are read by rules, rules are written against the schema"
HOUSES = "The houses stand in one order: measurements, sandbox, product, vocabulary"
ALONE = "The product knows neither the sandbox nor the embedded engine"
PROGRAM = "What acts over time never imports the program that it runs"
PACKS = "Only the command line lists the rules of the policy packs"
GROUND = "The program knows the ground and the ledger, and nothing that acts over time"
POLICIES = "Policies know contracts, problems and names on the wire, and nothing else"
PULUMI = "Only the environment's stacks speak to Pulumi"
KUBERNETES = "Only one module speaks to Kubernetes"
ENGINE = "The embedded engine knows nobody"
COMPONENTS = "Components stand on one another in one direction"

PLANTED = [
    ("headway.contract.rules", "headway.contract.model", CONTRACTS),
    ("headway.contract.arithmetic", "headway.contract.crosscheck", CONTRACTS),
    ("headway.release", "headway.cli", LAYERS),
    ("headway.release", "headway.node_health", LAYERS),
    ("headway.node_health", "headway.release", LAYERS),
    ("headway.artifact_cache", "headway.capacity", LAYERS),
    ("headway.environment", "headway.release", LAYERS),
    ("headway.ledger", "headway.environment", LAYERS),
    ("headway.signals", "headway.ledger", LAYERS),
    ("headway.contract", "headway.signals", LAYERS),
    ("headway.problem", "headway.contract", LAYERS),
    ("headway.wire", "headway.listening", LAYERS),
    ("sandbox", "benchmarks", HOUSES),
    ("components.naming", "stacks", HOUSES),
    ("headway.ledger", "components.naming", HOUSES),
    ("headway.cli", "sandbox", ALONE),
    ("components.naming", "sandbox", ALONE),
    ("stacks", "pulumi_embedded", ALONE),
    ("policies", "sandbox", ALONE),
    ("headway.environment", "pulumi_embedded", ALONE),
    ("headway.cli", "components.naming", PROGRAM),
    ("headway.release", "stacks", PROGRAM),
    ("headway.release", "policies", PACKS),
    ("components.naming", "policies", PACKS),
    ("components.naming", "headway.release", GROUND),
    ("stacks", "headway.environment", GROUND),
    ("policies", "headway.cli", GROUND),
    ("policies", "headway.ledger", POLICIES),
    ("policies", "headway.signals", POLICIES),
    ("policies", "components.naming", POLICIES),
    ("headway.contract", "pulumi", PULUMI),
    ("headway.release", "pulumi_kubernetes", PULUMI),
    ("headway.node_health", "kubernetes", KUBERNETES),
    ("pulumi_embedded", "headway.problem", ENGINE),
    ("pulumi_embedded", "sandbox", ENGINE),
    ("components.naming", "components.addons", COMPONENTS),
    ("components.tenant", "components.model_service", COMPONENTS),
]


@cache
def options() -> UserOptions:
    configuration.configure()
    found = use_cases.read_user_options(config_filename=str(PROJECT / "pyproject.toml"))
    use_cases._register_contract_types(found)
    return found


@cache
def graph() -> Any:
    session = options().session_options
    return use_cases._build_graph(session["root_packages"], True, False, False, None)


def broken(planted: tuple[str, str] | None, *names: str) -> set[str]:
    """Contracts, all or those of these names, that do not hold once one module also imports another."""
    found = deepcopy(graph())
    if planted:
        for module in planted:
            if module not in found.modules:
                assert module in ("pulumi", "pulumi_kubernetes", "kubernetes"), f"{module} is not there any more: plant another"
                found.add_module(module, is_squashed=True)
        found.add_import(importer=planted[0], imported=planted[1], line_number=1, line_contents="planted")
    chosen = [each for each in options().contracts_options if not names or each["name"] in names]
    assert len(chosen) == len(names) or not names, f"there is no contract of the name {names}"
    checked = UserOptions(session_options=options().session_options, contracts_options=chosen)
    report = use_cases._build_report(found, 0, checked, (), False, False)
    return {contract.name for contract, check in report.get_contracts_and_checks() if not check.kept}


def sources() -> Iterator[Path]:
    for house in PRODUCT:
        yield from sorted((PROJECT / house).rglob("*.py"))


def test_every_contract_of_the_import_check_holds() -> None:
    assert broken(None) == set()


@pytest.mark.parametrize(("importer", "imported", "contract"), PLANTED)
def test_an_import_in_the_wrong_direction_breaks_its_contract(importer: str, imported: str, contract: str) -> None:
    assert broken((importer, imported), contract) == {contract}


def test_a_wrong_import_is_planted_for_every_contract() -> None:
    assert {contract for _, _, contract in PLANTED} == {each["name"] for each in options().contracts_options}


def test_the_check_reads_an_import_that_is_hidden_in_a_function(tmp_path: Path) -> None:
    for house in (*PRODUCT, "sandbox", "benchmarks"):
        shutil.copytree(PROJECT / house, tmp_path / house, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PROJECT / "packages/pulumi-embedded/src/pulumi_embedded", tmp_path / "pulumi_embedded")
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    with (tmp_path / "headway" / "release" / "plan.py").open("a") as module:
        module.write("\n\ndef planted() -> object:\n    from sandbox.layout import Layout\n\n    return Layout\n")
    command = [
        sys.executable,
        "-P",
        "-c",
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as run; run()",
    ]
    ended = subprocess.run([*command, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "headway.release.plan -> sandbox.layout" in ended.stdout


@pytest.mark.parametrize(
    "words",
    [r"\bkwok\b", r"sandbox\.platform\.io", r"HEADWAY_SANDBOX", r"^\s*(from|import) sandbox\b", r"^\s*(from|import) pulumi_embedded\b"],
)
def test_no_source_of_the_product_names_a_part_of_the_sandbox(words: str) -> None:
    wrong = re.compile(words, re.IGNORECASE | re.MULTILINE)
    assert [str(file.relative_to(PROJECT)) for file in sources() if wrong.search(file.read_text(encoding="utf-8"))] == []
