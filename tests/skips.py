"""A pytest plugin: what a test needs beyond Python and the programs of the cluster tier has a name in one list, and no test is skipped silently.

`@pytest.mark.needs(NAME)` skips where this machine has not what the name stands for, and the summary says so. A skip without such a name fails.
In a whole run (CI, `make test`) a skip also fails where the machine could have had it. A fixture says `pytest.skip("NAME: why")`.
"""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from sandbox.cluster.toolchain import is_built
from sandbox.layout import Layout

ROOT = Path(__file__).parents[1]
WHOLE = "HEADWAY_EVERY_TEST"
"""Set by `make test`: whatever can be had is there, or the run fails."""
LINES_OF_A_FIRST_TRY = 40
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What some tests need and a machine may lack."""

    met: Callable[[], bool]
    lacks: str
    """Why a machine has it not, after the name and a colon."""
    command: str = ""
    """What gets it; empty where nothing in the checkout can."""


def _built(name: str) -> Requirement:
    return Requirement(met=lambda: is_built(Layout.of(ROOT), (name,)), lacks="not built", command="make servers")


def _client(path: str) -> Requirement:
    return Requirement(met=(ROOT / ".venv-clients" / path).exists, lacks="not in .venv-clients", command="make test-engine")


def _named(*variables: str) -> bool:
    return all(os.environ.get(variable) for variable in variables)


def _mounts() -> bool:
    if not (shutil.which("unshare") and shutil.which("nsenter")):
        return False
    tried = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return tried.returncode == 0


REQUIREMENTS: Mapping[str, Requirement] = {
    **{
        name: _built(name)
        for name in (
            "cert-manager",
            "collector",
            "kube-state-metrics",
            "network-policies",
            "node-exporter",
            "prometheus-operator",
            "ratelimit",
            "registry",
        )
    },
    "charts": Requirement(
        met=lambda: _named("HEADWAY_CHARTS"), lacks="Helm charts lie in no package registry; name a folder with them: HEADWAY_CHARTS"
    ),
    "client of Go": _client("bin/go-client"),
    "client of Node": _client("node_modules/@pulumi/pulumi"),
    "descriptors of processes": Requirement(met=lambda: hasattr(os, "pidfd_open"), lacks="only Linux has them"),
    "in-memory providers": Requirement(
        met=lambda: os.environ.get("PULUMI_EMBEDDED_ENGINE") != "pulumi", lacks="the real engine, which is asked for, cannot be given any"
    ),
    "Loki and Tempo": Requirement(
        met=lambda: _named("HEADWAY_LOKI", "HEADWAY_TEMPO"),
        lacks="their licence is the AGPL, and Tempo's module is in no registry; name the programs: HEADWAY_LOKI, HEADWAY_TEMPO",
    ),
    "root": Requirement(met=lambda: os.geteuid() == 0 and bool(shutil.which("chroot")), lacks="only root may change the root folder"),
    "small disk": Requirement(met=_mounts, lacks="users may not mount one here (unprivileged user namespaces are off)"),
}


def whole() -> bool:
    return _named(WHOLE) or os.environ.get("CI") == "true"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(name): runs where the machine has it; the names are in tests/skips.py")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        name = marker.args[0]
        if name not in REQUIREMENTS:
            pytest.fail(f"no requirement is called {name!r}: add it to the list of tests/skips.py", pytrace=False)
        if not REQUIREMENTS[name].met():
            pytest.skip(f"{name}: {REQUIREMENTS[name].lacks}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _judged((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _judged((yield))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("rerun", ()):
        # A second try that passes, or that fails of what the first one left behind, hides why there was one.
        terminalreporter.write_sep("-", f"first try of {report.nodeid}")
        terminalreporter.write_line("\n".join(str(report.longrepr).splitlines()[-LINES_OF_A_FIRST_TRY:]))
    found = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", ()) if not hasattr(report, "wasxfail"))
    for reason, count in sorted(found.items()):
        name = _name(reason)
        command = REQUIREMENTS[name].command if name else ""
        terminalreporter.write_line(f"not run: {count} for want of {reason}" + (f" (get it: {command})" if command else ""))


def _judged(report: Report) -> Report:
    """The report, failed where its skip has no reason that counts."""
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = _reason(report)
        name = _name(reason)
        if name is None:
            _fail(report, f"skipped, and the reason begins with no requirement of tests/skips.py: {reason}")
        elif whole() and REQUIREMENTS[name].command:
            _fail(report, f"skipped in a whole run for want of {reason}; get it: {REQUIREMENTS[name].command}")
    return report


def _fail(report: pytest.TestReport | pytest.CollectReport, why: str) -> None:
    report.outcome, report.longrepr = "failed", why


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    said = report.longrepr
    return (said[2] if isinstance(said, tuple) else str(said)).removeprefix("Skipped: ")


def _name(reason: str) -> str | None:
    name = reason.partition(":")[0]
    return name if name in REQUIREMENTS else None
