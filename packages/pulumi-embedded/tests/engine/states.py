"""States of stacks, as tests make, open and read them."""

from pathlib import Path
from typing import Any

from pulumi_embedded.engine.model import Resource
from pulumi_embedded.engine.secrets import Passphrase
from pulumi_embedded.engine.state import StackState

PREFIX = "urn:pulumi:dev::proj::"
PASSPHRASE = Passphrase.new("test")
MARKER = "marker-7Qx2-in-the-clear"
PROVIDER = f"{PREFIX}pulumi:providers:k8s::default"


def resource(name: str, **fields: Any) -> Resource:
    type = fields.pop("type", "k8s:core:Thing")
    return Resource(**{"urn": f"{PREFIX}{type}::{name}", "type": type, "custom": True, "id": f"id-{name}", **fields})


def edit(path: Path) -> StackState:
    return StackState.edit(path, lambda _: PASSPHRASE)


def read(path: Path) -> StackState:
    return StackState.read(path, lambda _: PASSPHRASE)


def names(state: StackState) -> list[str]:
    return [entry.name for entry in state.resources]
