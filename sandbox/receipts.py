"""What the last `up` was made from and how it ended, so that the next one can tell which layers cannot have another
plan.

A plan follows from the program, the packs, their configuration, the contracts, the installed packages, the release
ledger, the recorded states and the day (exemptions expire). Where all of that is the same, only the live objects can
differ, and those are read every time (`deploy`). The trap: what a plan newly depends on must be added to `given`, or
`up` would not see it change.
"""

import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from headway.environment.stacks import StackResult, Violation
from headway.ledger.location import opened
from headway.ledger.store import MissingStoreError, UnreachableError
from headway.whole_file import replaced
from sandbox.layout import Layout

ROOMS = ("Pulumi.yaml", "__main__.py", "components", "headway", "policies", "sandbox", "stacks", "tenants")
"""What of the checkout a program or a pack may read; tests/unit/sandbox/test_sandbox_receipts.py holds this list to
the checkout."""
_VARIABLES = ("AWS_", "HEADWAY_", "KUBE", "PULUMI_", "PYTHON")
_FORMAT = 1

Digests = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """`given` and `recorded` are what the layers in `results` were planned from, or left behind."""

    given: Digests
    recorded: Digests
    results: Mapping[str, StackResult] = field(default_factory=dict)

    def holds(self, given: Digests, recorded: Digests) -> Mapping[str, StackResult]:
        """The layers whose plan would still be empty, with what their packs said; none when anything is not as it was."""
        return self.results if self.given == given and self.recorded == recorded else {}

    def differences(self, given: Digests, recorded: Digests) -> Sequence[str]:
        """What is not as it was, by name, sorted."""
        before, now = {**self.given, **self.recorded}, {**given, **recorded}
        return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def given(layout: Layout, today: date, environment: Mapping[str, str] = os.environ) -> Digests:
    """Everything from outside that plans are made from: name -> digest. What `sandbox env` sets says nothing new of this sandbox."""
    own = layout.shell_environment()
    files = {path.relative_to(layout.project).as_posix(): _content(path) for room in ROOMS for path in _files(layout.project / room)}
    variables = {
        f"${name}": _digest(text.encode()) for name, text in environment.items() if name.startswith(_VARIABLES) and own.get(name) != text
    }
    return {**files, **_ledger(layout), **variables, "installed packages": _installed(), "the day": today.isoformat()}


def _ledger(layout: Layout) -> Digests:
    """What the release ledger holds, and its witness. Elsewhere than on this machine, the names of its objects say it: each
    is written once."""
    said = {f"witness/{path.name}": _content(path) for path in _files(layout.ledger_witness)}
    if layout.ledger_elsewhere is None:
        return {**said, **{f"ledger/{path.relative_to(layout.ledger).as_posix()}": _content(path) for path in _files(layout.ledger)}}
    try:
        return {**said, **dict.fromkeys((f"ledger/{key}" for key in opened(layout.ledger_address).list("")), "written")}
    except (MissingStoreError, UnreachableError) as failure:
        return {"ledger": type(failure).__name__}


def recorded(layout: Layout) -> Digests:
    """The recorded state of every stack, with what an interrupted operation has left: name -> digest."""
    folder = layout.backend / ".pulumi" / "stacks"
    return {f"state {path.name}": _content(path) for path in _files(folder) if path.name.endswith((".json", ".journal"))}


def receipt(given: Digests, recorded: Digests, results: Sequence[StackResult]) -> Receipt:
    """Of results that ended well: after an empty plan, or an update, which leaves one behind."""
    kept = {r.stack: replace(r, operation="preview", changes=_unchanged(r), errors=(), seconds=0.0) for r in results}
    return Receipt(given=given, recorded=recorded, results=dict(sorted(kept.items())))


def _unchanged(result: StackResult) -> Mapping[str, int]:
    read = result.changes.get("read", 0)
    return {"read": read, "same": result.total - read} if read else {"same": result.total}


def write(file: Path, receipt: Receipt) -> None:
    """Replace the receipt in one step; a disk that cannot take it costs the next `up` its short way, and nothing else."""
    try:
        replaced(file, json.dumps({"format": _FORMAT, **asdict(receipt)}, sort_keys=True).encode())
    except OSError:
        file.unlink(missing_ok=True)


def read(file: Path) -> Receipt:
    """The last receipt; one that covers nothing if there is none or it cannot be understood."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["format"] != _FORMAT:
            return Receipt(given={}, recorded={})
        results = {name: _result(fields) for name, fields in found["results"].items()}
        return Receipt(given=found["given"], recorded=found["recorded"], results=results)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Receipt(given={}, recorded={})


def _result(fields: Mapping[str, Any]) -> StackResult:
    return StackResult(
        stack=fields["stack"],
        operation="preview",
        ok=True,
        changes=fields["changes"],
        violations=tuple(Violation(**each) for each in fields["violations"]),
        warnings=tuple(fields["warnings"]),
    )


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(folder, name) for name in sorted(names) if not name.endswith(".pyc"))


def _content(path: Path) -> str:
    try:
        return _digest(path.read_bytes())
    except FileNotFoundError:  # gone since it was listed, or the lock of an editor, which is a link to nowhere
        return "gone"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _installed() -> str:
    """The interpreter, and each distribution with the time of its installation."""
    packages = sorted(Path(sysconfig.get_path("purelib")).glob("*.dist-info"))
    listed = [f"{package.name} {package.stat().st_mtime_ns}" for package in packages]
    return _digest("\n".join([sys.version, sys.executable, *listed]).encode())
