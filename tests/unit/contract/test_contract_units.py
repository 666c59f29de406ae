"""Quantities: exact, shown in the text that parses back, and clear about what is legal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.contract.units import Bytes, Duration, MilliCpu, Money, Quantity, Rate, Share, Throughput, UnitError

KINDS: list[type[Quantity]] = [Bytes, MilliCpu, Duration, Share, Money, Rate, Throughput]


@given(kind=st.sampled_from(KINDS), value=st.integers(0, 2**63 - 1))
def test_what_is_shown_parses_back_to_the_same_value(kind: type[Quantity], value: int) -> None:
    assert kind.parse(str(kind(value))) == value


@given(kind=st.sampled_from(KINDS), text=st.text(max_size=30))
def test_any_text_is_either_a_quantity_or_refused_with_the_legal_units(kind: type[Quantity], text: str) -> None:
    try:
        quantity = kind.parse(text)
    except UnitError as error:
        assert kind.what in str(error) or "no unit" in str(error)
    else:
        assert 0 <= quantity < 2**63


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Bytes, "14Gi", 14 * 2**30),
        (Bytes, "1.5Ki", 1536),
        (Bytes, "98566144B", 98_566_144),
        (MilliCpu, "500m", 500),
        (MilliCpu, "4", 4_000),
        (MilliCpu, "0.25", 250),
        (Duration, "250ms", 250_000),
        (Duration, "2m", 120_000_000),
        (Duration, "28d", 28 * 86_400_000_000),
        (Share, "99.95%", 999_500),
        (Share, "0.0001%", 1),
        (Money, "12 USD", 12_000_000),
        (Money, "0.8048 USD", 804_800),
        (Rate, "50/s", 180_000),
        (Rate, "0.5/s", 1_800),
        (Throughput, "600Mi/s", 600 * 2**20),
    ],
)
def test_quantities_are_exact_integers_of_the_smallest_unit(kind: type[Quantity], text: str, value: int) -> None:
    assert int(kind.parse(text)) == value


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (Bytes, "14GB", "B, Ki, Mi, Gi, Ti"),
        (Bytes, "500m", "such as 14Gi"),
        (Bytes, "14 Gi", "not a size in bytes"),
        (Bytes, "-1Gi", "not a size in bytes"),
        (Bytes, "0.5B", "a multiple of 1B"),
        (Bytes, "9999999999Ti", "more than"),
        (Duration, "30", "has no unit"),
        (Duration, "1h30m", "not a span of time"),
        (Share, "0.999", "has no unit"),
        (Money, "12USD", "not an amount of money"),
        (Money, "12 EUR", "such as 1200 USD"),
        (Rate, "50", "has no unit"),
        (MilliCpu, "0.0001", "a multiple of 1m"),
        (Bytes, "\u0661\u0664Gi", "not a size"),
    ],
)
def test_a_wrong_unit_says_which_are_legal(kind: type[Quantity], text: str, said: str) -> None:
    with pytest.raises(UnitError, match=said.replace("(", r"\(")):
        kind.parse(text)


def test_kubernetes_reads_bytes_and_cpu_as_they_are_shown() -> None:
    assert str(Bytes.parse("14Gi")) == "14Gi"
    assert Bytes(1_000_000_001).kubernetes == "1000000001", "Kubernetes knows no unit B"
    assert str(MilliCpu.parse("1500m")) == "1500m"
    assert str(MilliCpu.parse("2000m")) == "2"


@pytest.mark.parametrize(("text", "enough"), [("1151700Mi", "1125Gi"), ("9728Mi", "9728Mi"), ("10Gi", "10Gi"), ("3B", "3B")])
def test_memory_that_is_enough_is_rounded_up_to_two_figures_or_more(text: str, enough: str) -> None:
    assert Bytes.parse(text).enough == enough
    assert Bytes.parse(enough) >= Bytes.parse(text)


def test_whole_seconds_never_promise_less_time_than_was_written() -> None:
    assert Duration.parse("1500ms").whole_seconds == 2
    assert Duration.parse("2s").whole_seconds == 2


@pytest.mark.parametrize(
    ("quantity", "brief"),
    [
        (Bytes(8_160_437_863), "7.6Gi"),
        (Bytes(0), "0B"),
        (Duration.parse("187400ms"), "3.12m"),
        (Money.parse("1762.512 USD"), "1,763 USD"),
        (Money.parse("0.000588 USD"), "0.0006 USD"),
        (Share.parse("30.3736%"), "30.4%"),
        (Bytes.parse("100Gi"), "100Gi"),
    ],
)
def test_brief_texts_keep_three_figures(quantity: Quantity, brief: str) -> None:
    assert quantity.brief == brief
