"""The rooms that decide, each with the tests that must notice when it decides otherwise."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Room:
    """Files of which mutants are made, as patterns, and what pytest is asked to run against each."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()
    """Tests that are left out: they read the source as a text, where all mutants of a function stand side by side, or take too long."""


ROOMS = {
    "arithmetic": Room(
        ("headway/contract/arithmetic/*.py",),
        (
            "tests/unit/contract",
            "tests/unit/test_monthly_cost.py",
            "tests/components/observability/test_sizing.py",
            "tests/components/platform/test_capacity.py",
        ),
    ),
    "contract rules": Room(
        ("headway/contract/rules/*.py",),
        ("tests/unit/contract",),
        without=("tests/unit/contract/test_contract_rules.py::test_no_rule_is_without_a_test",),
    ),
    "gate": Room(
        ("headway/release/gate/*.py",),
        ("tests/unit/release/gate",),
        # They take half of its tests' time, and kept gates have sources of their own.
        without=(
            "tests/unit/release/gate/test_gate_predecessors.py",
            "tests/unit/release/gate/test_release_gate_faults.py",
            "tests/unit/release/gate/test_release_gate_clusters.py",
        ),
    ),
    # A state machine that fails looks for its shortest failure, for minutes.
    "ledger": Room(
        ("headway/ledger/*.py",),
        ("tests/unit/ledger",),
        without=("tests/unit/ledger/test_adversary.py",),
    ),
    "guard and planner": Room(
        ("headway/release/guard.py", "headway/release/plan.py", "headway/release/driver/rollout_state.py"),
        (
            "tests/components/platform/test_release_guard.py",
            "tests/unit/release/report",
            *(
                f"tests/unit/release/driver/test_{name}.py"
                for name in ("rollout_state", "live_service", "deployed_service", "release_watched")
            ),
            *(f"tests/unit/release/test_release_{name}.py" for name in ("plan", "adversary", "accept", "bind", "experiment", "strangers")),
        ),
    ),
    "admission": Room(
        ("components/platform/admission.py", "components/tenant/admission.py", "policies/guardrails/admission.py"),
        ("tests/components/platform", "tests/components/tenant", "tests/components/test_golden_manifests.py", "tests/policies"),
    ),
    "policies": Room(("policies/guardrails/*.py",), ("tests/policies", "tests/unit/policies")),
}


def drawn(names: Iterable[str], count: int, seed: int) -> list[str]:
    """As many of the mutants by chance, all where there are no more; the same for the same seed."""
    every = sorted(names)
    return sorted(Random(seed).sample(every, min(count, len(every))))


def changes_words_only(difference: str) -> bool:
    """Whether a unified diff changes one line in nothing but the letters' case, or in mutmut's XX around a text, of a text of
    several words: a single one may be a key.

    Most such mutants change what people read. They are counted, and shown apart.
    """
    lines = [line for line in difference.splitlines() if not line.startswith(("---", "+++", "@@", "#"))]
    before = "".join(line[1:] for line in lines if line.startswith("-"))
    after = "".join(line[1:] for line in lines if line.startswith("+"))
    same = before.casefold() == after.replace("XX", "").casefold()
    return same and any(" " in old for old, new in zip(re.split("['\"]", before), re.split("['\"]", after), strict=True) if old != new)
