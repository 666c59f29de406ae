"""Which tests of the quick tier can reach what differs from a commit, and whose types it can concern.

    python -m tests.reached [COMMIT]
    python -m tests.reached --types [COMMIT]

A test reaches what its file names, what that names, and so on. A file names what it imports, modules whose name it spells, and files and
folders whose path it spells or has a pattern for. That is more than what runs, and less than everything. Where nothing can be concluded,
every test is chosen. `tests/watched.py` holds this against what each test opens. Types concern what changed and whatever imports it, however
far away, since they are inferred through any number of files.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
QUICK = ("packages/pulumi-embedded/tests/providers", "tests/components", "tests/policies", "tests/unit")
IMPORTED_FROM = ("", "packages/pulumi-embedded/src/", "packages/pulumi-embedded/tests/", "packages/pulumi-embedded/tests/providers/")
OF_ALL = ("Makefile", "pyproject.toml", "packages/pulumi-embedded/pyproject.toml", "requirements/", "tests/conftest.py", "tests/skips.py")
"""Everything is tested in what these say."""
OF_TYPES = ("pyproject.toml", "packages/pulumi-embedded/pyproject.toml", "requirements/", "tests/pyrightconfig.json")
"""Every file's types are checked by what these say."""
TESTS = ("tests/", "packages/pulumi-embedded/tests/")
OPENED = frozenset({"Path", "joinpath", "with_name", "glob", "rglob", "open"})
"""Calls whose arguments are paths, also without a slash or a suffix."""
BESIDES = {
    "tests/unit/benchmarks/test_release_attacks.py": "tests/*/test_*.py",
    "tests/unit/test_bounds.py": "components/model_service/scripts/*.py",
    "tests/unit/test_generated_docs.py": "policies/*.py",
    "tests/unit/test_weakenings.py": "[chp]*/*.py",
}
"""What a test opens though nothing that it names spells the path."""
COPIES = "copytree("
"""Who says this may mean a folder by its bare name."""
LISTS = ("glob(", "iterdir(", COPIES, "git", ".walk(")
"""Who says none of these reads no code by the name of its folder."""
PATTERN = re.compile(r"(\w{3}[\w.-]*/[\w.*/-]*|[\w.*/-]*\.[a-z]{2,})$")
"""Patterns that say something; `*/*` does not."""
LONGEST_TEXT = 1000


Named = tuple[str, bool]
"""A file, and whether it runs; else it is read at most, and what it names does not matter."""


@dataclass(frozen=True)
class Choice:
    """Test files to run, and why."""

    tests: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Checkout:
    """The files of a checkout by their paths from its top, and what is in them."""

    files: frozenset[str]
    read: Callable[[str], str]
    _known: dict[str, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict, repr=False, compare=False)

    def choice(self, changed: frozenset[str]) -> Choice:
        """The tests that can reach what changed: all of them where somebody cannot tell."""
        everything = tuple(sorted(self.tests))
        if not changed:
            return Choice(everything, "nothing differs")
        if of_all := sorted(each for each in changed if each.startswith(OF_ALL)):
            return Choice(everything, f"{of_all[0]} concerns every test")
        reached = {test: self.reached_by(test) for test in everything}
        if unknown := sorted(changed - frozenset().union(*reached.values())):
            return Choice(everything, f"no test names {unknown[0]}")
        return Choice(tuple(test for test, files in reached.items() if files & changed), f"{len(changed)} changed files")

    def typed(self, changed: frozenset[str]) -> frozenset[str] | None:
        """The files whose types a change can concern; None stands for all."""
        if not changed or any(each.startswith(OF_TYPES) for each in changed):
            return None
        found: set[str] = set()
        ahead = {each for each in changed if each.endswith(".py")}
        while ahead:
            file = ahead.pop()
            found.add(file)
            ahead |= self._importers.get(file, frozenset()) - found
        return frozenset(each for each in found & self.files if self.read(each))

    @cached_property
    def _importers(self) -> Mapping[str, frozenset[str]]:
        pairs = ((path, file) for file in self.files if file.endswith(".py") for path in self._imports(file))
        return {path: frozenset(files) for path, files in _grouped(pairs).items()}

    def _imports(self, file: str) -> frozenset[str]:
        return frozenset(path for node in ast.walk(ast.parse(self.read(file))) for path, _ in self._imported_by(node, file))

    @cached_property
    def tests(self) -> frozenset[str]:
        return frozenset(each for each in self.files if each.startswith(QUICK) and _name(each).startswith("test_") and each.endswith(".py"))

    def reached_by(self, test: str) -> frozenset[str]:
        """The files that a test names, those that these name, and so on."""
        above = {f"{folder}/{name}" for folder in PurePosixPath(test).parents for name in ("conftest.py", "__init__.py")}
        run: set[str] = set()
        read: set[str] = set()
        ahead = {test} | above & self.files
        while ahead:
            file = ahead.pop()
            run.add(file)
            runs, reads = self._named(file)
            read |= reads
            ahead |= runs - run
        pattern = BESIDES.get(test, "")
        return frozenset(run | read) | {each for each in self.files if fnmatchcase(each, pattern)}

    def _named(self, file: str) -> tuple[frozenset[str], frozenset[str]]:
        """The files that run where this one does, and those that it may read."""
        if file not in self._known:
            named = frozenset(self._named_in(file)) if file.endswith(".py") else frozenset[Named]()
            self._known[file] = frozenset(each for each, runs in named if runs), frozenset(each for each, _ in named)
        return self._known[file]

    def _named_in(self, file: str) -> Iterator[Named]:
        nodes = list(ast.walk(ast.parse(self.read(file))))
        silent = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        if not file.startswith(TESTS):
            silent |= {id(word) for node in nodes if isinstance(node, ast.Tuple | ast.List) for word in _started(node)}
        for node in nodes:
            yield from self._imported_by(node, file)
            match node:
                case ast.BinOp(op=ast.Div()):
                    for path in _runs(node):
                        yield from self._at(path, file, path_for_sure=True)
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in OPENED:
                    for argument in node.args:
                        yield from self._at(_text(argument), file, path_for_sure=True)
                case ast.JoinedStr():
                    yield from self._spelled(_text(node, __name__=_dotted(file)), file)
                case ast.Constant(value=str(text)) if id(node) not in silent and len(text) < LONGEST_TEXT:
                    yield from self._spelled(text, file)
                case _:
                    pass

    def _imported_by(self, node: ast.AST, file: str) -> Iterator[Named]:
        """What a statement imports."""
        match node:
            case ast.Import():
                for alias in node.names:
                    yield from self._imported(alias.name, file)
            case ast.ImportFrom():
                package = ".".join(PurePosixPath(file).parts[: -node.level]) if node.level else ""
                base = ".".join(filter(None, (package, node.module)))
                for alias in node.names:
                    yield from self._imported(f"{base}.{alias.name}", file)
            case _:
                pass

    def _spelled(self, text: str, file: str) -> Iterator[Named]:
        """What the words of a text stand for: modules, files, folders."""
        for word in (word.strip("'\"`,;()") for word in text.split()):
            dotted = word.partition(":")[0]
            if "/" not in dotted and dotted.partition(".")[0] in self._tops and "." in dotted:
                for module in self._entry_points.get(dotted, (dotted,)):
                    yield from self._imported(module, file)
                yield from ((path, True) for name, path in self._modules.items() if "*" in dotted and fnmatchcase(name, dotted))
            copied = word in self._below and "/" not in word and COPIES in self.read(file)
            if "/" in word or "." in word or copied:
                yield from self._at(word, file, path_for_sure=copied)

    def _at(self, path: str, file: str, *, path_for_sure: bool) -> Iterator[Named]:
        """The files at a path or a pattern: from the top, from the file's own folder, or else wherever it may begin."""
        path = path.strip("/").removeprefix("./").removeprefix("../")
        if "*" in path:
            if PATTERN.match(path):
                # The product's own patterns for code stay in their folder.
                own = "" if file.startswith(TESTS) or not path.endswith(".py") else f"{PurePosixPath(file).parent}/"
                yield from ((each, False) for each in self.files if each.startswith(own) and fnmatchcase(f"/{each}", f"*/{path}"))
            return
        last = _name(path)
        yield from ((each, not last.startswith("test_")) for each in self._begun(path, file, self._by_name.get(last, ())))
        if path_for_sure or "/" in path:
            lists = any(word in self.read(file) for word in LISTS)
            for folder in self._begun(path, file, self._folders.get(last, ())):
                for each in self._below[folder]:
                    if each == f"{folder}/__main__.py":
                        yield each, True
                    elif not each.endswith(".py") or lists:
                        yield each, False

    @staticmethod
    def _begun(path: str, file: str, those: Sequence[str]) -> Sequence[str]:
        for known in (path, f"{PurePosixPath(file).parent}/{path}"):
            if known in those:
                return (known,)
        return [each for each in those if f"/{each}".endswith(f"/{path}")]

    def _imported(self, dotted: str, file: str) -> Iterator[Named]:
        """The module of a dotted name with the packages that it lies in, as far as they are here."""
        own = f"{PurePosixPath(file).parent}/".removeprefix("./")
        for place in (own, *IMPORTED_FROM):
            parts = [*dotted.split("."), ""]
            found = [
                each
                for end in range(1, len(parts))
                for path in (place + "/".join(parts[:end]),)
                for each in (f"{path}.py", f"{path}/__init__.py", "" if parts[end] else f"{path}/__main__.py")
                if each in self.files
            ]
            if found:  # a folder of that name without code, beside the file, is not what is meant
                yield from ((each, True) for each in found)
                return

    @cached_property
    def _modules(self) -> Mapping[str, str]:
        return {_dotted(each): each for each in self.files if each.endswith(".py")}

    @cached_property
    def _tops(self) -> frozenset[str]:
        return frozenset(each.partition(".")[0] for each in self._modules)

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        return _grouped((_name(each), each) for each in self.files)

    @cached_property
    def _below(self) -> Mapping[str, list[str]]:
        return _grouped((str(folder), each) for each in self.files for folder in PurePosixPath(each).parents[:-1])

    @cached_property
    def _folders(self) -> Mapping[str, list[str]]:
        return _grouped((_name(folder), folder) for folder in self._below)

    @cached_property
    def _entry_points(self) -> Mapping[str, list[str]]:
        """The modules of each group: who spells its name loads them."""
        groups = tomllib.loads(self.read("pyproject.toml"))["project"]["entry-points"] if "pyproject.toml" in self.files else {}
        return {group: [place.partition(":")[0] for place in places.values()] for group, places in groups.items()}


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _dotted(file: str) -> str:
    root = max((each for each in IMPORTED_FROM if file.startswith(each)), key=len)
    return file.removeprefix(root).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _text(node: ast.expr, **known: str) -> str:
    """What an expression says as far as it is written there; a star is the rest."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr():
            return "".join(_text(each, **known) for each in node.values)
        case ast.FormattedValue(value=ast.Name(id=name)):
            return known.get(name, "*")
        case _:
            return "*"


def _started(words: ast.Tuple | ast.List) -> Iterator[ast.expr]:
    """The module of a command `python -m module`: no test of this tier lets the product start a process of its own."""
    yield from (after for word, after in pairwise(words.elts) if _text(word) == "-m")


def _runs(node: ast.expr) -> Iterator[str]:
    """The paths in a chain of slashes: `ROOT / "docs" / "guide" / page` spells `docs/guide`."""
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts.insert(0, _text(node.right))
        node = node.left
    parts.insert(0, _text(node))
    for run in "/".join("\n" if part == "*" else part for part in parts).split("\n"):
        if run.strip("/"):
            yield run


def git(*arguments: str) -> str | None:
    """What git answers, if it does."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def differing(commit: str) -> frozenset[str] | None:
    """The files that differ from where this branch left a commit's, also what git was not told of; None where there is no such commit."""
    base = git("merge-base", commit, "HEAD")
    if base is None:
        return None
    listed = (git("diff", "--name-only", "-z", base.strip()), git("ls-files", "--others", "--exclude-standard", "-z"))
    return frozenset("".join(each or "" for each in listed).split("\0")) - {""}


def checkout(also: frozenset[str] = frozenset()) -> Checkout:
    """This checkout; of files that are gone, only their names."""
    listed = frozenset((git("ls-files", "--cached", "--others", "--exclude-standard", "-z") or "").split("\0")) - {""}
    return Checkout(listed | also, lambda path: (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else "")


def main(*given: str) -> None:
    """Print the test files to run, or those to check the types of, a line; on stderr, what was chosen and why."""
    commit = next((each for each in given if not each.startswith("-")), "main")
    changed = differing(commit)
    here = checkout(changed or frozenset())
    if "--types" in given:
        typed = here.typed(changed) if changed is not None else None
        many = "every file" if typed is None else f"{len(typed)} files"
        sys.stderr.write(f"types: {many}, by what differs from {commit} and who imports it; all: make types\n")
        sys.stdout.write("every" if typed is None else "\n".join(sorted(typed)))
        return
    choice = here.choice(changed or frozenset())
    why = choice.why if changed is not None else f"there is no commit {commit}"
    said = f"tests: {len(choice.tests)} of {len(here.tests)} files can reach what differs from {commit} ({why}); all: make unit"
    sys.stderr.write(f"{said}\n")
    sys.stdout.write("\n".join(choice.tests))


if __name__ == "__main__":
    main(*sys.argv[1:])
