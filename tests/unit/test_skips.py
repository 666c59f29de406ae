"""Tests that do not run say why, and in a whole run only those are missing that the machine cannot have."""

import pytest

from tests import skips

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither CI nor `make test` shows through, charts are not there, and the collector is not built."""
    for variable in ("CI", skips.WHOLE, "HEADWAY_CHARTS"):
        monkeypatch.delenv(variable, raising=False)
    missing = skips.Requirement(met=lambda: False, lacks="not built", command="make servers")
    monkeypatch.setattr(skips, "REQUIREMENTS", {**skips.REQUIREMENTS, "collector": missing})


def ran(pytester: pytest.Pytester, line: str) -> tuple[dict[str, int], str]:
    """How tests ended in a file whose second line is this one, and what pytest said."""
    pytester.makepyfile(f"import pytest\n{line}\ndef test_it(): pass\n")
    done = pytester.runpytest_inprocess("-p", "tests.skips", "-p", "no:cacheprovider")
    return done.parseoutcomes(), done.stdout.str()


def test_what_a_machine_cannot_have_is_said_by_name(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    outcomes, said = ran(pytester, "@pytest.mark.needs('charts')")
    assert outcomes == {"skipped": 1}
    assert "not run: 1 for want of charts: Helm charts lie in no package registry" in said


def test_what_is_there_is_used(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CHARTS", "charts")
    outcomes, said = ran(pytester, "@pytest.mark.needs('charts')")
    assert outcomes == {"passed": 1}
    assert "not run" not in said


@pytest.mark.parametrize(("variable", "value"), [("CI", "true"), (skips.WHOLE, "1")])
def test_in_a_whole_run_what_could_be_had_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    outcomes, said = ran(pytester, "@pytest.mark.needs('collector')")
    assert outcomes.keys() & {"passed", "skipped"} == set()
    assert "skipped in a whole run for want of collector: not built; get it: make servers" in said


def test_alone_a_test_goes_without_and_says_the_command(pytester: pytest.Pytester) -> None:
    outcomes, said = ran(pytester, "@pytest.mark.needs('collector')")
    assert outcomes == {"skipped": 1}
    assert "not run: 1 for want of collector: not built (get it: make servers)" in said


@pytest.mark.parametrize(
    "line",
    [
        "@pytest.mark.skip",
        "@pytest.mark.skipif(True, reason='not today')",
        "pytest.skip('not today', allow_module_level=True)",
        "pytest.importorskip('nowhere')",
        "@pytest.mark.parametrize('row', [])\n@pytest.mark.usefixtures('row')",
    ],
)
def test_a_skip_without_a_name_fails_everywhere(pytester: pytest.Pytester, line: str) -> None:
    outcomes, said = ran(pytester, line)
    assert outcomes.keys() & {"passed", "skipped"} == set()
    assert "the reason begins with no requirement of tests/skips.py" in said


def test_a_name_that_nobody_has_listed_fails(pytester: pytest.Pytester) -> None:
    outcomes, said = ran(pytester, "@pytest.mark.needs('luck')")
    assert outcomes == {"errors": 1}
    assert "no requirement is called 'luck'" in said
