"""Durable state of one stack: a checkpoint file, and a write-ahead journal beside it while an operation runs.

`STACK.json` holds `{"version": 3, "checkpoint": {"stack": ..., "latest": DEPLOYMENT}}`, one resource a line. Each change is one line of
`STACK.json.journal`, on the disk before the method that made it returns; threads that wait at the same time share one `fdatasync`.
Loading is checkpoint plus journal; `save` folds the journal into a new checkpoint (temporary file, fsync, rename). Replaying a journal
over a checkpoint that already holds it changes nothing, so a crash between the two steps of `save` is harmless, and so is a reader that
read the journal just before: readers take no lock and therefore read the journal first.

The trap: only the holder of the stack's lock may call `edit`; everyone else calls `read`, which never writes.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from pulumi_embedded.engine.checkpoint import VERSION, from_json, pending_from_json, plaintext, shown, to_json
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.graph import ordered
from pulumi_embedded.engine.journal import OperationJournal, reason, replace_file, sync_folder
from pulumi_embedded.engine.model import PendingKind, PendingOperation, Resource
from pulumi_embedded.engine.secrets import Passphrase
from pulumi_embedded.engine.values import SECRET, SIGNATURE, Properties

Key = tuple[str, bool, str]
Clock = Callable[[], datetime]
OpenSecrets = Callable[[str], Passphrase]
"""Salt line of the state -> the passphrase for it."""

ENGINE_VERSION: Final = "v3.272.0"


@dataclass(slots=True)
class _Entry:
    resource: Resource
    text: str | None = None
    """The line of the checkpoint, once it has been needed."""


class StackState:
    """Implements model.State. Safe to use from several threads."""

    def __init__(self, path: Path, stack: str, passphrase: Passphrase | None, clock: Clock) -> None:
        self.path = path
        self.stack = stack
        self.salt = passphrase.salt if passphrase else ""
        self._passphrase = passphrase
        self._clock = clock
        self._entries: dict[Key, _Entry] = {}
        self._pending: dict[Key, PendingOperation] = {}
        self._sealed: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        self._journal = OperationJournal(journal_of(path))
        self._editable = False
        self._dirty = False

    # ---- opening ---------------------------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, stack: str, passphrase: Passphrase, clock: Clock = lambda: datetime.now(UTC)) -> "StackState":
        """A new, empty stack, written at once."""
        state = cls(path, stack, passphrase, clock)
        state._editable = state._dirty = True
        state.save()
        return state

    @classmethod
    def read(cls, path: Path, open_secrets: OpenSecrets | None = None, clock: Clock = lambda: datetime.now(UTC)) -> "StackState":
        """What is recorded now, for looking only. Without `open_secrets` the secrets stay closed and no passphrase is needed."""
        journal = _read(journal_of(path)) or b""
        return cls._load(path, journal, open_secrets, clock)

    @classmethod
    def edit(cls, path: Path, open_secrets: OpenSecrets, clock: Clock = lambda: datetime.now(UTC)) -> "StackState":
        """For the holder of the lock. A journal left behind by a killed operation is folded into the checkpoint first."""
        state = cls.read(path, open_secrets, clock)
        state._editable = True
        if journal_of(path).exists():
            state._dirty = True
            state.save()
        return state

    @classmethod
    def _load(cls, path: Path, journal: bytes, open_secrets: OpenSecrets | None, clock: Clock) -> "StackState":
        text = _read(path)
        if text is None:
            raise EngineError(f"the state file {path} does not exist")
        try:
            document = json.loads(text)
            stack, latest = document["checkpoint"]["stack"], document["checkpoint"].get("latest") or {}
            salt = ((latest.get("secrets_providers") or {}).get("state") or {}).get("salt") or ""
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            at = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            raise EngineError(
                f"the state file {path}{at} is not a Pulumi checkpoint; the one before the last change is {path.name}.bak beside it: "
                "compare the two and restore it"
            ) from None
        if document.get("version") != VERSION:
            raise EngineError(f"{path}: checkpoint version {document.get('version')} is not supported; version {VERSION} is")
        state = cls(path, str(stack), open_secrets(salt) if open_secrets else None, clock)
        state.salt = state.salt or salt
        for index, entry in enumerate(latest.get("resources") or []):
            state._insert(state._opened(entry, f"{path}: resources[{index}]"))
        for index, entry in enumerate(latest.get("pending_operations") or []):
            operation = pending_from_json(entry, lambda secret: secret, f"{path}: pending_operations[{index}]")
            state._pending[operation.resource.key] = PendingOperation(operation.kind, state._opened(entry["resource"], str(path)))
        state._replay(journal)
        return state

    def _replay(self, journal: bytes) -> None:
        *lines, torn = journal.split(b"\n")
        # The torn last line of a killed process was never acknowledged: nobody has relied on it.
        del torn
        for number, line in enumerate(lines, 1):
            where = f"{self._journal.path}, line {number}"
            try:
                change = json.loads(line)
                if not isinstance(change, dict):
                    raise TypeError
                self._apply_line(cast(Properties, change), where)
            except (ValueError, KeyError, TypeError, IndexError):
                raise EngineError(
                    f"the journal is damaged at {where}; changes from there on cannot be trusted. Move the journal aside and run "
                    "`pulumi refresh` to record what exists"
                ) from None

    def _apply_line(self, change: Properties, where: str) -> None:
        if "put" in change:
            was = change.get("was")
            self._apply_put(self._opened(change["put"], where), _key(was) if was else None)
        elif "remove" in change:
            self._apply_remove(_key(change["remove"]))
        elif "begin" in change:
            resource = self._opened(change["resource"], where)
            self._pending[resource.key] = PendingOperation(change["begin"], resource)
        elif "abandon" in change:
            self._pending.pop(_key(change["abandon"]), None)
        elif "clear" in change:
            self._apply_clear(change["clear"])
        else:
            raise KeyError(next(iter(change), "empty"))

    # ---- what the engine reads and writes --------------------------------------------------------------------------------------------

    @property
    def resources(self) -> Sequence[Resource]:
        with self._lock:
            return tuple(ordered([entry.resource for entry in self._entries.values()]))

    @property
    def pending(self) -> Sequence[PendingOperation]:
        with self._lock:
            return tuple(self._pending.values())

    @property
    def outputs(self) -> Properties:
        """Outputs of the stack: those of its root resource."""
        with self._lock:
            roots = (entry.resource for entry in self._entries.values() if entry.resource.type == "pulumi:pulumi:Stack")
            return next((root.outputs for root in roots if not root.delete), {})

    def begin(self, kind: PendingKind, resource: Resource) -> None:
        with self._lock:
            line = f'{{"begin":"{kind}","resource":{self._text(resource)}}}'
            turn = self._write(line)
            self._pending[resource.key] = PendingOperation(kind, resource)
        self._journal.wait(turn)

    def abandon(self, resource: Resource) -> None:
        with self._lock:
            if resource.key not in self._pending:
                return
            turn = self._write(f'{{"abandon":{json.dumps(resource.key)}}}')
            self._pending.pop(resource.key, None)
        self._journal.wait(turn)

    def put(self, resource: Resource, was: Resource | None = None) -> None:
        before = was.key if was is not None and was.key != resource.key else None
        with self._lock:
            text = None
            known = self._entries.get(resource.key)
            if (
                known is not None
                and resource.key not in self._pending
                and (before is None or not (before in self._entries or before in self._pending))
            ):
                if known.resource == resource:
                    return
                text = self._text(resource)
                if text == (known.text or self._text(known.resource)):
                    return
            text = text or self._text(resource)
            renamed = f',"was":{json.dumps(before)}' if before else ""
            turn = self._write(f'{{"put":{text}{renamed}}}')
            self._apply_put(resource, before, text)
        self._journal.wait(turn)

    def remove(self, resource: Resource) -> None:
        with self._lock:
            if resource.key not in self._entries and resource.key not in self._pending:
                return
            turn = self._write(f'{{"remove":{json.dumps(resource.key)}}}')
            self._apply_remove(resource.key)
        self._journal.wait(turn)

    def clear_pending(self, kinds: Sequence[PendingKind]) -> None:
        with self._lock:
            if not any(operation.kind in kinds for operation in self._pending.values()):
                return
            turn = self._write(f'{{"clear":{json.dumps(list(kinds))}}}')
            self._apply_clear(kinds)
        self._journal.wait(turn)

    def replace_all(self, resources: Iterable[Resource], stack: str | None = None) -> None:
        """Forget what is recorded and record `resources` (import, rename). The journal goes first, or it would be replayed over them."""
        self.save()
        with self._lock:
            self.stack = stack or self.stack
            self._entries.clear()
            self._pending.clear()
            for resource in resources:
                self._insert(resource)
            self._dirty = True
        self.save()

    def reseal(self, passphrase: Passphrase) -> None:
        """Write the checkpoint anew with every secret encrypted by `passphrase`. Readers need it from then on."""
        with self._lock:
            self._cipher()  # opened without one, the secrets could not be told
            self._passphrase, self.salt = passphrase, passphrase.salt
            self._sealed.clear()
            for entry in self._entries.values():
                entry.text = None
            self._dirty = True
        self.save()

    def deployment(self, *, show_secrets: bool = False) -> Properties:
        """The deployment as `stack export` prints it."""
        return {
            key: value if isinstance(value, dict) else [json.loads(line) for line in value] for key, value in self._parts(show=show_secrets)
        }

    def save(self) -> None:
        """Write the checkpoint and drop the journal. Without a change since the last one nothing is touched."""
        with self._lock:
            if not self._dirty:
                return
            document = _document(self.stack, self._parts(show=False))
            try:
                replace_file(self.path, document)
                self._journal.remove()
                sync_folder(self.path.parent)
            except OSError as error:
                raise EngineError(
                    f"cannot write the state file {self.path}: {reason(error)}. Nothing is lost: every change is in "
                    f"{self._journal.path.name} beside it and is read from there; make room, then run the command again"
                ) from None
            self._dirty = False

    def close(self) -> None:
        self._journal.close()

    # ---- in memory -------------------------------------------------------------------------------------------------------------------

    def _insert(self, resource: Resource, text: str | None = None) -> None:
        self._entries[resource.key] = _Entry(resource, text)

    def _apply_put(self, resource: Resource, before: Key | None, text: str | None = None) -> None:
        if before is not None:
            self._entries.pop(before, None)
            self._pending.pop(before, None)
        self._pending.pop(resource.key, None)
        self._insert(resource, text)

    def _apply_remove(self, key: Key) -> None:
        self._entries.pop(key, None)
        self._pending.pop(key, None)

    def _apply_clear(self, kinds: Sequence[str]) -> None:
        self._pending = {key: operation for key, operation in self._pending.items() if operation.kind not in kinds}

    # ---- secrets ---------------------------------------------------------------------------------------------------------------------

    def _opened(self, entry: Any, where: str) -> Resource:
        urn = str(entry.get("urn", "")) if isinstance(entry, dict) else ""
        return from_json(entry, lambda secret: self._open(secret, urn), where)

    def _open(self, secret: Properties, urn: str) -> Properties:
        if self._passphrase is None:
            return secret
        sealed = secret.get("ciphertext")
        if sealed is None:
            return {SIGNATURE: SECRET, "value": json.loads(secret["plaintext"])}
        text = self._passphrase.decrypt(sealed)
        self._sealed.setdefault(urn, {})[text] = sealed
        return {SIGNATURE: SECRET, "value": json.loads(text)}

    def _seal(self, secret: Properties, urn: str) -> Properties:
        if "value" not in secret:
            return secret
        text = plaintext(secret)
        known = self._sealed.setdefault(urn, {})
        if text not in known:
            # An unchanged value keeps its ciphertext, or every update would rewrite every secret.
            known[text] = self._cipher().encrypt(text)
        return {SIGNATURE: SECRET, "ciphertext": known[text]}

    def _cipher(self) -> Passphrase:
        if self._passphrase is None:
            raise EngineError(f"{self.path} was opened without its passphrase")
        return self._passphrase

    # ---- on the disk -----------------------------------------------------------------------------------------------------------------

    def _write(self, line: str) -> int:
        if not self._editable:
            raise RuntimeError(f"{self.path} was opened for reading")
        self._dirty = True
        return self._journal.append(line)

    def _text(self, resource: Resource) -> str:
        return _dumps(to_json(resource, lambda secret: self._seal(secret, resource.urn)))

    def _line(self, entry: _Entry) -> str:
        if entry.text is None:
            entry.text = self._text(entry.resource)
        return entry.text

    def _parts(self, *, show: bool) -> list[tuple[str, Properties | list[str]]]:
        """The fields of the deployment: objects, or lists of lines."""
        entries = {entry.resource.key: entry for entry in self._entries.values()}
        in_order = ordered([entry.resource for entry in self._entries.values()])
        resources = [_dumps(to_json(resource, shown)) if show else self._line(entries[resource.key]) for resource in in_order]
        pending = [
            f'{{"resource":{text},"type":"{operation.kind}"}}'
            for operation in self._pending.values()
            for text in (_dumps(to_json(operation.resource, shown)) if show else self._text(operation.resource),)
        ]
        manifest = {
            "time": self._clock().isoformat().replace("+00:00", "Z"),
            "magic": hashlib.sha256(ENGINE_VERSION.encode()).hexdigest(),
            "version": ENGINE_VERSION,
        }
        parts: list[tuple[str, Properties | list[str]]] = [("manifest", manifest)]
        if self.salt:
            parts.append(("secrets_providers", {"type": "passphrase", "state": {"salt": self.salt}}))
        parts.append(("resources", resources))
        if pending:
            parts.append(("pending_operations", pending))
        return parts


def journal_of(path: Path) -> Path:
    return path.with_name(path.name + ".journal")


def _key(value: Any) -> Key:
    urn, delete, id = value
    return str(urn), bool(delete), str(id)


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _document(stack: str, parts: Iterable[tuple[str, Properties | list[str]]]) -> bytes:
    fields = [
        f"{json.dumps(key)}:" + (_dumps(value) if isinstance(value, dict) else "[\n" + ",\n".join(value) + "\n]") for key, value in parts
    ]
    return (f'{{"version":{VERSION},"checkpoint":{{"stack":{json.dumps(stack)},"latest":{{\n' + ",\n".join(fields) + "\n}}}\n").encode()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EngineError(f"cannot read {path}: {error.strerror}") from None
