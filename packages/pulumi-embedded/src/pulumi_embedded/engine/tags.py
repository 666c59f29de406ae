"""`pulumi stack tag ...`: words pinned to a stack, in a file of their own beside its state, as Pulumi's file backend keeps them."""

import json
from pathlib import Path
from typing import Any

from pulumi_embedded.engine.arguments import Arguments
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.lock import held
from pulumi_embedded.engine.session import EngineHost, SessionStack

VERSION = 1


def tags_of(state: Path) -> Path:
    """Where the tags of the stack with that state file lie."""
    return state.with_name(state.name.removesuffix(".json") + ".pulumi-tags")


def ls(host: EngineHost, arguments: Arguments) -> None:
    tags = _read(host.stack(arguments))
    if arguments.switch("json"):
        host.json(tags)
        return
    width = max(map(len, ("NAME", *tags))) + 2
    for name, value in {"NAME": "VALUE", **tags}.items():
        host.console.line(f"{name:<{width}}{value}")


def get(host: EngineHost, arguments: Arguments) -> None:
    stack = host.stack(arguments)
    host.console.line(_present(stack, arguments.words[0])[arguments.words[0]])


def set_(host: EngineHost, arguments: Arguments) -> None:
    stack = host.stack(arguments)
    name, value = arguments.words
    with held(stack.path, str(stack.name), "stack tag set", lambda: None):
        _write(stack, {**_read(stack), name: value})


def remove(host: EngineHost, arguments: Arguments) -> None:
    stack = host.stack(arguments)
    with held(stack.path, str(stack.name), "stack tag rm", lambda: None):
        tags = _present(stack, arguments.words[0])
        _write(stack, {name: value for name, value in tags.items() if name != arguments.words[0]})


def _read(stack: SessionStack) -> dict[str, str]:
    file = tags_of(stack.path)
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
        version, tags = found["version"], {str(name): str(value) for name, value in (found["tags"] or {}).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise EngineError(f"{file} holds no tags as `pulumi stack tag set` writes them; restore or remove it") from None
    if version != VERSION:
        raise EngineError(f"{file}: version {version} of stack tags is not supported; version {VERSION} is")
    return dict(sorted(tags.items()))


def _present(stack: SessionStack, name: str) -> dict[str, str]:
    tags = _read(stack)
    if name not in tags:
        raise EngineError(f"stack tag '{name}' not found for stack '{stack.name.stack}'")
    return tags


def _write(stack: SessionStack, tags: dict[str, str]) -> None:
    file = tags_of(stack.path)
    temporary = file.with_name(file.name + ".tmp")
    try:
        temporary.write_text(json.dumps({"version": VERSION, "tags": dict(sorted(tags.items()))}, indent=4), encoding="utf-8")
        temporary.replace(file)
    except OSError as error:
        raise EngineError(f"cannot write {file}: {error.strerror}; its tags are what they were") from None
