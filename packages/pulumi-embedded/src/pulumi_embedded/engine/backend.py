"""Pulumi's file backend: where the stacks, their locks, histories and the selected stack of a project lie.

    ROOT/.pulumi/meta.yaml                             version of the layout
    ROOT/.pulumi/stacks/PROJECT/STACK.json             state; beside it .journal, .lock, .cancel and .bak
    ROOT/.pulumi/history/PROJECT/STACK/                one file an operation
    ROOT/.pulumi/workspaces/PROJECT-HASH.json          the stack selected in one checkout of a project

Owns paths and names only; `state`, `lock` and `history` own what is in the files.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.private import private

ORGANIZATION: Final = "organization"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True, order=True)
class StackName:
    """A stack of a file backend; its organization is always `organization`."""

    project: str
    stack: str

    @classmethod
    def parse(cls, text: str, project: str) -> "StackName":
        """`STACK`, or `organization/PROJECT/STACK`. Raises EngineError for anything else."""
        parts = text.split("/")
        if len(parts) == 1:
            parts = [ORGANIZATION, project, *parts]
        if len(parts) != 3 or parts[0] != ORGANIZATION:
            raise EngineError(
                f"stack name '{text}': expected STACK or {ORGANIZATION}/PROJECT/STACK, the only organization of a file backend"
            )
        for part in parts[1:]:
            if not _NAME.fullmatch(part) or part in (".", ".."):
                raise EngineError(f"stack name '{text}': '{part}' may hold up to 100 letters, digits, hyphens, underscores and periods")
        return cls(parts[1], parts[2])

    def __str__(self) -> str:
        return f"{ORGANIZATION}/{self.project}/{self.stack}"


@dataclass(frozen=True)
class FileBackend:
    root: Path

    @classmethod
    def of(cls, environment: Mapping[str, str], project_url: str = "") -> "FileBackend":
        """The backend that PULUMI_BACKEND_URL names, else the project's, else the home folder, as after `pulumi login --local`."""
        url = environment.get("PULUMI_BACKEND_URL") or project_url or "file://~"
        parts = urlsplit(url)
        if parts.scheme != "file":
            raise EngineError(
                f"backend '{url}' is not supported by the embedded engine: only file:// is; set PULUMI_BACKEND_URL to a folder"
            )
        path = Path(unquote(parts.netloc + parts.path))
        home = environment.get("HOME")
        if path.parts[:1] == ("~",) and home:
            path = Path(home, *path.parts[1:])
        return cls(path.expanduser().absolute())

    @property
    def url(self) -> str:
        return self.root.as_uri()

    @property
    def _folder(self) -> Path:
        return self.root / ".pulumi"

    def state(self, name: StackName) -> Path:
        return self._folder / "stacks" / name.project / f"{name.stack}.json"

    def history(self, name: StackName) -> Path:
        return self._folder / "history" / name.project / name.stack

    def exists(self, name: StackName) -> bool:
        return self.state(name).is_file()

    def require(self, name: StackName) -> Path:
        """The state file; raises EngineError if there is no such stack (the SDK knows that case by its words)."""
        if not self.exists(name):
            raise EngineError(
                f"no stack named '{name.stack}' found in project '{name.project}'; make it with `pulumi stack init {name.stack}`"
            )
        return self.state(name)

    def stacks(self, project: str | None = None) -> list[StackName]:
        """Every stack, or those of one project, in order."""
        folder = self._folder / "stacks"
        names = (StackName(path.parent.name, path.name.removesuffix(".json")) for path in folder.glob(f"{project or '*'}/*.json"))
        return sorted(names)

    def mark(self) -> None:
        """Say which layout this is. Pulumi takes a folder without this file for its older layout, which had no projects."""
        file = self._folder / "meta.yaml"
        private(self._folder)  # states hold what programs told nobody to keep secret
        if not file.exists():
            file.write_text("version: 1\n", encoding="utf-8")

    # ---- the selected stack ----------------------------------------------------------------------------------------------------------

    def selected(self, project: str, checkout: Path) -> StackName | None:
        try:
            text = json.loads(self._selection(project, checkout).read_text(encoding="utf-8"))["stack"]
            return StackName.parse(text, project)
        except (OSError, ValueError, KeyError, TypeError, EngineError):
            return None

    def select(self, name: StackName | None, project: str, checkout: Path) -> None:
        file = self._selection(project, checkout)
        if name is None:
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        # Two stacks of one checkout may be selected at once, each by a writer of its own.
        temporary = file.with_name(f"{file.name}.{uuid4().hex}.tmp")
        temporary.write_text(json.dumps({"stack": str(name)}), encoding="utf-8")
        temporary.replace(file)

    def _selection(self, project: str, checkout: Path) -> Path:
        digest = hashlib.sha256(str(checkout).encode()).hexdigest()[:16]
        return self._folder / "workspaces" / f"{project}-{digest}.json"
