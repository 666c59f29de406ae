"""What the demonstration of a language model waits for, what it says where that does not come, and how it is asked."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.problem import UserError
from sandbox.layout import Layout
from sandbox.traffic import demo, language_questions, language_trials, profile
from sandbox.traffic.profile import LANGUAGE


def waits(monkeypatch: pytest.MonkeyPatch, folder: Path, *looks: list[dict[str, Any]]) -> None:
    """Wait while the API server answers these statuses of pods in turn, the last one for ever."""
    answers = list(looks)

    class Cluster:
        def __init__(self, _: Path) -> None: ...

        def get(self, _: str) -> dict[str, Any]:
            found = answers.pop(0) if len(answers) > 1 else answers[0]
            return {"items": [{"status": status} for status in found]}

    monkeypatch.setattr(language_trials, "Kube", Cluster)
    language_trials.await_ready(Layout(project=folder, state=folder, cache=folder), sleep=lambda _: None, within=0.3)


def ready(value: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": value}]}


def test_it_waits_until_every_pod_is_ready(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    waits(monkeypatch, tmp_path, [], [ready("False")], [ready("True")])


def test_a_pod_that_the_node_refuses_ends_the_wait_with_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--tensor-parallel-size=2 is not run"):
        waits(monkeypatch, tmp_path, [{"reason": "NotServed", "message": "--tensor-parallel-size=2 is not run on a CPU"}])


def test_one_that_does_not_come_says_where_its_log_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UserError) as late:
        waits(monkeypatch, tmp_path, [ready("False")])
    assert f"logs/pods/{LANGUAGE.tenant}" in late.value.remedy


def test_it_asks_the_host_that_the_gateway_of_the_sandbox_has() -> None:
    gateway = yaml.safe_load((demo.CHECKOUT / "stacks" / "Pulumi.sandbox-platform.yaml").read_text())["config"]["headway:gateway"]
    assert f"{LANGUAGE.model}.{LANGUAGE.tenant}.{gateway['hosts'][0]}" == language_questions.HOST


def test_it_fills_the_replica_as_full_as_its_contract_says() -> None:
    contract = yaml.safe_load((profile.CONTRACTS / LANGUAGE.tenant / f"{LANGUAGE.model}.yaml").read_text())
    assert contract["degradation"]["overload_at"] == language_questions.FULL


def test_what_it_prints_for_a_crowd_asks_as_often_and_then_with_low_priority(tmp_path: Path) -> None:
    """Run with stand-ins that write down how they were called."""
    for name, body in {"curl": f'echo "$@" >> {tmp_path}/asked', "headway": 'echo "token-$5"', "sleep": "wait"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    script = "\n".join([*language_questions.crowd(1, 2), "wait"])
    subprocess.run(["bash", "-c", script], env={"PATH": f"{tmp_path}:{os.defpath}"}, check=False, timeout=60)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert sum("Bearer token-high" in each and "ignore_eos" in each for each in asked) == language_questions.FULL
    (low,) = [each for each in asked if "Bearer token-low" in each]
    assert language_questions.QUESTION in low
    assert any(each.endswith("http://127.0.0.1:2/metrics") for each in asked)
