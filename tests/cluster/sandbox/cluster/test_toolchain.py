"""Building once, wholly, and for one at a time: proved with a `go` of the test's own that says and does what Go would.

The last tests run the real Go against the real registry, on what takes seconds: the CRDs, and a program of one line.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headway.problem import Exit, UserError
from sandbox.cluster import build_commands, golang, linux
from sandbox.cluster.toolchain import Toolchain, ensure_toolchain
from sandbox.cluster.toolsets import CRDS, Binary, ModuleFiles, ToolSet, fingerprint
from sandbox.layout import Layout
from sandbox.progress import Silent

GO_MOD = "module example\n\ngo 1.26.0\n\nrequire example.invalid/data v1.2.3\n"

FAKE_GO = """#!{python}
import json, os, sys, time
from pathlib import Path
verb = sys.argv[1]
if verb == "version":
    print("go version go{version} linux/amd64")
elif verb == "list":
    print("go: downloading example.invalid/data v1.2.3", file=sys.stderr)
    print("runtime\\nunsafe\\nexample")
elif verb == "build":
    Path({counter!r}).open("a").write("built\\n")
    {during}
    print("runtime\\nexample", file=sys.stderr)
    output = Path(sys.argv[sys.argv.index("-o") + 1])
    output.write_text("#!/bin/sh\\n")
    output.chmod(0o755)
elif verb == "mod":
    folder = Path(os.environ["GOMODCACHE"]) / "data"
    (folder / "crd").mkdir(parents=True, exist_ok=True)
    (folder / "crd" / "a.yaml").write_text("kind: CustomResourceDefinition")
    (folder / "crd" / "b.yaml").write_text("kind: Other")
    print(json.dumps({{"Dir": str(folder)}}))
"""


class Told:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, key: str, text: str) -> None:
        self.lines.append(f"{key}: {text}")

    def done(self, key: str, text: str) -> None:
        self.lines.append(f"{key} done: {text}")

    def failed(self, key: str, text: str) -> None:
        self.lines.append(f"{key} failed: {text}")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path / "cache")


@pytest.fixture
def tools(tmp_path: Path) -> ToolSet:
    folder = tmp_path / "modules" / "tools"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text(GO_MOD)
    (folder / "go.sum").write_text("example.invalid/data v1.2.3 h1:x\nexample.invalid/data v1.2.3/go.mod h1:y\n")
    (folder / "main.go").write_text("package main\n\nfunc main() {}\n")
    return ToolSet(
        name="tools",
        source=folder.parent,
        binaries=(
            Binary(name="all", package=".", programs=("one", "two"), stamps=lambda versions: {"v": versions["example.invalid/data"]}),
        ),
        files=(
            ModuleFiles(
                folder="crds", module="example.invalid/data", patterns=("crd/*.yaml",), containing="kind: CustomResourceDefinition"
            ),
        ),
        disk_bytes=1000,
    )


GoMaker = Callable[..., None]


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoMaker:
    """Puts a `go` first on PATH; `during` is what it does while it builds."""

    def make(during: str = "pass", version: str = "1.26.8") -> None:
        path = tmp_path / "path" / "go"
        path.parent.mkdir(exist_ok=True)
        path.write_text(FAKE_GO.format(python=sys.executable, version=version, counter=str(tmp_path / "builds"), during=during))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")

    return make


def build(layout: Layout, tools: ToolSet, told: Told | None = None, free: int = 1 << 40) -> Toolchain:
    return ensure_toolchain(layout, told or Silent(), ("tools",), available={"tools": tools}, free_bytes=lambda _: free)


def builds(layout: Layout) -> int:
    counter = layout.project / "builds"
    return len(counter.read_text().splitlines()) if counter.exists() else 0


def leftovers(layout: Layout) -> list[str]:
    work = layout.toolchain / ".work"
    return sorted(path.name for path in work.iterdir()) if work.exists() else []


def test_programs_files_and_their_names_are_there_and_nothing_else_is_left(layout: Layout, tools: ToolSet, fake_go: GoMaker) -> None:
    fake_go()
    toolchain = build(layout, tools)
    assert os.access(toolchain.binary("one"), os.X_OK)
    assert toolchain.binary("one").resolve() == toolchain.binary("two").resolve()
    assert [path.name for path in toolchain.files("tools", "crds")] == ["a.yaml"], "only what contains the wanted kind"
    assert leftovers(layout) == []


def test_it_is_built_once(layout: Layout, tools: ToolSet, fake_go: GoMaker) -> None:
    fake_go()
    build(layout, tools)
    build(layout, tools)
    assert builds(layout) == 1


def test_what_is_built_is_used_without_any_go(layout: Layout, tools: ToolSet, fake_go: GoMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_go()
    built = build(layout, tools)
    monkeypatch.setenv("PATH", "/nowhere")
    assert build(layout, tools) == built


def test_the_next_version_is_built_beside_and_the_oldest_is_dropped(layout: Layout, tools: ToolSet, fake_go: GoMaker) -> None:
    fake_go()
    folders: list[Path] = []
    for number in range(3):
        (tools.folder / "main.go").write_text(f"package main // {number}\n")
        folders.append(build(layout, tools).folders["tools"])
        os.utime(folders[-1], (number, number))
    assert [folder.exists() for folder in folders] == [False, True, True]


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "main.go"])
def test_every_input_counts(tools: ToolSet, file: str) -> None:
    before = fingerprint(tools)
    path = tools.folder / file
    path.write_text(path.read_text() + "\n")
    assert fingerprint(tools) != before


def test_a_note_beside_the_sources_does_not_count(tools: ToolSet) -> None:
    before = fingerprint(tools)
    (tools.folder / "README.md").write_text("x")
    assert fingerprint(tools) == before


def test_a_stamp_and_a_tag_count(tools: ToolSet) -> None:
    (binary,) = tools.binaries
    variants = [
        binary,
        replace(binary, stamps=lambda _: {"v": "other"}),
        replace(binary, tags=("small",)),
        replace(binary, programs=("one",)),
    ]
    assert len({fingerprint(replace(tools, binaries=(variant,))) for variant in variants}) == 4


def test_a_failed_compilation_says_where_to_read_and_leaves_no_toolchain(layout: Layout, tools: ToolSet, fake_go: GoMaker) -> None:
    fake_go("sys.exit('main.go:3: undefined: x')")
    told = Told()
    with pytest.raises(UserError) as failure:
        build(layout, tools, told)
    assert failure.value.fact == "Compiling all failed."
    assert "undefined: x" in failure.value.consequence
    assert str(layout.logs / "build-tools.log") in failure.value.consequence
    assert "undefined: x" in (layout.logs / "build-tools.log").read_text()
    assert [path.name for path in layout.toolchain.iterdir() if not path.name.startswith(".")] == []
    assert told.lines[-1].startswith("build/tools failed")


def test_an_interrupted_build_goes_on_where_it_stopped(layout: Layout, tools: ToolSet, fake_go: GoMaker) -> None:
    fake_go("(Path(os.environ['GOCACHE'])).mkdir(); (Path(os.environ['GOCACHE']) / 'compiled').touch(); sys.exit('signal: killed')")
    with pytest.raises(UserError, match="continues where it stopped"):
        build(layout, tools)
    fake_go("assert (Path(os.environ['GOCACHE']) / 'compiled').exists()")
    build(layout, tools)
    assert leftovers(layout) == []


def test_what_an_interrupted_build_of_other_sources_left_is_swept(layout: Layout, tools: ToolSet, fake_go: GoMaker) -> None:
    fake_go("sys.exit(1)")
    with pytest.raises(UserError):
        build(layout, tools)
    assert len(leftovers(layout)) == 1
    (tools.folder / "main.go").write_text("package main // corrected\n")
    fake_go()
    build(layout, tools)
    assert leftovers(layout) == []


def test_too_little_disk_is_told_before_anything_is_downloaded(layout: Layout, tools: ToolSet, fake_go: GoMaker) -> None:
    fake_go()
    with pytest.raises(UserError) as refusal:
        build(layout, tools, free=999)
    assert "0.0 GiB are free" in refusal.value.fact
    assert "HEADWAY_CACHE" in refusal.value.remedy
    assert builds(layout) == 0
    build(layout, tools, free=1000)


def test_a_disk_that_fills_up_is_told_and_what_was_begun_is_deleted(layout: Layout, tools: ToolSet, fake_go: GoMaker) -> None:
    fake_go("sys.exit('write /x/cache/ab-d: no space left on device')")
    with pytest.raises(UserError, match="The disk filled up while compiling all"):
        build(layout, tools)
    assert leftovers(layout) == []


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("dial tcp: lookup proxy.invalid: no such host", "A package registry cannot be reached"),
        ("Get https://proxy.invalid: 403 Forbidden", "A package registry cannot be reached"),
        ("verifying example.invalid/data@v1.2.3: checksum mismatch", "A download does not match the checksum in the lock file"),
        ("compile: signal: killed", "The compiler was killed"),
        ("main.go:1: syntax error", "Compiling failed"),
    ],
)
def test_each_kind_of_failure_has_its_own_remedy(said: str, fact: str) -> None:
    error = build_commands.explain(build_commands.CommandError(["go"], 1, ["before", said]), doing="compiling", log=Path("build.log"))
    assert error.fact.startswith(fact)
    assert said in error.consequence
    assert error.exit == Exit.ENVIRONMENT


def test_the_second_of_two_builders_waits_says_so_and_builds_nothing(layout: Layout, tools: ToolSet, fake_go: GoMaker) -> None:
    fake_go("time.sleep(1)")
    told = Told()
    first = threading.Thread(target=build, args=(layout, tools))
    first.start()
    while not builds(layout):
        time.sleep(0.01)
    build(layout, tools, told)
    first.join()
    assert builds(layout) == 1
    assert told.lines[0] == f"build: waiting for process {os.getpid()}, which is building the sandbox's programs"
    assert told.lines[1] == "build done: no other command builds any more"


def test_progress_counts_downloads_and_packages(layout: Layout, tools: ToolSet, fake_go: GoMaker) -> None:
    fake_go()
    told = Told()
    build(layout, tools, told)
    assert "build/tools: downloading modules, 1 of at most 1" in told.lines
    assert "build/tools: compiling 2 packages" in told.lines
    assert "build/tools: linking" in told.lines
    assert told.lines[-1] == "build/tools done: built with Go 1.26.8"


def test_a_build_in_another_thread_can_be_cancelled(layout: Layout, tools: ToolSet, fake_go: GoMaker) -> None:
    fake_go("time.sleep(600)")
    cancel = threading.Event()
    ended: list[UserError] = []

    def work() -> None:
        with pytest.raises(UserError) as end:
            ensure_toolchain(layout, Silent(), ("tools",), available={"tools": tools}, free_bytes=lambda _: 1 << 40, cancel=cancel)
        ended.append(end.value)

    builder = threading.Thread(target=work)
    builder.start()
    while not builds(layout):
        time.sleep(0.01)
    cancel.set()
    builder.join(timeout=60)
    assert ended[0].exit == Exit.INTERRUPTED
    fake_go()
    build(layout, tools)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_however_a_builder_ends_its_compilers_end_with_it(tmp_path: Path, end: signal.Signals) -> None:
    """A build whose Go has a child of its own, as it has compilers: `go` alone dying would leave that child."""
    script = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); time.sleep(600)"
    code = (
        "import sys; from pathlib import Path; from sandbox.cluster import build_commands;"
        f"build_commands.run([sys.executable, '-c', {script!r}], cwd=Path.cwd(), environment={{}}, log=Path({str(tmp_path / 'log')!r}),"
        " on_line=lambda line: print(line, flush=True))"
    )
    builder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert builder.stdout is not None
    compiler = int(builder.stdout.readline())
    assert linux.stat(compiler)
    builder.send_signal(end)
    builder.communicate(timeout=60)
    # Ended, not gone: in a container it may stay a zombie, for want of a first process that reaps.
    deadline = time.monotonic() + 30
    while linux.stat(compiler) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not linux.stat(compiler), "a compiler was left running"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go version go1.27 darwin/arm64", (1, 27)),
        ("go version go1.27rc1 linux/amd64", ()),
        ("go version devel go1.28-abcdef linux/amd64", ()),
    ],
)
def test_versions_of_go_are_read_and_unreleased_ones_count_as_old(said: str, version: tuple[int, ...]) -> None:
    assert golang.parse_version(said) == version


@pytest.mark.parametrize(("version", "found"), [("1.26.0", True), ("1.27.1", True), ("1.25.9", False), ("1.9.1", False)])
def test_a_go_is_used_only_if_it_is_new_enough(fake_go: GoMaker, version: str, found: bool) -> None:
    fake_go(version=version)
    assert (golang.local((1, 26, 0), os.environ) is not None) == found


def test_no_go_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert golang.local((1, 26, 0), os.environ) is None


def test_an_unknown_set_or_program_is_an_error(layout: Layout) -> None:
    with pytest.raises(KeyError):
        ensure_toolchain(layout, Silent(), ("control-plain",))
    with pytest.raises(KeyError):
        Toolchain({}).binary("etcd")


@pytest.fixture
def real_go() -> Iterator[None]:
    assert shutil.which("go"), "go is a prerequisite of the tests, as of the sandbox"
    yield


@pytest.mark.usefixtures("real_go")
@pytest.mark.timeout(300)
def test_the_crds_of_all_four_add_ons_come_from_their_modules(layout: Layout) -> None:
    toolchain = ensure_toolchain(layout, Silent(), ("crds",))
    for files in CRDS.files:
        paths = toolchain.crds(files.folder)
        assert paths
        assert all("kind: CustomResourceDefinition" in path.read_text() for path in paths)
    built = json.loads((toolchain.folders["crds"] / "built.json").read_text())
    assert built["modules"]["istio.io/api"].startswith("v1.")
    assert leftovers(layout) == []


@pytest.mark.slow
@pytest.mark.usefixtures("real_go")
@pytest.mark.timeout(300)
def test_a_real_program_is_compiled_and_runs(layout: Layout, tmp_path: Path) -> None:
    folder = tmp_path / "modules" / "hello"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module hello\n\ngo 1.26.0\n")
    (folder / "go.sum").write_text("")
    (folder / "main.go").write_text('package main\n\nvar greeting = "unstamped"\n\nfunc main() { print(greeting) }\n')
    binary = Binary(name="hello", package=".", programs=("greet",), stamps=lambda _: {"main.greeting": "stamped"})
    tool_set = ToolSet(name="hello", source=folder.parent, binaries=(binary,), disk_bytes=0)
    toolchain = ensure_toolchain(layout, Silent(), ("hello",), available={"hello": tool_set})
    assert subprocess.run([toolchain.binary("greet")], capture_output=True, text=True, check=True).stderr == "stamped"
