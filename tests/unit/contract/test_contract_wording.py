"""What a refusal says of one wrong line: the value as it was written, and a remedy that mends it."""

from pathlib import Path

import pytest

from headway.contract.model import Model
from headway.contract.reading.document import LARGEST_DOCUMENT, read
from headway.contract.reading.validation import contract_from
from headway.contract.report import as_sarif
from headway.problem import Problem, dotted

ROOT = Path(__file__).parents[3]
CHAT = (ROOT / "tenants/assist/chat.yaml").read_text(encoding="utf-8")
EMBEDDINGS = (ROOT / "tenants/vision/embeddings.yaml").read_text(encoding="utf-8")


def findings(old: str, new: str, source: str = CHAT) -> list[Problem]:
    assert old in source
    document = read(source.replace(old, new, 1).encode(), "x.yaml")
    return [*document.findings, *contract_from(document, Model)[1]]


@pytest.mark.parametrize(
    ("old", "new", "path", "value", "fact", "remedy"),
    [
        ("max_sequences: 128", "max_sequences: 1e3", "batching.max_sequences", "1e3", "a number, where a whole number is expected", "Write 1000"),
        ("max_sequences: 128", "max_sequences: 128.0", "batching.max_sequences", "128.0", "a number, where", "Write 128"),
        ("max_sequences: 128", 'max_sequences: "128"', "batching.max_sequences", "128", "a text, where", "Write 128, without quotes"),
        ("max_sequences: 128", "max_sequences: 0200", "batching.max_sequences", "0200", "a text, where", "Write a whole number"),
        ("max_sequences: 128", "max_sequences: true", "batching.max_sequences", "true", "true or false, where", "Write a whole number"),
        ("version: 8b-instruct-r5", "version: 1.10", "artifact.version", "1.10", "a number, where", 'Put it in quotes: "1.10"'),
        ("owner: assist-ml", "owner: true", "owner", "true", "true or false, where a text", 'Put it in quotes: "true"'),
        ("objective: 99.9%", "objective: 99.99999%", "slo[0].objective", "99.99999%", "finer than a percentage can be", "Write a multiple of 0.0001%"),
        ("objective: 99.9%", "objective: 0.9990", "slo[0].objective", "0.9990", "has no unit", "Write a number with the unit %, such as 99.9% or 5%"),
        ("cpu: 12", "cpu: 1.0001", "envelope.cpu", "1.0001", "finer than an amount of CPU can be", "Write a multiple of 1m"),
        ("memory: 96Gi", "memory: 99999999Ti", "envelope.memory", "99999999Ti", "more than a size in bytes can be", "Write at most 9223372036854775807B"),
        ("classes:\n    - {name: short, body_up_to: 8Ki}\n    - {name: long}", "classes:", "rollout.classes", "", "nothing", "Write a list, or leave classes out"),  # noqa: E501
        ("sample: 0%", "sample:", "data.sample", "", "nothing, where", "Write a number with the unit %, such as 99.9% or 5%; or leave sample out"),
        ("drain: 150s", "drain: ~", "health.drain", "", "nothing, where", "Write a number with one of the units us, ms, s, m, h, d, such as 250ms or 30s or 28d"),  # noqa: E501
        ("workload_class: throughput", "workload_class: thruput", "workload_class", "thruput", "is not one of latency, throughput", "Did you mean throughput?"),
        ("workload_class: throughput", "workload_class: 3", "workload_class", "3", "a whole number, where a text", "Write one of latency, throughput"),
        ("contract: model/v1", "contract: 1", "contract", "1", "a whole number, where a text", "Write model/v1"),
        ("engine: vllm", "engine: vlm", "runtime.engine", "vlm", "is not one of triton, vllm, container", "Did you mean vllm?"),
        ("name: chat", "name: Chat_Bot", "name", "Chat_Bot", "is no name by RFC 1123", "Write chat-bot"),
        ("sha256: e3ccffe9", "sha256: E3ccffe9", "artifact.files[0].sha256", "E3ccffe93242e729c308a43030de4c20c2fa7ee7b2f2754e8dc435c3d...", "form", "Write it in lower case"),  # noqa: E501
        ("parts: [Paris]", "parts: []", "health.golden[0].expect.parts", "", "parts is empty", "Give it at least 1 entry"),
        ("rollout:\n", "rollout:\n  weights: [5%, 1%]\n", "rollout.weights", "[5%, 1%]", "do not ascend", "Write 1%, 5%"),
        ("owner: assist-ml", 'owner: "assist\u202eml"', "owner", "assist\\u202eml", "an invisible character (U+202E)", "Remove it"),
        ("owner: assist-ml", 'owner: "  "', "owner", "  ", "it is blank", "Say it in words"),
    ],
)  # fmt: skip
def test_a_refusal_shows_what_was_written_and_how_to_mend_it(old: str, new: str, path: str, value: str, fact: str, remedy: str) -> None:
    (finding,) = findings(old, new)
    assert (dotted(finding.path), finding.value, finding.remedy) == (path, value, remedy)
    assert fact in finding.fact


@pytest.mark.parametrize("written", ["1.5", "1500m", '"1.5"'])
def test_cpu_may_be_written_in_cores_or_millicores(written: str) -> None:
    assert findings("cpu: 12", f"cpu: {written}") == []


def test_a_number_that_no_reader_can_hold_is_told_once() -> None:
    for written in (".nan", "-.inf", "9" * 400):
        (finding,) = findings("max_sequences: 128", f"max_sequences: {written}")
        assert finding.rule == "document-finite-number"


def test_an_escape_brings_no_control_character_in() -> None:
    (finding,) = [each for each in findings("owner: assist-ml", r'owner: "assist\0ml"') if each.rule == "document-character"]
    assert (dotted(finding.path), finding.line) == ("owner", 6)
    assert "U+0000" in finding.fact
    assert findings("Name the capital of France in one word.", r"Name the capital\n\tof France.") == []


@pytest.mark.parametrize("written", ["true", "1.0", "2", '"1"'])
def test_a_count_of_one_takes_no_flag_and_no_fraction(written: str) -> None:
    (finding,) = findings("memory: 8Gi}", f"memory: 8Gi, count: {written}}}", EMBEDDINGS)
    assert dotted(finding.path) == "envelope.gpu.count"


def test_a_file_that_is_too_large_is_not_counted_to_its_end() -> None:
    (finding,) = read(b"#" * (LARGEST_DOCUMENT + 1), "x.yaml").findings
    assert finding.fact == "the file has more than 1,000,000 bytes"


def test_code_scanning_gets_whole_sentences_and_knows_what_columns_count() -> None:
    run = as_sarif(findings("max_sequences:", "max_sequence:"), "1")["runs"][0]
    (wrong,) = (result["message"]["text"] for result in run["results"])
    assert wrong.endswith("so it is refused. Did you mean max_sequences?")
    assert run["columnKind"] == "unicodeCodePoints"
