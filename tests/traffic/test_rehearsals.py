"""`headway rehearse`, each fault on a demonstration that runs: told by its alert, diagnosed, and taken out again."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.problem import Exit
from sandbox.cluster.processes import Supervisor
from sandbox.layout import HOME_VARIABLE, Layout
from sandbox.rehearsal import pages
from sandbox.rehearsal.catalogue import FAULTS, Fault
from sandbox.traffic import release_trials
from tests.cluster.conftest import eventually
from tests.traffic.bed import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

HEADWAY = str(PROJECT / ".venv" / "bin" / "headway")
MINUTES = {"errors": 7, "gpu-hot": 7, "hang": 8, "leak": 7, "slow": 7, "unloadable": 8}
"""How long a fault takes until its alert holds and its cause can be seen, at most; the others five minutes."""
SHARED = {"PodsUnschedulable", "ReplicasMissing", "SloBurnRate"}
"""Alerts that several faults raise about the same thing: told anew only after their end."""
COMPARED_SECONDS = 120.0
"""An alert may come before there is enough to compare: so long one asks again."""
UNTOLD_MINUTES = 1
"""How long a fault that nobody is told of stays in."""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a demonstration whose users never stop asking."""
    home = tmp_path_factory.mktemp("rehearsals")
    demo = Layout(project=home / "demo" / "checkout", state=home / "demo" / "state", cache=Layout.of(PROJECT).cache)
    try:
        subprocess.run(["make", "demo-traffic"], cwd=PROJECT, env={**os.environ, HOME_VARIABLE: str(home)}, check=True)
        yield demo.state
    finally:
        release_trials.stop(demo)


def test_a_page_of_a_rehearsed_fault_is_followed_by_a_diagnosis(state: Path) -> None:
    eventually(lambda: _serves(state), within=600)
    time.sleep(90)  # of traffic as it was, with which a diagnosis compares
    command = [HEADWAY, "rehearse", "slow", "-e", "sandbox", "--minutes", "6", "--project", str(PROJECT)]
    environment = {**os.environ, HOME_VARIABLE: str(state), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = list[str]()
        for line in child.stdout:
            said.append(line)
            if line.startswith("CAUSE "):
                child.send_signal(signal.SIGINT)
    (cause,) = [line for line in said if line.startswith("CAUSE ")]
    # Which cause is right is the business of the tests below: one minute after its onset, on a machine that is busy, it may be another.
    assert cause.startswith("CAUSE quality/classifier: answers take longer, because ")
    page = next(number for number, line in enumerate(said) if "PAGE SloBurnRate" in line)
    assert page < said.index(cause)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)
def test_a_rehearsed_fault_is_told_by_its_alert_and_taken_out_again(state: Path, fault: Fault) -> None:
    eventually(lambda: _serves(state) and not _holds(state, fault), within=600)
    minutes = UNTOLD_MINUTES if fault.alert is None else MINUTES.get(fault.name, 5)
    command = [HEADWAY, "rehearse", fault.name, "-e", "sandbox", "--minutes", str(minutes)]
    environment = {**os.environ, HOME_VARIABLE: str(state), "PYTHONUNBUFFERED": "1"}
    told, later, found = _until_told([*command, "--project", str(PROJECT)], environment, fault)
    assert told is (fault.alert is not None), later
    assert "It is out again." in later and not (state / "rehearsal.json").exists()
    assert _is_right(fault, found), found


def _serves(state: Path) -> bool:
    """Whether the model's replicas are ready: after a fault that ended its server it waits out a back-off."""
    words = ["status", "quality/classifier", "-e", "sandbox", "--project", str(PROJECT)]
    said = subprocess.run([HEADWAY, *words], env={**os.environ, HOME_VARIABLE: str(state)}, capture_output=True, check=False)
    return said.returncode == Exit.OK


def _holds(state: Path, fault: Fault) -> bool:
    """Whether the fault's alert holds from one before."""
    if fault.alert not in SHARED:
        return False
    time.sleep(2.0)
    found = pages.raised(Supervisor(Layout(project=PROJECT, state=state, cache=state)).port("prometheus"))
    return found is None or fault.alert in {each.name for each in found}


def _is_right(fault: Fault, found: list[dict[str, Any]]) -> bool:
    """Whether the cause is named; of a fault that blinds the diagnosis, that it says so."""
    return fault.cause in {each["cause"] for each in found} if fault.cause else all(each["unseen"] for each in found)


def _looked_into(environment: dict[str, str], fault: Fault) -> list[dict[str, Any]]:
    """What is said once there is enough to compare."""
    end = time.monotonic() + COMPARED_SECONDS
    while not _is_right(fault, found := _diagnosed(environment, fault)) and time.monotonic() < end:
        time.sleep(10.0)
    return found


def _diagnosed(environment: dict[str, str], fault: Fault) -> list[dict[str, Any]]:
    """What is said of the service while the fault is in it."""
    words = ["diagnose", fault.service, "-e", "sandbox", "--project", str(PROJECT), "-o", "json", "--since", "30m"]
    said = subprocess.run([HEADWAY, *words], env=environment, capture_output=True, text=True, check=False)
    assert said.stdout, said.stderr
    return json.loads(said.stdout)["diagnoses"]


def _until_told(command: list[str], environment: dict[str, str], fault: Fault) -> tuple[bool, str, list[dict[str, Any]]]:
    """Whether the alert came, all that the command said, and the diagnosis: made when the alert comes, or in the middle of a fault that
    nobody is told of. Then the command is ended as whoever is on call ends it."""
    found = list[dict[str, Any]]()
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        assert child.stdout is not None
        said, told = list[str](), False
        if fault.alert is None:
            time.sleep(UNTOLD_MINUTES * 30.0)
            found = _diagnosed(environment, fault)
        for line in child.stdout:
            said.append(line)
            if f" {fault.alert}: " in line and not told:
                told, found = True, _looked_into(environment, fault)
                threading.Timer(1.0, child.send_signal, (signal.SIGINT,)).start()
    assert child.returncode == Exit.OK, "".join(said)
    return told, "".join(said), found
