"""Every command that a page prints: it parses, its program takes it, and where a test runs the page, that test is there."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests import day_two_page, dry_runs, guide_page

ROOT = Path(__file__).parents[3]
BEGINS = rf"(?:\w+=\S+ )*(?:\.venv/bin/)?(?:{'|'.join(sorted(dry_runs.PROGRAMS))}) "
LANGUAGES = {"diagnosis", "diff", "json", "python", "text", "toml", "yaml"}
"""Of blocks that nobody types; what `headway diagnose` writes into runbooks is held by a test of its own."""
RUN_BY = {
    "CONTRIBUTING.md": "tests/unit/docs/test_contributing.py",
    "docs/guide/aws.md": "tests/cluster/sandbox/test_guide.py",
    "docs/guide/own-release.md": "tests/traffic/test_own_release.py",
}
"""Pages whose commands a test runs besides; it says itself which it cannot run, and why."""
PAGES = sorted(
    page
    for page in subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    if not page.startswith("packages/")  # a distribution of its own, with tests of its own
)


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def is_figure(block: str) -> bool:
    """A drawing, a table or the output of a command."""
    return bool(re.search(r"[─│✓→^]|-{3,}>|^\w+: |^[A-Z]", block, re.MULTILINE)) and not re.search(rf"^{BEGINS}", block, re.MULTILINE)


def lines(block: str) -> list[str]:
    """The command lines of a block, without comments; one that ends in `|` or a backslash goes on."""
    joined = re.sub(r"\\\n\s*|(?<=\|)\n\s*", " ", block)
    return [line for each in joined.splitlines() if (line := re.sub(r"(^|\s)#.*$", "", each).strip())]


def typed_blocks(page: str) -> list[str]:
    """Blocks of commands on the page, fenced without a language or indented by four spaces after an empty line."""
    fenced = r"^( *)```(\w*)\n(.*?)^ *```"
    blocks = [block for _, language, block in re.findall(fenced, text(page), re.MULTILINE | re.DOTALL) if not language]
    rest = re.sub(fenced, "", text(page), flags=re.MULTILINE | re.DOTALL)
    return [block for block in [*blocks, *re.findall(r"\n\n((?:    [^\n]*\n+)+)", rest)] if not is_figure(block)]


def commands(page: str) -> list[str]:
    """Every command on the page: in blocks, and in spans that begin with a program and say more than its name, also over a line's end."""
    prose = re.sub(r"^( *)```(\w*)\n(.*?)^ *```", "", text(page), flags=re.MULTILINE | re.DOTALL)
    spans = [re.sub(r"\s+", " ", span) for span in re.findall(rf"`({BEGINS}[^`]+)`", re.sub(r"(?<=\S)\n *(?=\S)", " ", prose))]
    written_out = [span for span in spans if not re.search(r"…|\S\|\S|, |\bCOMMAND\b", span)]
    return [*(line for block in typed_blocks(page) for line in lines(block)), *written_out]


@pytest.mark.parametrize("page", PAGES)
def test_no_command_hides_in_a_block_that_no_test_reads(page: str) -> None:
    """Behind a language, or a fence of another kind: `bash` would be looked at by nobody."""
    assert not re.search(r"^ *(?:~~~|````)|^ *```\w*[^\w\n`]", text(page), re.MULTILINE), "fences are ``` and a language at most"
    tagged = re.findall(r"^ *```(\w+)\n(.*?)^ *```", text(page), re.MULTILINE | re.DOTALL)
    assert {language for language, _ in tagged} <= LANGUAGES
    typed = [line for language, block in tagged if language != "diagnosis" for line in block.splitlines() if re.match(f" *{BEGINS}", line)]
    assert [line for line in typed if not re.search(r"\S {3,}\S", line)] == [], "a row of a table has columns"


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_every_command_of_a_page_parses_and_its_program_takes_it(page: str) -> None:
    judged = [line for line in commands(page) if dry_runs.reason_not_judged(line) is None]
    assert {line: said for line in judged if (said := dry_runs.wrong_in(line))} == {}


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/runbooks/") and "`headway " in text(page)])
def test_commands_of_a_runbook_are_complete_and_name_the_environment(page: str) -> None:
    typed = [shlex.split(line)[1:] for line in commands(page) if line.startswith("headway ")]
    assert {" ".join(words): said for words in typed if (said := dry_runs.headway(words, complete=True))} == {}


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/guide/") or page == "README.md"])
def test_what_a_guide_lets_people_type_names_the_environment(page: str) -> None:
    typed = [re.match(r"(?:\.venv/bin/)?headway ([^<>|;&]*)", line) for block in typed_blocks(page) for line in lines(block)]
    words = [shlex.split(found[1]) for found in typed if found]
    assert {" ".join(each): said for each in words if (said := dry_runs.headway(each, complete=True))} == {}


def test_a_line_with_a_variable_before_it_is_a_command_and_no_figure() -> None:
    assert not is_figure("HEADWAY_UPDATE_GOLDEN=1 .venv/bin/pytest tests/components\n")
    assert is_figure("Contracts\naccepted: 2 tenants\n")


def test_a_command_that_goes_on_in_the_next_line_of_prose_is_one() -> None:
    asked = "kubectl -n gpu-operator get pods --field-selector spec.nodeName=NODE"
    assert asked in commands("docs/runbooks/mig-layout-late.md")
    assert asked not in text("docs/runbooks/mig-layout-late.md")


@pytest.mark.parametrize("page", RUN_BY)
def test_a_page_that_a_test_runs_is_read_by_that_test(page: str) -> None:
    assert page in text(RUN_BY[page])


def test_each_block_of_the_walked_guides_is_read_by_the_tests_that_walk_them() -> None:
    aws, typed = text("docs/guide/aws.md"), "docs/guide/day-two.md"
    read = sum(2 if step[2] is None else 4 for step in guide_page.STEP.finditer(aws))
    assert len(re.findall(r"^ *```", aws, re.MULTILINE)) == read
    walked = [line for below in day_two_page.sections().values() for line in below]
    assert [line for block in typed_blocks(typed) for line in lines(block)] == walked


def test_a_command_that_is_not_judged_stands_on_a_page() -> None:
    everywhere = [line for page in PAGES for line in commands(page)]
    assert [start for start in dry_runs.NOT_JUDGED if not any(line.startswith(start) for line in everywhere)] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("release freeze", "it does not say which environment it means"),
        ("release freeze -e ENV --reason SloBurnRate", "Missing argument"),
        ("release freeze TENANT/MODEL -e ENV", "Missing option '--reason'"),
        ("nodes quarantine NODE", "Missing option '--reason'"),
        ("release freeze TENANT/MODEL -e ENV --reason SloBurnRate", None),
        ("nodes", None),
    ],
)
def test_a_dry_run_finds_what_a_command_of_a_runbook_lacks(words: str, said: str | None) -> None:
    found = dry_runs.headway(words.split(), complete=True)
    assert found is None if said is None else said in (found or "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("headway check --environment dev", None),
        ("headway chek", "there is no command chek"),
        ("headway cost --enviroment dev", "No such option: --enviroment"),
        ("pulumi up -s dev-cluster --yes", None),
        ("pulumi preview --dif", "unknown flag: --dif"),
        ("aws s3api create-bucket --bucket b --query Location", None),
        ("aws s3api make-bucket --bucket b", "s3api has no operation make-bucket"),
        ("aws kms create-alias --alias a", "kms create-alias takes no --alias"),
        ('TOKEN=$(kubectl create token x --audiense y); echo "$TOKEN"', "kubectl create is not known to take --audiense"),
        ("make up && make everything", "the Makefile has no everything"),
        ("helm install x", "helm install is not among the verbs of our pages"),
        ("python -m benchmarks.release --bake", None),
        ("python -m benchmarks.release --rarely", "benchmarks.release names no --rarely"),
        ("python -m benchmarks.nothing", "there is no benchmarks.nothing"),
        (".venv/bin/pytest tests/nowhere.py", "there is no tests/nowhere.py"),
        ("istioctl install x", "no dry run knows the program istioctl"),
        ("eval 'x", "unexpected EOF"),
    ],
)
def test_a_dry_run_finds_what_is_wrong(line: str, said: str | None) -> None:
    found = dry_runs.wrong_in(line)
    assert found is None if said is None else said in (found or "")


@pytest.mark.parametrize("page", [page for page in PAGES if "nslookup" in text(page)])
def test_busybox_is_asked_for_whole_names(page: str) -> None:
    """It tries no search domain for a name with a dot in it (busybox 1.30 and later, networking/nslookup.c, `add_query_with_search`)."""
    asked = [line.split()[-1] for line in commands(page) if "nslookup" in line]
    assert asked and all(name.endswith(".svc.cluster.local") for name in asked), "a name server that is well would seem broken"
