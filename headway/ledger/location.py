"""Where an environment's ledger is: `s3://bucket/prefix`, or `file:///folder` on one machine.

The environment variable HEADWAY_LEDGER overrides what an environment of production has exported. An environment that
runs programs by itself sets the variable for them, and does not read it, so that a shell set up for another
environment cannot mix the two. A program that plans with the wrong ledger would undo a running release, so whoever
plans and whoever releases must get the place from here.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headway.ledger.s3_store import S3Store, client
from headway.ledger.store import FolderStore, LedgerStore
from headway.ledger.witness import LedgerWitness, named
from headway.ledger.witness_place import FolderWitness, ParameterWitness
from headway.private_folder import state_folder
from headway.problem import Exit, UserError
from headway.wire import LEDGER_VARIABLE


def place(bucket: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The ledger's address: what the variable says, else the bucket, else None (no ledger is known)."""
    return environment.get(LEDGER_VARIABLE) or (f"s3://{bucket}" if bucket else None)


def witness(address: str, environment: str, region: Callable[[], str]) -> LedgerWitness:
    """Who witnesses the ledger at `address`: parameters in the environment's region; of a folder, a folder of the same machine."""
    if address.startswith("file:"):
        return FolderWitness(state_folder() / named("witness", address))
    return ParameterWitness(environment, region(), address)


def opened(address: str) -> LedgerStore:
    """The store at `address`. Raises UserError for an address of another kind."""
    parts = urlsplit(address)
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return FolderStore(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc:
        prefix = parts.path.strip("/")
        return S3Store(client(), parts.netloc, f"{prefix}/" if prefix else "")
    raise UserError(
        f"{address!r} is no address of a ledger.",
        "Without the ledger nobody knows which release has which traffic; nothing was done.",
        f"Write s3://bucket/prefix, or file:///folder for one machine; {LEDGER_VARIABLE} or, in the sandbox, its own variable may name it.",
        Exit.USAGE,
    )
