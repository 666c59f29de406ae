"""Pages that people write: lines that fit a screen, links that lead somewhere, decisions without gaps, commands that parse."""

import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests import dry_runs

ROOT = Path(__file__).parents[3]
LONGEST_LINE = 120
TUTORIAL = "tenants/acme/"
"""What a reader of the guide writes."""
MOST_WORDS = 43_600
"""In code blocks none are counted. Who adds a sentence takes another one away; the bed of language models and their memory brought 450, forms of
more than one device 200, pools of engines 200, the first request at zero 100,
diagnosis 600, who wakes a service 100."""
GENERATED = {
    "packages/pulumi-embedded/docs/types.md",
    "packages/pulumi-embedded/docs/unchecked.md",
    "docs/policies.md",
    "docs/reference/contract.md",
    "docs/reference/gate-figures.md",
    "docs/reference/gate-paths.md",
    "docs/reference/isolation.md",
    "docs/runbooks/README.md",
}
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PAGES = sorted(subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())


@cache
def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[str]:
    """Contents of the page's code blocks, fenced or indented by four spaces after an empty line."""
    fenced = re.findall(r"^ *```[^\n]*\n(.*?)^ *```", text(page), re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^ *```.*?^ *```", "", text(page), flags=re.MULTILINE | re.DOTALL)
    return fenced + re.findall(r"\n\n((?:    [^\n]*\n+)+)", rest)


def prose(page: str) -> list[tuple[int, str]]:
    """Numbered lines outside code blocks, tables and headings, with the targets of links and addresses taken off."""
    lines, in_fence = [], False
    for number, line in enumerate(text(page).split("\n"), 1):
        if line.lstrip().startswith("```"):
            in_fence = not in_fence
        elif not in_fence and not line.startswith("    ") and not line.lstrip().startswith(("|", "<!--")):
            lines.append((number, re.sub(r"https?://\S+", "", re.sub(r"\]\([^)]*\)", "]", line))))
    return lines


def anchors(page: str) -> set[str]:
    """Anchors of headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^ *```.*?^ *```", "", text(page), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", t).lower()).replace(" ", "-") for t in titles}


@pytest.mark.parametrize("page", [p for p in PAGES if p not in GENERATED])
def test_lines_of_prose_fit_in_120_columns(page: str) -> None:
    assert [f"{page}:{n}" for n, line in prose(page) if len(line) > LONGEST_LINE] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_and_to_a_heading(page: str) -> None:
    broken = []
    for target in LINK.findall(re.sub(r"^ *```.*?^ *```", "", text(page), flags=re.MULTILINE | re.DOTALL)):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(str(file.resolve().relative_to(ROOT)))):
            broken.append(target)
    assert broken == []


def test_decisions_are_numbered_without_gaps() -> None:
    pages = sorted((ROOT / "docs/adr").glob("*.md"))
    assert [int(p.name[:4]) for p in pages] == list(range(1, len(pages) + 1))
    assert [p.name for p in pages if not p.read_text(encoding="utf-8").startswith(f"# {int(p.name[:4])}. ")] == []


def test_decisions_that_are_named_anywhere_exist() -> None:
    numbers = {int(p.name[:4]) for p in (ROOT / "docs/adr").glob("*.md")}
    files = subprocess.run(["git", "grep", "-nIE", r"ADR [1-9][0-9]*"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line for line in files.splitlines() for n in re.findall(r"ADR 0*(\d+)", line) if int(n) not in numbers] == []


def test_what_people_write_stays_readable_in_an_afternoon() -> None:
    words = {
        page: sum(
            bool(re.search(r"\w", word)) for word in re.sub(r"^ *```.*?^ *```", "", text(page), flags=re.MULTILINE | re.DOTALL).split()
        )
        for page in PAGES
        if page not in GENERATED
    }
    assert sum(words.values()) <= MOST_WORDS, sorted(words.items(), key=lambda i: -i[1])[:10]


def commands(page: str) -> list[str]:
    """Commands of headway on the page, in code blocks and in code spans, without comments, pipes and redirections."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text(page), flags=re.MULTILINE | re.DOTALL))
    lines = [line.strip() for block in blocks(page) for line in block.split("\n")] + spans
    found = []
    for line in lines:
        for part in re.split(r"&&|;|\|\s", line.split(" #")[0].split("  ")[0]):
            match = re.match(r"(?:\.venv/bin/)?headway ((?:[a-z]|-)[^>]*?)(?:[<>] .*)?$", part.strip())
            if match and "," not in match[1] and "…" not in match[1]:
                found.append(match[1].strip())
    return found


def refusal_of(command: str) -> str | None:
    """What the real parser says against the command; None where it takes it. Nothing is run."""
    if "|" in command:
        return None  # a form such as start|status|watch
    return dry_runs.headway(shlex.split(command))


@pytest.mark.parametrize("page", [p for p in PAGES if not p.startswith("packages/") and commands(p)])
def test_commands_of_headway_are_taken_by_its_parser(page: str) -> None:
    assert {c: refusal_of(c) for c in commands(page) if refusal_of(c)} == {}


def stacks(page: str) -> set[str]:
    """Stacks and environments (`dev-cluster`, `dev`) that commands of pulumi or headway on the page name; `<env>` and `ENV` stand for any."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text(page), flags=re.MULTILINE | re.DOTALL))
    lines = [line for block in blocks(page) for line in block.split("\n")] + spans
    commands = [line.split(" #")[0] for line in lines if re.search(r"(^|[\s/])(pulumi|headway) ", line)]
    named = r"(?: -s| --stack| -e| --environment| stack init| stack select) +([a-z][a-z0-9-]*)"
    return {name for command in commands for name in re.findall(named, command)}


@pytest.mark.parametrize("page", [p for p in PAGES if stacks(p)])
def test_a_stack_or_environment_that_a_command_names_has_a_file(page: str) -> None:
    files = {file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in (ROOT / "stacks").glob("Pulumi.*.yaml")}
    known = files | {file.removesuffix("-cluster") for file in files if file.endswith("-cluster")}
    assert sorted(stacks(page) - known) == []


def paths(page: str) -> list[str]:
    """Files and folders of this repository that the page names in code spans."""
    rooms = "|".join(sorted(p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith((".", "build"))))
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text(page), flags=re.MULTILINE | re.DOTALL))
    return [span for span in spans if re.fullmatch(rf"(?:{rooms})/[\w./-]*", span) and not span.startswith(TUTORIAL)]


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page: str) -> None:
    near = [ROOT, (ROOT / page).parent, ROOT / "packages/pulumi-embedded"]
    assert [path for path in paths(page) if not any((folder / path).exists() for folder in near)] == []


def test_pages_that_the_program_names_exist() -> None:
    rooms = ["headway", "components", "stacks", "policies", "sandbox", "tenants", "benchmarks", "Makefile"]
    listed = subprocess.run(
        ["git", "grep", "-ohE", r"\bdocs/[a-z0-9/-]+\.md\b", "--", *rooms], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert sorted({page for page in listed.stdout.split() if not (ROOT / page).exists()}) == []
