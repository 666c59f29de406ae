"""`pulumi config ...`: reading and editing the configuration of a stack."""

import json
import sys
from collections.abc import Iterable
from typing import Any

from pulumi_embedded.engine import history
from pulumi_embedded.engine.arguments import Arguments, UsageError
from pulumi_embedded.engine.config import StackValue, full_key, split_path, value_of
from pulumi_embedded.engine.config_file import ConfigFile, Sealed
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.paths import value_at
from pulumi_embedded.engine.session import EngineHost, SessionStack
from pulumi_embedded.engine.values import Properties

Entry = tuple[str, Any, bool]
"""Key, value (a structure only if it is not secret), whether it is secret."""


def show(host: EngineHost, arguments: Arguments) -> None:
    """`pulumi config`: every value."""
    show_secrets = arguments.switch("show-secrets")
    values = host.stack(arguments).config(show_secrets=show_secrets)
    host.json({key: _json(value, shown=show_secrets) for key, value in values.items()})


def get(host: EngineHost, arguments: Arguments) -> None:
    stack = host.stack(arguments)
    name = arguments.words[0]
    project = stack.project.name
    key, path = split_path(name, project) if arguments.switch("path") else (full_key(name, project), ())
    settings = {full_key(str(known), project): raw for known, raw in stack.settings().values.items()}
    found, raw = value_at(settings[key], path) if key in settings else (False, None)
    # A key that the file lacks may be a default of the project.
    value = value_of(raw, stack.config_decrypter()) if found else None if path else stack.config(show_secrets=True).get(key)
    if value is None:
        raise EngineError(f"configuration key '{name}' not found for stack '{stack.name.stack}'")
    if arguments.switch("json"):
        host.json({"name": key, **_json(value, shown=True)})
    else:
        host.console.line(value.text)


def set_(host: EngineHost, arguments: Arguments) -> None:
    stack = host.stack(arguments)
    key, *values = arguments.words
    secret = arguments.switch("secret")
    if secret and arguments.switch("plaintext"):
        raise UsageError("--secret and --plaintext exclude each other")
    if values:
        value = values[0]
    elif host.interactive(arguments):
        value = host.console.ask(f"value for {key}: ")
    else:
        value = sys.stdin.read().removesuffix("\n")
    _edit(stack, [(key, value, secret)], path=arguments.switch("path"))


def set_all(host: EngineHost, arguments: Arguments) -> None:
    stack = host.stack(arguments)
    entries: list[Entry] = [(*_pair(text), False) for text in arguments.texts("plaintext")] + [
        (*_pair(text), True) for text in arguments.texts("secret")
    ]
    if arguments.given("json"):
        if entries:
            raise UsageError("--json cannot be combined with --plaintext and --secret")
        entries = list(_from_json(arguments.text("json")))
    _edit(stack, entries, path=arguments.switch("path"))


def remove(host: EngineHost, arguments: Arguments) -> None:
    """`config rm` and `config rm-all`."""
    stack = host.stack(arguments)
    project = stack.project.name
    file = ConfigFile(stack.config_file, project)
    for name in arguments.words:
        file.remove(*(split_path(name, project) if arguments.switch("path") else (full_key(name, project), ())))
    file.save()


def refresh(host: EngineHost, arguments: Arguments) -> None:
    """Make the file what the last update used."""
    stack = host.stack(arguments)
    updates = history.entries(stack.backend.history(stack.name), 1)
    if not updates:
        raise EngineError(f"no previous deployment of stack '{stack.name.stack}' to take the configuration from")
    if stack.config_file.exists() and not arguments.switch("force"):
        backup = stack.config_file.with_name(stack.config_file.name + ".bak")
        backup.write_bytes(stack.config_file.read_bytes())
        host.console.line(f"backed up existing configuration to {backup}")
    file = ConfigFile(stack.config_file, stack.project.name)
    values: dict[str, Any] = {}
    for key, entry in sorted(updates[0]["config"].items()):
        text = entry["value"]
        values[key] = Sealed(text) if entry["secret"] else json.loads(text) if entry["object"] else text
    if any(isinstance(value, Sealed) for value in values.values()):
        file.set_salt(stack.config_passphrase().salt)
    file.replace_config(values)
    file.save()
    host.console.line(f"refreshed configuration for stack '{stack.name.stack}'")


def _edit(stack: SessionStack, entries: Iterable[Entry], *, path: bool) -> None:
    project = stack.project.name
    file = ConfigFile(stack.config_file, project)
    for name, value, secret in entries:
        key, below = split_path(name, project) if path else (full_key(name, project), ())
        if secret:
            passphrase = stack.config_passphrase()
            file.set_salt(passphrase.salt)
            file.set(key, below, Sealed(passphrase.encrypt(value)))
        else:
            file.set(key, below, value)
    file.save()


def _json(value: StackValue, *, shown: bool) -> Properties:
    fields: Properties = {"value": value.text} if shown or not value.secret else {}
    if fields and value.structured:
        fields["objectValue"] = value.data
    return {**fields, "secret": value.secret}


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"config set-all: `{key}` has no value; write KEY=VALUE")
    return key, value


def _from_json(text: str) -> Iterable[Entry]:
    try:
        values = json.loads(text)
        for key, entry in values.items():
            if "value" not in entry:
                raise EngineError(f"config set-all --json: `{key}` has no `value`; export it with `pulumi config --json --show-secrets`")
            secret = bool(entry.get("secret"))
            yield key, str(entry["value"]) if secret else entry.get("objectValue", str(entry["value"])), secret
    except (ValueError, AttributeError, TypeError):
        raise EngineError(
            "config set-all --json: expected an object of {value, secret} by key, as `pulumi config --json` prints it"
        ) from None
