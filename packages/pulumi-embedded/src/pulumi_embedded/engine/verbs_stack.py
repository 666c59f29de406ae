"""`pulumi stack ...`: making, choosing, listing, reading, moving and removing stacks."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pulumi_embedded.engine import history
from pulumi_embedded.engine.arguments import Arguments, UsageError
from pulumi_embedded.engine.backend import StackName
from pulumi_embedded.engine.checkpoint import VERSION, faults, from_json
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.graph import ordered
from pulumi_embedded.engine.lock import cancel_of, holder_of, lock_of
from pulumi_embedded.engine.model import Resource
from pulumi_embedded.engine.secrets import Passphrase, phrase_of
from pulumi_embedded.engine.session import EngineHost, SessionStack
from pulumi_embedded.engine.state import StackState, journal_of
from pulumi_embedded.engine.tags import tags_of
from pulumi_embedded.engine.values import REFERENCE, SECRET, SIGNATURE, Properties, masked, plain
from pulumi_embedded.engine.workspace import require_project

DEFAULT_PAGE = 10


def init(host: EngineHost, arguments: Arguments) -> None:
    refuse_provider(arguments)
    stack = host.stack(arguments, _only_name(arguments), must_exist=False)
    create(stack)
    if not arguments.switch("no-select"):
        stack.backend.select(stack.name, stack.project.name, stack.project.folder)
    host.console.line(f"Created stack '{stack.name.stack}'")


def create(stack: SessionStack) -> None:
    """Make an empty stack. The salt goes into the state only; see `session` for why."""
    if stack.backend.exists(stack.name):
        raise EngineError(f"stack '{stack.name}' already exists")
    passphrase = stack.passphrase("")
    passphrase.check()
    stack.backend.mark()
    StackState.create(stack.path, str(stack.name), passphrase, stack.host.now)


def select(host: EngineHost, arguments: Arguments) -> None:
    refuse_provider(arguments)
    name = _only_name(arguments)
    if not name and not arguments.text("stack"):
        raise UsageError("`pulumi stack select` needs the name of a stack; `pulumi stack ls` lists them")
    stack = host.stack(arguments, name, must_exist=not arguments.switch("create"))
    if not stack.backend.exists(stack.name):
        create(stack)
        host.console.line(f"Created stack '{stack.name.stack}'")
    stack.backend.select(stack.name, stack.project.name, stack.project.folder)


def show(host: EngineHost, arguments: Arguments) -> None:
    """`pulumi stack`: the stack's name and outputs."""
    stack = host.stack(arguments)
    if arguments.switch("show-name"):
        host.console.line(stack.name.stack)
        return
    show_secrets = arguments.switch("show-secrets")
    state = stack.read(secrets=show_secrets)
    resources = sum(not resource.is_default_provider for resource in state.resources)
    host.json({"name": stack.name.stack, "resourceCount": resources, "outputs": _visible(state.outputs, show_secrets=show_secrets)})


def ls(host: EngineHost, arguments: Arguments) -> None:
    project = (
        None if arguments.switch("all") and not arguments.text("project") else arguments.text("project") or require_project(host.cwd).name
    )
    here = require_project(host.cwd) if project else None
    backend = host.backend()
    selected = backend.selected(here.name, here.folder) if here else None
    rows: list[Properties] = []
    for name in backend.stacks(project):
        last = history.page(backend.history(name), 1, 1, None)
        row: Properties = {
            "name": name.stack if here and name.project == here.name and not arguments.switch("fully-qualify-stack-names") else str(name),
            "current": name == selected,
            "updateInProgress": holder_of(backend.state(name)) is not None,
            "resourceCount": len(StackState.read(backend.state(name)).resources),
        }
        if last:
            row["lastUpdate"] = last[0]["endTime"]
        rows.append(row)
    host.json(rows)


def remove(host: EngineHost, arguments: Arguments) -> None:
    stack = host.stack(arguments, _only_name(arguments))
    name = stack.name.stack
    if not arguments.switch("yes"):
        if not host.interactive(arguments):
            raise UsageError("non-interactive mode requires --yes flag")
        if host.console.ask(f"This will permanently remove the '{name}' stack! Please confirm by typing its name: ") != name:
            raise EngineError("confirmation declined; nothing was removed")
    delete(stack, force=arguments.switch("force"), keep_config=arguments.switch("preserve-config"))
    host.console.line(f"Stack '{name}' has been removed!")


def delete(stack: SessionStack, *, force: bool, keep_config: bool) -> None:
    """Forget a stack. Raises EngineError while it has resources, unless forced."""
    name = stack.name.stack
    with stack.editing("stack rm") as state:
        if state.resources and not force:
            raise EngineError(
                f"'{name}' still has resources; removal rejected. Possible actions:\n"
                f"- Make sure that '{name}' is the stack that you want to destroy\n"
                "- Run `pulumi destroy` to delete the resources, then run `pulumi stack rm`\n"
                "- Run `pulumi stack rm --force` to override this error"
            )
        path = stack.path
        for file in (path, journal_of(path), cancel_of(path), lock_of(path), path.with_name(path.name + ".bak"), tags_of(path)):
            file.unlink(missing_ok=True)
        shutil.rmtree(stack.backend.history(stack.name), ignore_errors=True)
    if not keep_config:
        stack.config_file.unlink(missing_ok=True)
    if stack.backend.selected(stack.project.name, stack.project.folder) == stack.name:
        stack.backend.select(None, stack.project.name, stack.project.folder)


def output(host: EngineHost, arguments: Arguments) -> None:
    show_secrets = arguments.switch("show-secrets")
    outputs = host.stack(arguments).read(secrets=show_secrets).outputs
    visible = _visible(outputs, show_secrets=show_secrets)
    if not arguments.words:
        host.json(visible)
        return
    name = arguments.words[0]
    if name not in visible:
        known = f"; it has {', '.join(sorted(visible))}" if visible else ""
        raise EngineError(f"current stack does not have output property '{name}'{known}")
    if arguments.switch("json"):
        host.json(visible[name])
    else:
        host.console.line(_printed(visible[name]))


def export(host: EngineHost, arguments: Arguments) -> None:
    show_secrets = arguments.switch("show-secrets")
    state = host.stack(arguments).read(secrets=show_secrets)
    text = json.dumps({"version": VERSION, "deployment": state.deployment(show_secrets=show_secrets)}, indent=4)
    file = arguments.text("file")
    if not file:
        host.console.line(text)
        return
    try:
        Path(host.cwd, file).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise EngineError(f"cannot write {file}: {error.strerror}") from None


def import_(host: EngineHost, arguments: Arguments) -> None:
    """Replace what is recorded. Pending operations are dropped, as the real engine does: the file says what exists."""
    stack = host.stack(arguments)
    document = _document(host, arguments.text("file"))
    deployment = cast(Properties, document["deployment"] or {})
    providers = deployment.get("secrets_providers") or {}
    salt = str((providers.get("state") or {}).get("salt") or "")
    foreign = Passphrase(phrase_of(host.environment), salt) if salt else None
    entries = deployment.get("resources") or []
    resources = [
        from_json(entry, lambda secret: _opened(secret, foreign), f"deployment.resources[{index}]") for index, entry in enumerate(entries)
    ]
    if not arguments.switch("force"):
        prefix = f"urn:pulumi:{stack.name.stack}::{stack.name.project}::"
        strange = [resource.urn for resource in resources if not resource.urn.startswith(prefix)]
        if strange:
            raise EngineError(
                f"{len(strange)} resource(s), the first {strange[0]}, belong to a different stack than {stack.name}; "
                "import them into their own stack, or pass --force"
            )
    wrong = [] if arguments.switch("disable-integrity-checking") else faults(resources)
    if wrong:
        raise EngineError(
            "the deployment is not whole and was not imported; complete it, or pass --disable-integrity-checking:\n"
            + "\n".join(f"  * {fault}" for fault in wrong)
        )
    with stack.editing("stack import") as state:
        for operation in deployment.get("pending_operations") or []:
            urn = operation.get("resource", {}).get("urn", "")
            host.console.line(f"warning: removing pending operation '{operation.get('type')}' on '{urn}' from snapshot")
        state.replace_all(ordered(resources))
    host.console.line("Import complete.")


def log(host: EngineHost, arguments: Arguments) -> None:
    """`stack history`."""
    stack = host.stack(arguments)
    size, number = arguments.number("page-size", DEFAULT_PAGE), arguments.number("page", 1)
    if size < 1 or number < 1:
        raise UsageError("--page-size and --page must be at least 1")
    decrypt = stack.config_decrypter() if arguments.switch("show-secrets") else None
    updates = history.page(stack.backend.history(stack.name), size, number, decrypt)
    host.json(updates)


def rename(host: EngineHost, arguments: Arguments) -> None:
    old = host.stack(arguments)
    new = StackName.parse(arguments.words[0], old.project.name)
    if new.project != old.name.project:
        raise EngineError(f"a stack can only be renamed within its project: '{new}' is not in '{old.name.project}'")
    if old.backend.exists(new):
        raise EngineError(f"stack '{new}' already exists")
    target = SessionStack(host, old.project, old.backend, new, old.project.stack_file(new.stack))
    with old.editing("stack rename") as state:
        state.replace_all([_renamed(resource, old.name, new) for resource in state.resources], str(new))
        old.path.rename(target.path)
        if tags_of(old.path).exists():
            tags_of(old.path).rename(tags_of(target.path))
        for file in (old.path.with_name(old.path.name + ".bak"), cancel_of(old.path), lock_of(old.path)):
            file.unlink(missing_ok=True)
    log_folder = old.backend.history(old.name)
    if log_folder.exists():
        shutil.rmtree(old.backend.history(new), ignore_errors=True)
        log_folder.rename(old.backend.history(new))
    if old.config_file.exists() and not target.config_file.exists():
        old.config_file.rename(target.config_file)
    if old.backend.selected(old.project.name, old.project.folder) == old.name:
        old.backend.select(new, old.project.name, old.project.folder)
    host.console.line(f"Renamed {old.name.stack} to {new.stack}")


def refuse_provider(arguments: Arguments) -> None:
    provider = arguments.text("secrets-provider", "passphrase")
    if provider not in ("passphrase", "default"):
        raise EngineError(f"secrets provider '{provider}' is not supported by the embedded engine; it knows `passphrase`")


def _only_name(arguments: Arguments) -> str:
    return arguments.words[0] if arguments.words else ""


def _printed(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _visible(outputs: Properties, *, show_secrets: bool) -> Properties:
    return plain(outputs) if show_secrets else masked(outputs)


def _document(host: EngineHost, file: str) -> Properties:
    try:
        text = Path(host.cwd, file).read_text(encoding="utf-8") if file else sys.stdin.read()
        document = json.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"cannot read {file or 'standard input'}: {error}") from None
    except ValueError as error:
        raise EngineError(f"{file or 'standard input'} is not JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("deployment") or {}, dict):
        raise EngineError(
            f"{file or 'standard input'}: expected an object with `version` and `deployment`, as `pulumi stack export` prints it"
        )
    if document.get("version") != VERSION:
        raise EngineError(f"version: deployment version {document.get('version')} is not supported; version {VERSION} is")
    return {"deployment": None, **cast(Properties, document)}


def _opened(secret: Properties, foreign: Passphrase | None) -> Properties:
    if "plaintext" in secret:
        return {SIGNATURE: SECRET, "value": json.loads(secret["plaintext"])}
    if foreign is None or "ciphertext" not in secret:
        raise EngineError("the deployment holds a secret without a salt to open it; export it with --show-secrets")
    return {SIGNATURE: SECRET, "value": json.loads(foreign.decrypt(secret["ciphertext"]))}


def _renamed(resource: Resource, old: StackName, new: StackName) -> Resource:
    before, after = f"urn:pulumi:{old.stack}::", f"urn:pulumi:{new.stack}::"
    root_before, root_after = f"::{old.project}-{old.stack}", f"::{new.project}-{new.stack}"

    def urn(text: str) -> str:
        if not text.startswith(before):
            return text
        moved = after + text.removeprefix(before)
        is_root = "::pulumi:pulumi:Stack::" in moved and moved.endswith(root_before)
        return moved.removesuffix(root_before) + root_after if is_root else moved

    def inside(value: Any) -> Any:
        if isinstance(value, dict):
            moved = {key: inside(inner) for key, inner in value.items()}
            return {**moved, "urn": urn(str(moved["urn"]))} if value.get(SIGNATURE) == REFERENCE else moved
        return [inside(inner) for inner in value] if isinstance(value, list) else value

    return replace(
        resource,
        urn=urn(resource.urn),
        parent=urn(resource.parent),
        provider=urn(resource.provider),
        deleted_with=urn(resource.deleted_with),
        dependencies=tuple(urn(other) for other in resource.dependencies),
        property_dependencies={key: tuple(urn(other) for other in urns) for key, urns in resource.property_dependencies.items()},
        aliases=tuple(urn(other) for other in resource.aliases),
        inputs=inside(resource.inputs),
        outputs=inside(resource.outputs),
    )
