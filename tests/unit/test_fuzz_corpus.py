"""Whatever others write is read or refused as documented: every input that once failed, and some new ones (`make fuzz` tries many more)."""

import ast
import random
import resource
import time
from pathlib import Path

import pytest

from tests.fuzz.mutation import mutated
from tests.fuzz.parser import CORPUS, MEBIBYTES, SECONDS, FuzzedParser
from tests.fuzz.table import PARSERS

PROJECT = Path(__file__).parents[2]
READING = {
    "bounded_json",
    "bounded_yaml",
    "loads",
    "safe_load",
    "b64decode",
    "urlsafe_b64decode",
    "fromisoformat",
    "fromstring",
    "GzipFile",
}
"""Functions that read a text of somebody else's."""
TRUSTED = {
    "components/access/component.py": "its own document, made one line above",
    "components/mirror.py": "a file of the checkout",
    "components/nodes/gpu_pool.py": "a value that the settings of the stack have checked",
    "components/observability/panels.py": "the panel that it has just drawn",
    "headway/bounded_json.py": "is what the others read by",
    "headway/cli/logs.py": "an option of whoever types it",
    "headway/cli/nodes.py": "its own text",
    "headway/cli/policies.py": "files of the checkout",
    "headway/cli/program.py": "another process of this checkout",
    "headway/cli/release_status.py": "times of events, which `ledger-event` has read",
    "headway/cli/release_view.py": "times of events, which `ledger-event` has read",
    "headway/diagnosis/changes.py": "times of events, which `ledger-event` has read, and of the API server",
    "headway/diagnosis/commits.py": "files of the checkout's own history, within the bounds of the reader",
    "headway/diagnosis/objects.py": "times that the API server has checked",
    "headway/diagnosis/of_rollback.py": "times of events, which `ledger-event` has read",
    "headway/doctor/asking.py": "secrets, whose base64 the API server has checked",
    "headway/environment/handover.py": "parameters that the layers' own program writes",
    "headway/ledger/chain.py": "its own canonical text",
    "headway/release/driver/driver.py": "times of events, which `ledger-event` has read",
    "headway/registry_mirror/pinning.py": "a file of the checkout",
    "headway/release/evaluator/drift_watch.py": "times of events and samples, which `ledger-event` and `kept-requests` have read",
    "headway/release/evaluator/in_cluster.py": "a file that the platform layer writes",
    "headway/release/release_series.py": "times of events, which `ledger-event` has read",
    "headway/release/report/page.py": "times of events, which `ledger-event` has read",
    "headway/release/report/picture.py": "times of events, which `ledger-event` has read",
    "headway/release/evaluator/evaluator.py": "times of events, which `ledger-event` has read",
    "headway/release/evaluator/serving.py": "times of events, which `ledger-event` has read",
    "headway/service_status/pending.py": "times that the API server has checked",
    "headway/verify/inside.py": "its own arguments",
    "policies/guardrails/identity.py": "a document of the program that is judged, whose errors end its preview",
    "stacks/upstream.py": "parameters that the layers' own program writes",
}
"""Modules that read only what we, the kernel or the API server have written or checked, and why that is so."""


def replayed(parser: FuzzedParser, data: bytes, about: object) -> None:
    began = time.process_time()
    try:
        parser.accepts(data)
    except Exception as error:
        raise AssertionError(f"{about}: {type(error).__name__}: {error}") from error
    assert time.process_time() - began < SECONDS, about


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_what_once_failed_is_read_or_refused_as_documented(parser: FuzzedParser) -> None:
    for number, seed in enumerate(parser.seeds):
        replayed(parser, seed, f"seed {number}")
    for file in parser.failed_once:
        replayed(parser, file.read_bytes(), file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1024 * (MEBIBYTES + 500), "beside what a worker of pytest holds"


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_what_is_like_a_sound_input_is_read_or_refused_as_documented(parser: FuzzedParser) -> None:
    for number in range(20):
        chance = random.Random(number)
        data = mutated(chance.choice(parser.seeds), chance)
        if len(data) < 50_000:
            replayed(parser, data, (number, data))


def test_every_folder_of_the_corpus_is_of_a_parser() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} <= set(PARSERS)


def _reads(file: Path) -> bool:
    calls = [node.func for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return any((call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "")) in READING for call in calls)


def test_every_module_that_reads_what_others_write_has_a_fuzzer() -> None:
    tried = {room for parser in PARSERS.values() for room in parser.rooms}
    for room in tried | TRUSTED.keys():
        assert (PROJECT / room).is_file(), room
    rooms = [file for top in ("headway", "components", "stacks", "policies") for file in sorted((PROJECT / top).rglob("*.py"))]
    reading = {file.relative_to(PROJECT).as_posix() for file in rooms if "earlier_gates" not in file.parts and _reads(file)}
    assert reading - tried - TRUSTED.keys() == set(), "a module that reads belongs into tests/fuzz, or into TRUSTED with its reason"
    assert TRUSTED.keys() <= reading, "no longer reads"
