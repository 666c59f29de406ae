"""A quarter before the support of a version ends, somebody is told; the day itself breaks nothing."""

import warnings
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from components import versions
from components.versions import SUPPORT, VersionSupport
from headway.problem import ProblemLevel
from stacks.support import ending

MESH = VersionSupport(what="Mesh", version="1.2.3", ends=date(2027, 6, 30), then="Holes stay open", source="its page")
OPERATOR = VersionSupport(what="Operator", version="26.3", ends=None, then="It ends with the next one", source="its page")


class SupportEnds(UserWarning):
    """Stands in pytest's summary, and fails no test: a date that passes breaks no build."""


def warn(supported: Sequence[VersionSupport], today: date) -> None:
    for found in ending(supported, today):
        warnings.warn(f"{found.fact}. {found.consequence}. {found.remedy}.", SupportEnds, stacklevel=1)


@pytest.mark.filterwarnings("always::tests.components.stacks.test_support.SupportEnds")
def test_who_runs_the_tests_is_told_of_every_end_within_a_quarter() -> None:
    warn(SUPPORT, datetime.now(UTC).date())


def test_that_telling_says_what_ends_when_and_what_to_do() -> None:
    with pytest.warns(SupportEnds, match=r"Mesh 1\.2\.3 ends on 2027-06-30, in 90 days .*Holes stay open.*components/versions\.py") as told:
        warn((MESH, OPERATOR), date(2027, 4, 1))
    assert len(told) == 1


def test_every_chart_has_a_row_that_says_until_when_or_that_nobody_says_so() -> None:
    told = {chart for each in SUPPORT for chart in each.charts}
    assert told == {chart.chart for chart in versions.CHARTS}


@pytest.mark.parametrize("row", [each for each in SUPPORT if each.charts], ids=lambda each: each.what)
def test_a_row_is_of_what_its_charts_bring(row: VersionSupport) -> None:
    brought = [text for chart in versions.CHARTS if chart.chart in row.charts for text in (chart.version, *chart.images)]
    assert any(row.version in text for text in brought)


@pytest.mark.parametrize(
    ("today", "said"),
    [
        (date(2027, 3, 31), None),
        (date(2027, 4, 1), "ends on 2027-06-30, in 90 days"),
        (date(2027, 6, 30), "ends on 2027-06-30, in 0 days"),
        (date(2027, 7, 1), "ended on 2027-06-30"),
    ],
)
def test_an_end_of_support_is_told_a_quarter_before_and_ever_after(today: date, said: str | None) -> None:
    found = ending((MESH, OPERATOR), today)
    assert [said in problem.fact for problem in found if said] == ([True] if said else [])
    assert len(found) == (said is not None)
    assert all(problem.level is ProblemLevel.WARNING for problem in found)


def test_what_is_said_of_support_is_said_of_the_versions_that_are_installed() -> None:
    found = {each.what: each.version for each in SUPPORT}
    assert found["Kubernetes on EKS"] == versions.KUBERNETES
    assert found["GPU Operator"] == versions.GPU_OPERATOR.version
    assert {driver.partition(".")[0] for driver in versions.NODE_RELEASES.values()} == {found["NVIDIA driver"].partition(".")[0]}
    assert all(each.source and each.then for each in SUPPORT)


def test_kubernetes_is_told_of_before_its_extended_support_is_paid_for() -> None:
    (kubernetes,) = [each for each in SUPPORT if each.what == "Kubernetes on EKS"]
    assert kubernetes.ends is not None
    told = ending((kubernetes,), kubernetes.ends - timedelta(days=90))
    assert "six times" in told[0].consequence


def test_nodes_and_their_proxy_are_of_the_control_planes_minor_version() -> None:
    minor = f"{versions.KUBERNETES}."
    assert all(release.startswith(minor) for release in versions.NODE_RELEASES)
    assert versions.ADDONS["kube-proxy"].startswith(f"v{minor}")
