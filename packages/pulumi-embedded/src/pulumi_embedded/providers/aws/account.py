"""The simulated account: every object the doubles have made, in one SQLite file that survives SIGKILL and serves many processes.

Owns identity (ids, generations), handles (under which names an object is found) and references (who holds whom).
Trap: a create that was killed leaves an object nobody acknowledged; `orphan` finds it by URN for whoever takes it over.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pulumi_embedded.engine.provider import Properties

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
  key INTEGER PRIMARY KEY, type TEXT NOT NULL, id TEXT NOT NULL, region TEXT NOT NULL, urn TEXT NOT NULL, generation INTEGER NOT NULL,
  inputs TEXT NOT NULL, outputs TEXT NOT NULL, extra TEXT NOT NULL, created TEXT NOT NULL, UNIQUE (type, id, region));
CREATE INDEX IF NOT EXISTS objects_by_urn ON objects (urn);
CREATE TABLE IF NOT EXISTS handles (
  class TEXT NOT NULL, value TEXT NOT NULL, region TEXT NOT NULL, object INTEGER NOT NULL REFERENCES objects (key) ON DELETE CASCADE);
CREATE INDEX IF NOT EXISTS handles_by_value ON handles (class, value);
CREATE INDEX IF NOT EXISTS handles_by_object ON handles (object);
CREATE TABLE IF NOT EXISTS links (
  source INTEGER NOT NULL REFERENCES objects (key) ON DELETE CASCADE, class TEXT NOT NULL, value TEXT NOT NULL,
  path TEXT NOT NULL, deletion TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS links_by_source ON links (source);
CREATE INDEX IF NOT EXISTS links_by_value ON links (class, value);
CREATE TABLE IF NOT EXISTS beside (
  object INTEGER PRIMARY KEY REFERENCES objects (key) ON DELETE CASCADE, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS generations (urn TEXT PRIMARY KEY, count INTEGER NOT NULL);
"""
_COLUMNS = "type, id, region, urn, generation, inputs, outputs, extra, created"


@dataclass(frozen=True)
class Handle:
    """A name under which an object is found: `("role ARN", "arn:…")`."""

    of: str
    value: str


@dataclass(frozen=True)
class Link:
    """One reference of an object to a handle; `deletion` is what it does to the deletion of its target."""

    of: str
    value: str
    path: str
    deletion: str


@dataclass(frozen=True)
class AccountObject:
    """One object of the account. `region` is empty for global ones."""

    key: int
    type: str
    id: str
    region: str
    urn: str
    generation: int
    inputs: Properties
    outputs: Properties
    extra: Properties
    """What its backend keeps between operations."""
    created: datetime
    beside: Properties | None = None
    """What others than the provider keep beside it; an update of the object leaves it alone."""

    @property
    def name(self) -> str:
        """The logical name the program gave it."""
        return self.urn.rsplit("::", 1)[-1]


class SimulatedAccount:
    """All methods are safe in several threads and processes; a write has reached the disk when it returns."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    def get(self, type: str, id: str, region: str) -> AccountObject | None:
        return next(iter(self._objects("type = ? AND id = ? AND region IN (?, '')", (type, id, region))), None)

    def of(self, type: str) -> list[AccountObject]:
        return self._objects("type = ?", (type,))

    def orphan(self, type: str, urn: str, known: Collection[str]) -> AccountObject | None:
        """An object made for `urn` whose id is not in `known`: what a killed create left behind."""
        return next((o for o in self._objects("type = ? AND urn = ?", (type, urn)) if o.id not in known), None)

    def find(self, handle: Handle, region: str) -> AccountObject | None:
        """Who answers to `handle` in `region` or globally; an empty region stands for all."""
        query = "key IN (SELECT object FROM handles WHERE class = ? AND value = ? AND (region IN (?, '') OR ? = ''))"
        return next(iter(self._objects(query, (handle.of, handle.value, region, region))), None)

    def handles(self, of: str, region: str) -> list[str]:
        """Every value of one class, for messages that say what exists."""
        rows = self._read("SELECT DISTINCT value FROM handles WHERE class = ? AND region IN (?, '') ORDER BY value", (of, region))
        return [row[0] for row in rows]

    def holders(self, target: AccountObject, deletion: str) -> list[tuple[AccountObject, str]]:
        """Objects (with the path of the reference) whose reference to any handle of `target` has this effect on its deletion."""
        query = (
            "SELECT DISTINCT l.source, l.path FROM links l JOIN handles h ON h.class = l.class AND h.value = l.value "
            "WHERE h.object = ? AND l.deletion = ? AND l.source != ? ORDER BY l.source"
        )
        rows = self._read(query, (target.key, deletion, target.key))
        by_key = {o.key: o for o in self._objects(f"key IN ({','.join('?' * len(rows))})", [row[0] for row in rows])}
        return [(by_key[key], path) for key, path in rows if key in by_key and {by_key[key].region, target.region} & {"", target.region}]

    def generation(self, urn: str) -> int:
        """How many objects have been made for `urn` so far."""
        rows = self._read("SELECT count FROM generations WHERE urn = ?", (urn,))
        return int(rows[0][0]) if rows else 0

    def insert(
        self, type: str, id: str, region: str, urn: str, inputs: Properties, outputs: Properties, extra: Properties, created: datetime,
        handles: Sequence[Handle], links: Sequence[Link],
    ) -> AccountObject:  # fmt: skip
        """Record a new object; KeyError(handle) if its id or one of its handles is taken in the region."""
        with self._write() as db:
            if db.execute("SELECT 1 FROM objects WHERE type = ? AND id = ? AND region = ?", (type, id, region)).fetchone():
                raise KeyError(Handle(type, id))
            for handle in handles:
                taken = db.execute("SELECT 1 FROM handles WHERE class = ? AND value = ? AND region = ?", (handle.of, handle.value, region))
                if taken.fetchone():
                    raise KeyError(handle)
            db.execute(
                "INSERT INTO generations VALUES (?, 1) ON CONFLICT (urn) DO UPDATE SET count = count + 1",
                (urn,),
            )
            generation = int(db.execute("SELECT count FROM generations WHERE urn = ?", (urn,)).fetchone()[0])
            row = (type, id, region, urn, generation, *map(json.dumps, (inputs, outputs, extra)), created.isoformat())
            key = int(db.execute(f"INSERT INTO objects ({_COLUMNS}) VALUES ({','.join('?' * len(row))})", row).lastrowid or 0)  # noqa: S608
            _relate(db, key, region, handles, links)
        return AccountObject(key, type, id, region, urn, generation, inputs, outputs, extra, created)

    def update(
        self, key: int, region: str, inputs: Properties, outputs: Properties, extra: Properties,
        handles: Sequence[Handle], links: Sequence[Link],
    ) -> None:  # fmt: skip
        """Record what an object is now."""
        with self._write() as db:
            values = (*map(json.dumps, (inputs, outputs, extra)), key)
            db.execute("UPDATE objects SET inputs = ?, outputs = ?, extra = ? WHERE key = ?", values)
            _relate(db, key, region, handles, links)

    def keep_beside(self, key: int, change: Callable[[Properties | None], Properties]) -> Properties:
        """Rewrite what is kept beside an object, in one transaction: what `change` answers, which may raise."""
        with self._write() as db:
            row = db.execute("SELECT state FROM beside WHERE object = ?", (key,)).fetchone()
            state = change(json.loads(row[0]) if row else None)
            db.execute(
                "INSERT INTO beside VALUES (?, ?) ON CONFLICT (object) DO UPDATE SET state = excluded.state", (key, json.dumps(state))
            )
        return state

    def delete(self, key: int) -> None:
        with self._write() as db:
            db.execute("DELETE FROM objects WHERE key = ?", (key,))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _objects(self, where: str, values: Sequence[object]) -> list[AccountObject]:
        # The conditions are literals of this module; values are bound.
        beside = "(SELECT state FROM beside WHERE object = key)"
        rows = self._read(f"SELECT key, {_COLUMNS}, {beside} FROM objects WHERE {where} ORDER BY key", values)  # noqa: S608
        return [_object(*row) for row in rows]

    def _read(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lock:
            if self._connection is None and not self._file.exists():
                return []  # a preview in a fresh account leaves no file
            return self._open().execute(query, tuple(values)).fetchall()

    @contextmanager
    def _write(self) -> Generator[sqlite3.Connection]:
        with self._lock:
            db = self._open()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # Other processes may hold the file for the length of one statement; 30 s is far beyond that.
            self._connection = sqlite3.connect(self._file, timeout=30, isolation_level=None, check_same_thread=False)
            _write_ahead(self._connection)
            # A commit survives the end of the process at once, and that of the machine after the next checkpoint.
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.executescript(_SCHEMA)
        return self._connection


_TRIES, _PAUSE_SECONDS = 200, 0.02


def _write_ahead(db: sqlite3.Connection) -> None:
    """SQLite waits for nobody where two who read a new file both want to change its journal: one must let go and try again
    (C interface, sqlite3_busy_handler, "the possibility of a deadlock").
    """
    for left in reversed(range(_TRIES)):
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if not left:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _object(key: int, type: str, id: str, region: str, urn: str, generation: int, *texts: str) -> AccountObject:
    inputs, outputs, extra, created, beside = texts
    parsed = (json.loads(inputs), json.loads(outputs), json.loads(extra))
    kept = json.loads(beside) if beside else None
    return AccountObject(key, type, id, region, urn, generation, *parsed, datetime.fromisoformat(created), kept)


def _relate(db: sqlite3.Connection, key: int, region: str, handles: Sequence[Handle], links: Sequence[Link]) -> None:
    db.execute("DELETE FROM handles WHERE object = ?", (key,))
    db.execute("DELETE FROM links WHERE source = ?", (key,))
    db.executemany("INSERT INTO handles VALUES (?, ?, ?, ?)", [(h.of, h.value, region, key) for h in handles])
    db.executemany("INSERT INTO links VALUES (?, ?, ?, ?, ?)", [(key, r.of, r.value, r.path, r.deletion) for r in links])
