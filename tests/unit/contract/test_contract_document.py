"""YAML that tries to hurt: refused with a place, or read as what it says; never a traceback, never long."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.contract.reading.document import DEEPEST, LARGEST_DOCUMENT, MOST_NODES, Place, read


@pytest.mark.parametrize(
    ("text", "rule", "line", "column"),
    [
        (b"a: &x [1]\nb: *x\n", "document-no-alias", 1, 4),
        (b"a: 1\nb: *x\n", "document-no-alias", 2, 4),
        (b"a: {<<: {b: 1}}\n", "document-no-alias", 1, 5),
        (b"a: !!python/object/apply:os.system [ls]\n", "document-no-tag", 1, 4),
        (b"a: !secret x\n", "document-no-tag", 1, 4),
        (b"a: 1\n---\nb: 2\n", "document-single", 2, 1),
        (b"a:\n\tb: 1\n", "document-syntax", 2, 1),
        (b"a: b: c\n", "document-syntax", 1, 5),
        (b"a: [1, 2\n", "document-syntax", 2, 1),
        (b'a: "\\ud800"\n', "document-syntax", 1, 7),
        (b"\xff\xfea: 1\n", "document-encoding", 1, 1),
        (b"a: 1\nb: \x00\n", "document-character", 2, 4),
        ("a: 1\nb: x\u2028y\n".encode(), "document-character", 2, 5),
        (b"? [a]\n: 1\n", "document-text-key", 1, 3),
        (b"a: .nan\n", "document-finite-number", 1, 4),
        (b"a: -.inf\n", "document-finite-number", 1, 4),
        (b"a: 1e999\n", "document-finite-number", 1, 4),
        (b"a: 9223372036854775808\n", "document-finite-number", 1, 4),
        (b"a: " + b"9" * 100_000, "document-finite-number", 1, 4),
        (b"x" * (LARGEST_DOCUMENT + 1), "document-size", 0, 0),
        (b"[" * (DEEPEST + 2), "document-depth", 1, DEEPEST + 2),
        (b"[" + b"1," * MOST_NODES, "document-size", 1, 2 * MOST_NODES),
    ],
)
def test_what_no_contract_needs_is_refused_with_its_place(text: bytes, rule: str, line: int, column: int) -> None:
    document = read(text, "x.yaml")
    assert [(f.rule, f.line, f.column) for f in document.findings] == [(rule, line, column)]


def test_a_duplicate_key_names_both_lines() -> None:
    document = read(b"a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "x.yaml")
    (finding,) = document.findings
    assert (finding.rule, finding.line, finding.path) == ("document-key-once", 5, ("b", "c"))
    assert "line 3" in finding.fact
    assert "line 5" in finding.fact


def test_every_duplicate_is_found_in_one_pass() -> None:
    assert len(read(b"a: 1\na: 2\na: 3\nb: 1\nb: 2\n", "x.yaml").findings) == 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("010", "010"),
        ("0x10", "0x10"),
        ("12:30", "12:30"),
        ("2026-11-21", "2026-11-21"),
        ("1_000", "1_000"),
        ("1.10", 1.1),
        ("1e3", 1000.0),
        ("-5", -5),
        ("true", True),
        ("True", "True"),
        ("~", None),
        ("'1'", "1"),
        ("ключ", "ключ"),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_scalars_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    document = read(f"a: {text}\n".encode(), "x.yaml")
    assert document.data == {"a": value}
    assert isinstance(document.data, dict)
    assert type(document.data["a"]) is type(value)


def test_every_value_knows_its_line_and_column() -> None:
    document = read(b"a:\n  - b: 1\n    c: [2, 3]\n", "x.yaml")
    assert document.place(("a", 0, "c", 1)) == Place(3, 12)
    assert document.place(("a", 0, "b")) == Place(2, 5), "a scalar is shown at its key, where one looks for it"
    assert document.place(("a", 0, "gone")) == document.place(("a", 0)), "what is missing is shown at the nearest node above it"


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 500_000,
        b"{a: " * 200_000,
        b"- " * 499_999,
        b"? " * 499_999,
        b"- 1\n" * 249_999,
        b"a: " + b"x" * 999_000,
        b"a: >\n" + b" " * 900_000,
        b"'" + b"a\n" * 490_000,
        b"!" * 999_999,
        b"a: |\n" + b"  x\n" * 240_000,
        b"{" + b",".join(b"k%d: 1" % n for n in range(90_000)) + b"}",
        b"&a [" + b"*a," * 300_000 + b"]",
        b"#" * 999_999,
        b"%" * 999_999,
        b'"' + b"\\x41" * 240_000 + b'"',
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_hostile_megabyte_is_refused_within_seconds(text: bytes) -> None:
    start = time.process_time()
    read(text, "x.yaml")
    assert time.process_time() - start < 5


@settings(max_examples=300)
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_reading_never_raises_whatever_the_bytes(text: bytes) -> None:
    document = read(text, "x.yaml")
    assert document.findings or document.data is None or isinstance(document.data, dict | list | str | int | float)


def test_a_bracket_that_nobody_closes_is_told_by_its_line() -> None:
    document = read(b"a: {b: 1\nc:\nd: 2\n", "a.yaml")
    assert [finding.fact for finding in document.findings] == [
        "not valid YAML: did not find expected ',' or '}', while parsing a flow mapping since line 1"
    ]
