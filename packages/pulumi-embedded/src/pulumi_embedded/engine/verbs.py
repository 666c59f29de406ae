"""Every verb of the embedded engine: its flags, what carries it out, or why it is refused and what to do instead."""

import getpass
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pulumi_embedded.engine import operation, tags, verbs_config, verbs_stack
from pulumi_embedded.engine.arguments import GLOBAL, Arguments, Flag, UsageError, Verb, parse
from pulumi_embedded.engine.display import NAME
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.lock import holder_of, request_cancel
from pulumi_embedded.engine.session import Host

CANCEL_SECONDS: Final = 120

Action = Callable[[Host, Arguments], None]

_STACK = Flag("stack", "value", "s", "the stack, instead of the selected one")
_JSON = Flag("json", short="j", help="print JSON")
_YES = Flag("yes", short="y", help="do not ask")
_SECRETS = Flag("show-secrets", help="show secret values in plain text")
_CONFIG_FILE = Flag("config-file", "value", help="use this file instead of Pulumi.STACK.yaml")
_PATH = Flag("path", help="the key is a path, as in a.b[0]")
_PROVIDER = Flag("secrets-provider", "value", help="only `passphrase`")
_CLOUD = "it needs Pulumi Cloud, which a file backend is not"
_REMOTE = tuple(
    Flag(name, refused=f"remote deployments: {_CLOUD}") for name in ("remote", "remote-inherit-settings", "remote-agent-pool-id")
)

_OPERATION: Final = (
    _STACK,
    _JSON,
    _CONFIG_FILE,
    Flag("message", "value", "m", "a note that is kept in the history"),
    Flag("expect-no-changes", help="fail if anything would change, or has"),
    Flag("diff", help="show every property, also of new objects"),
    Flag("target", "list", "t", "only this URN; * and ** are wildcards; may be repeated"),
    Flag("target-dependents", help="also what depends on the targets"),
    Flag("exclude", "list", help="all but this URN; may be repeated"),
    Flag("exclude-dependents", help="nor what depends on the excluded"),
    Flag("parallel", "value", "p", "how many steps run at a time (16)"),
    Flag("debug", short="d", help="show debug messages"),
    Flag("suppress-outputs", help="do not show stack outputs"),
    Flag("suppress-progress", help="do not show what is being waited for"),
    Flag("suppress-permalink"),  # there is none to suppress
    Flag("show-sames", help="show unchanged objects too"),
    Flag("show-reads", help="show objects that are only read"),
    Flag("show-config", help="show the configuration first"),
    Flag("continue-on-error", help="go on with what does not depend on what failed"),
    Flag("run-program"),  # false for refresh and destroy, see `operation`
    Flag("clear-pending-creates", help="forget creations that were interrupted"),
    Flag("exec-kind", "value"),
    Flag("exec-agent", "value"),
    Flag("client", "value"),
    Flag("event-log", "value", help="send the events there: a file, or tcp://HOST:PORT"),
    Flag("attach-debugger", refused="attach your debugger to the program's own process"),
    Flag("config", "list", "c", refused="set values with `pulumi config set`"),
    Flag("config-path", refused="set values with `pulumi config set --path`"),
    Flag("import-pending-creates", "list", refused="run `pulumi refresh --clear-pending-creates`, then use the `import_` resource option"),
    Flag("skip-pending-creates", refused="leave it out: pending creations are kept unless --clear-pending-creates is given"),
    Flag("neo", refused=_CLOUD),
    Flag("copilot", refused=_CLOUD),
    *_REMOTE,
)
_PLANS = "update plans are not modelled; preview with --json and compare, or use --expect-no-changes"
_UPDATE: Final = (
    *_OPERATION,
    Flag("replace", "list", help="replace this URN; may be repeated"),
    Flag("target-replace", "list", help="--target and --replace in one"),
    Flag("policy-pack", "list", help="folder of a policy pack; may be repeated"),
    Flag("policy-pack-config", "list", help="its configuration, a JSON file, in the same order"),
    Flag("refresh", short="r", help="read every live object first"),
)
_CHANGE: Final = (
    _YES,
    Flag("skip-preview", short="f", help="do not preview first"),
    Flag("preview-only", help="only show what would be done"),
)
_CONFIG: Final = (_STACK, _CONFIG_FILE)


def _version(host: Host, arguments: Arguments) -> None:
    del arguments
    host.console.line(f"v{host.version}")


def _whoami(host: Host, arguments: Arguments) -> None:
    user, url = host.environment.get("USER") or getpass.getuser(), host.backend().url
    if arguments.switch("json"):
        host.json({"user": user, "organizations": [], "url": url})
    else:
        host.console.line(user)


def _about(host: Host, arguments: Arguments) -> None:
    del arguments
    host.json({"version": host.version, "engine": NAME, "backend": host.backend().url, "packages": sorted(host.providers())})


def _plugins(host: Host, arguments: Arguments) -> None:
    del arguments
    now = host.now().strftime("%Y-%m-%dT%H:%M:%S.000Z")
    rows = [
        {"name": name, "kind": "resource", "version": make().version, "size": 0, "installTime": now, "lastUsedTime": now}
        for name, make in sorted(host.providers().items())
    ]
    host.json(rows)


def _install(host: Host, arguments: Arguments) -> None:
    del arguments
    host.console.line(f"Nothing to install: this is the {NAME}; its providers are part of the host of the engine")


def _cancel(host: Host, arguments: Arguments) -> None:
    stack = host.stack(arguments, arguments.words[0] if arguments.words else "")
    if not arguments.switch("yes"):
        if not host.interactive(arguments):
            raise UsageError("non-interactive mode requires --yes flag")
        if (
            host.console.ask(f"This will stop the running operation on '{stack.name.stack}'. Type its name to confirm: ")
            != stack.name.stack
        ):
            raise EngineError("confirmation declined; nothing was cancelled")
    holder = holder_of(stack.path)
    if holder is None:
        host.console.line(f"no operation is running on '{stack.name.stack}'; a lock left by a dead process is taken over by the next one")
        return
    host.console.line(f"asking {holder} to stop; waiting for its running steps to end")
    last = time.monotonic()

    def waiting(seconds: float) -> None:
        nonlocal last
        if time.monotonic() - last >= 5:
            last = time.monotonic()
            host.console.line(f"still waiting for pid {holder.pid} after {seconds:.0f}s")

    if not request_cancel(stack.path, holder, seconds=CANCEL_SECONDS, waiting=waiting):
        raise EngineError(
            f"the operation has been asked to stop but did not within {CANCEL_SECONDS} seconds; `kill {holder.pid}` on {holder.host} ends it: "
            "the state is consistent at every step"
        )
    host.console.line(f"The currently running update for '{stack.name.stack}' has been canceled!")


def _both(*words: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(word.split()) for word in words)


_HISTORY: Final = (_STACK, _JSON, _SECRETS, Flag("page-size", "value"), Flag("page", "value"), Flag("full-dates"))

_ACTIONS: Final[Mapping[Verb, Action]] = {
    Verb(
        ("up",),
        "create or update what the program describes",
        (*_UPDATE, *_CHANGE, _PROVIDER, Flag("plan", "value", refused=_PLANS)),
        aliases=_both("update"),
    ): operation.up,
    Verb(
        ("preview",),
        "show what `up` would do",
        (
            *_UPDATE,
            Flag("save-plan", "value", refused=_PLANS),
            Flag("plan", "value", refused=_PLANS),
            Flag("import-file", "value", refused="write the import_ options by hand"),
        ),
        aliases=_both("pre"),
    ): operation.preview,
    Verb(("refresh",), "record what really exists", (*_OPERATION, *_CHANGE)): operation.refresh,
    Verb(
        ("destroy",),
        "delete everything in the stack",
        (
            *_OPERATION,
            *_CHANGE,
            Flag("remove", help="remove the stack afterwards"),
            Flag("exclude-protected", help="leave protected objects"),
            Flag("refresh", short="r"),
        ),
        aliases=_both("down", "dn"),
    ): operation.destroy,
    Verb(("cancel",), "stop the operation that runs on a stack", (_STACK, _YES), most=1, usage="[STACK]"): _cancel,
    Verb(("stack",), "show the stack", (_STACK, _SECRETS, Flag("show-name"))): verbs_stack.show,
    Verb(
        ("stack", "init"),
        "make a stack",
        (
            _STACK,
            _PROVIDER,
            Flag("no-select"),
            Flag("copy-config-from", "value", refused="copy the file"),
            Flag("teams", "list", refused=_CLOUD),
        ),
        most=1,
        usage="NAME",
    ): verbs_stack.init,
    Verb(
        ("stack", "select"),
        "choose the stack that other commands mean",
        (_STACK, _PROVIDER, Flag("create", short="c")),
        most=1,
        usage="NAME",
    ): verbs_stack.select,
    Verb(
        ("stack", "ls"),
        "list stacks",
        (
            _JSON,
            Flag("all", short="a"),
            Flag("project", "value", "p"),
            Flag("organization", "value", "o", refused=_CLOUD),
            Flag("tag", "value", "t", refused="read the tags of each stack with `pulumi stack tag ls`"),
        ),
        aliases=_both("stack list"),
    ): verbs_stack.ls,
    Verb(
        ("stack", "rm"),
        "forget a stack without resources",
        (_STACK, _YES, Flag("force", short="f"), Flag("preserve-config"), Flag("remove-backups")),
        most=1,
        usage="[NAME]",
        aliases=_both("stack remove"),
    ): verbs_stack.remove,
    Verb(
        ("stack", "output"), "show outputs", (_STACK, _JSON, _SECRETS, Flag("shell", refused="use --json")), most=1, usage="[NAME]"
    ): verbs_stack.output,
    Verb(
        ("stack", "export"),
        "print the deployment",
        (_STACK, _SECRETS, Flag("file", "value"), Flag("version", "value", refused=_CLOUD)),
        most=0,
    ): verbs_stack.export,
    Verb(("stack", "import"), "replace the deployment", (_STACK, Flag("file", "value"), Flag("force", short="f"))): verbs_stack.import_,
    Verb(("stack", "history"), "show the operations of a stack", _HISTORY, aliases=_both("history", "stack hist", "hist")): verbs_stack.log,
    Verb(("stack", "rename"), "give a stack another name", (_STACK,), 1, 1, "NEW"): verbs_stack.rename,
    Verb(("stack", "tag", "ls"), "list the tags of a stack", (_STACK, _JSON), aliases=_both("stack tag list")): tags.ls,
    Verb(("stack", "tag", "get"), "show one tag", (_STACK,), 1, 1, "NAME"): tags.get,
    Verb(("stack", "tag", "set"), "pin a tag to a stack", (_STACK,), 2, 2, "NAME VALUE"): tags.set_,
    Verb(("stack", "tag", "rm"), "remove one tag", (_STACK,), 1, 1, "NAME", _both("stack tag remove")): tags.remove,
    Verb(("config",), "show the configuration", (*_CONFIG, _JSON, _SECRETS, Flag("open"))): verbs_config.show,
    Verb(("config", "get"), "show one value", (*_CONFIG, _JSON, _PATH, _SECRETS, Flag("open")), 1, 1, "KEY"): verbs_config.get,
    Verb(
        ("config", "set"),
        "set one value",
        (*_CONFIG, _PATH, Flag("secret"), Flag("plaintext"), Flag("type", "value", refused="values at a --path are typed by their looks")),
        1,
        2,
        "KEY [VALUE]",
    ): verbs_config.set_,
    Verb(
        ("config", "set-all"),
        "set several values",
        (*_CONFIG, _PATH, Flag("secret", "list"), Flag("plaintext", "list"), Flag("json", "value")),
    ): verbs_config.set_all,
    Verb(("config", "rm"), "remove one value", (*_CONFIG, _PATH), 1, 1, "KEY", _both("config remove")): verbs_config.remove,
    Verb(
        ("config", "rm-all"), "remove several values", (*_CONFIG, _PATH), 1, 1_000, "KEY...", _both("config remove-all")
    ): verbs_config.remove,
    Verb(("config", "refresh"), "make the file what the last update used", (*_CONFIG, Flag("force", short="f"))): verbs_config.refresh,
    Verb(("whoami",), "show user and backend", (_JSON, Flag("verbose", short="v"))): _whoami,
    Verb(("version",), "print the version"): _version,
    Verb(("about",), "tell about the engine", (_JSON, _STACK, Flag("transitive", short="t"))): _about,
    Verb(("plugin", "ls"), "list providers", (_JSON, Flag("project", short="p")), aliases=_both("plugin list")): _plugins,
    Verb(("plugin", "install"), "nothing to do", (Flag("server", "value"), Flag("exact"), Flag("reinstall")), most=3): _install,
    Verb(
        ("install",),
        "nothing to do",
        (Flag("no-plugins"), Flag("no-dependencies"), Flag("reinstall"), Flag("use-language-version-tools"), Flag("parallel", "value")),
    ): _install,
}

_REFUSED: Final[Mapping[str, str]] = {
    "ai": _CLOUD,
    "config cp": "copy the file",
    "config env": f"Pulumi ESC: {_CLOUD}",
    "console": _CLOUD,
    "convert": "there is nothing to convert: programs are Python",
    "deployment": _CLOUD,
    "env": f"Pulumi ESC: {_CLOUD}",
    "gen-completion": "complete by `pulumi --help`",
    "import": "adopt a live object with the `import_` resource option",
    "login": "the backend is the folder that PULUMI_BACKEND_URL names",
    "logout": "the backend is the folder that PULUMI_BACKEND_URL names",
    "logs": "look at the logs of the objects themselves",
    "new": "copy a folder with a Pulumi.yaml",
    "org": _CLOUD,
    "package": "providers are part of the host of the engine",
    "plugin rm": "providers are part of the host of the engine; there is nothing to remove",
    "policy": "pass the folder of a pack with --policy-pack",
    "query": "read the state with `pulumi stack export`",
    "schema": "providers are part of the host of the engine",
    "stack change-secrets-provider": "only `passphrase` is known",
    "stack graph": "read the state with `pulumi stack export`",
    "state": "edit the result of `pulumi stack export` and give it to `pulumi stack import`",
    "template": _CLOUD,
    "watch": "run `pulumi up` again",
}
_VERBS: Final = (*_ACTIONS, *(Verb(tuple(words.split()), "", most=1_000, refused=why) for words, why in _REFUSED.items()))


def dispatch(args: Sequence[str], host: Host) -> None:
    """Carry out one command line. Raises EngineError for everything that the user can do something about."""
    arguments = parse(args, _VERBS)
    if arguments.text("cwd"):
        host = replace(host, cwd=Path(host.cwd, arguments.text("cwd")))
    if not host.cwd.is_dir():
        raise EngineError(f"the folder {host.cwd} does not exist")
    if arguments.help:
        _help(host, arguments.verb)
        return
    try:
        _ACTIONS[arguments.verb](host, arguments)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise EngineError(f"{where}{error.strerror or error}; put that right and run the command again") from error


def _help(host: Host, verb: Verb) -> None:
    line = host.console.line
    if not verb.words:
        line(f"pulumi v{host.version} - {NAME}\n\nUsage:\n  pulumi COMMAND [FLAGS]\n\nCommands:")
        for known in sorted(_ACTIONS, key=lambda known: known.words):
            line(f"  {known!s:<20}{known.help}")
        line("\nNot supported: " + ", ".join(sorted(_REFUSED)) + " (each tells what to do instead)")
    else:
        line(f"{verb.help[:1].upper()}{verb.help[1:]}\n\nUsage:\n  pulumi {verb} {verb.usage}".rstrip() + " [FLAGS]\n\nFlags:")
    for flag in sorted((*verb.flags, *GLOBAL), key=lambda flag: flag.name):
        if flag.help and not flag.refused:
            short = f"-{flag.short}, " if flag.short else "    "
            line(f"  {short}--{flag.name + (' VALUE' if flag.kind != 'switch' else ''):<30}{flag.help}")
