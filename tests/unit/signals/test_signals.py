"""Signals: one query per source, with a metric type that agrees with it, and no zero made up for a silent source."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.contract.scaling import ScalingSignal
from headway.contract.slo import SloSignal
from headway.signals import SIGNALS, Aggregation, Scope, Source, UnknownSignalError, signal
from headway.signals.buckets import FIRST_MILLISECONDS, LAST_MILLISECONDS, latency_edges_milliseconds
from headway.signals.definition import GATEWAY_JOB

SCOPE = Scope(tenant="vision", model="defects", release="r1")
ALL = [(name, source) for name, found in SIGNALS.items() for source in found.sources]


def query(name: str, source: Source, scope: Scope = SCOPE) -> str:
    return signal(name).query(source, scope, quantile=0.99 if signal(name).quantiles else None)


@pytest.mark.parametrize(("name", "source"), ALL)
def test_a_query_is_complete_and_balanced(name: str, source: Source) -> None:
    text = query(name, source)
    assert "$" not in text, "a placeholder was left"
    assert text.count("(") == text.count(")")
    assert text.count("{") == text.count("}") == len(re.findall(r"\{[^{}]*\}", text))


@pytest.mark.parametrize(("name", "source"), ALL)
def test_a_query_reads_one_model_of_one_tenant_only(name: str, source: Source) -> None:
    for matchers in re.findall(r"\{([^{}]*)\}", query(name, source)):
        assert "vision" in matchers, f"{name} would count other tenants' requests"
        assert "defects" in matchers


@pytest.mark.parametrize(("name", "source"), ALL)
def test_a_release_narrows_every_selector(name: str, source: Source) -> None:
    every = query(name, source, Scope(tenant="vision", model="defects"))
    assert "r1" not in every
    assert all("r1" in matchers for matchers in re.findall(r"\{([^{}]*)\}", query(name, source)))


def test_a_service_does_not_answer_for_another_whose_name_begins_as_its_own() -> None:
    (_, by), *_ = re.findall(
        r'(destination_service_name)=~"([^"]*)"', query("error_ratio", Source.MESH, Scope(tenant="vision", model="defects"))
    )
    assert re.fullmatch(by, "defects-r0123456789") and re.fullmatch(by, "defects-r0123456789-baseline")
    assert not re.fullmatch(by, "defects-slice-r0123456789")


def test_every_name_of_the_contract_is_a_signal() -> None:
    assert {found.value for found in ScalingSignal} <= set(SIGNALS)
    assert {found.value for found in SloSignal} <= set(SIGNALS)


def test_a_total_is_averaged_and_a_level_is_compared_by_keda() -> None:
    assert Aggregation.TOTAL.keda_metric_type == "AverageValue"
    assert Aggregation.LEVEL.keda_metric_type == "Value"


@pytest.mark.parametrize(("name", "source"), ALL)
def test_a_ratio_is_a_level_and_never_a_total(name: str, source: Source) -> None:
    if " / clamp_min(" in query(name, source):
        assert signal(name).aggregation is Aggregation.LEVEL, "KEDA would divide a mean by the number of replicas"


@pytest.mark.parametrize(("name", "source"), ALL)
def test_a_silent_source_stays_absent(name: str, source: Source) -> None:
    assert " or vector(" not in query(name, source), "an invented zero scales in, and passes gates"


def test_the_gpu_signal_is_not_the_utilisation_that_any_kernel_raises() -> None:
    assert "DCGM_FI_DEV_GPU_UTIL" not in query("gpu_activity", Source.DCGM)


def test_an_unknown_signal_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownSignalError, match="queue_time"):
        signal("queue-time")


def test_a_source_that_does_not_measure_is_refused_with_those_that_do() -> None:
    with pytest.raises(UnknownSignalError, match="vllm"):
        signal("kv_cache_use").query(Source.TRITON, SCOPE)


def test_a_quantile_belongs_to_signals_that_have_one() -> None:
    with pytest.raises(ValueError, match="needs quantile"):
        signal("latency").query(Source.MESH, SCOPE)
    with pytest.raises(ValueError, match="has no quantile"):
        signal("queue_time").query(Source.TRITON, SCOPE, quantile=0.5)
    with pytest.raises(ValueError, match="not between"):
        signal("latency").query(Source.MESH, SCOPE, quantile=99)


@given(st.sampled_from(ALL))
def test_the_same_question_gives_the_same_query(pair: tuple[str, Source]) -> None:
    assert query(*pair) == query(*pair)


def test_histogram_edges_rise_and_cover_the_range() -> None:
    edges = latency_edges_milliseconds()
    assert (edges[0], edges[-1]) == (FIRST_MILLISECONDS, LAST_MILLISECONDS)
    assert list(edges) == sorted(set(edges))


TOTALS = [(name, source) for name, found in SIGNALS.items() for source in found.loads]


@pytest.mark.parametrize(("name", "source"), TOTALS)
def test_a_total_is_the_sum_of_what_its_replicas_carry(name: str, source: Source) -> None:
    assert signal(name).aggregation is Aggregation.TOTAL
    assert query(name, source).startswith("sum(")


@pytest.mark.parametrize(("name", "source"), TOTALS)
def test_a_held_total_looks_back_at_replicas_of_its_own_scope_only(name: str, source: Source) -> None:
    held = signal(name).held(source, SCOPE)
    for matchers in re.findall(r"\{([^{}]*)\}", held):
        assert SCOPE.matchers(source) in matchers
    assert f"up{{{SCOPE.matchers(source)}}} == 0" in held


@pytest.mark.parametrize("name", ["in_flight", "request_rate"])
def test_what_no_replica_reports_is_zero_while_all_who_would_report_are_read(name: str) -> None:
    plain, zero = signal(name).held(Source.MESH, SCOPE).split(" or 0 * ")
    assert plain == query(name, Source.MESH)
    assert zero.startswith(f'(min(up{{job="{GATEWAY_JOB}"}}) == 1 unless count(')
    assert SCOPE.matchers(Source.MESH) in zero


@pytest.mark.parametrize("name", [each.value for each in ScalingSignal])
def test_every_total_that_moves_replicas_is_held_where_replicas_report_it(name: str) -> None:
    found = signal(name)
    if found.aggregation is Aggregation.TOTAL:
        assert {Source.TRITON, Source.VLLM} <= set(found.loads)
