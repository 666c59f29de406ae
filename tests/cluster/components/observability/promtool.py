"""Rules and queries judged by the real promtool."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sandbox.cluster.toolchain import Toolchain

STEP_SECONDS = 15
MINUTE = 60 // STEP_SECONDS


def judge(
    toolchain: Toolchain,
    folder: Path,
    tests: Sequence[Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]] = (),
    every_seconds: int = STEP_SECONDS,
) -> str:
    """What `promtool test rules` has against `tests` and the rules of `groups`; empty when all pass. `every_seconds`: when it evaluates all groups,
    for it knows no group's own interval (prometheus/prometheus, cmd/promtool/unittest.go)."""
    rules, cases = folder / "rules.yml", folder / "cases.yml"
    rules.write_text(yaml.safe_dump({"groups": list(groups)}))
    document = {
        "rule_files": [rules.name],
        "evaluation_interval": f"{every_seconds}s",
        "fuzzy_compare": True,
        "tests": [dict(test) for test in tests],
    }
    cases.write_text(yaml.safe_dump(document, sort_keys=False, width=10_000))
    done = subprocess.run(
        [str(toolchain.binary("promtool")), "test", "rules", cases.name], cwd=folder, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def series(name: str, labels: Mapping[str, str], values: str) -> dict[str, str]:
    """One input series; `values` in promtool's notation, a value every fifteen seconds from time 0."""
    text = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    return {"series": f"{name}{{{text}}}", "values": values}


def answers(expression: str, at: str, value: float | None) -> dict[str, Any]:
    """The query answers one number without labels at a time, or nothing."""
    return {"expr": expression, "eval_time": at, "exp_samples": [] if value is None else [{"labels": "{}", "value": value}]}
