"""Every verb of the embedded engine: its flags, what carries it out, or why it is refused and what to do instead."""

import getpass
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pulumi_embedded.engine import operation, tags, verbs_config, verbs_secrets, verbs_stack
from pulumi_embedded.engine.arguments import GLOBAL, Arguments, CommandFlag, CommandVerb, UsageError, parse
from pulumi_embedded.engine.display import NAME
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.lock import holder_of, request_cancel
from pulumi_embedded.engine.session import EngineHost

CANCEL_SECONDS: Final = 120

Action = Callable[[EngineHost, Arguments], None]

_STACK = CommandFlag("stack", "value", "s", "the stack, instead of the selected one")
_JSON = CommandFlag("json", short="j", help="print JSON")
_YES = CommandFlag("yes", short="y", help="do not ask")
_SECRETS = CommandFlag("show-secrets", help="show secret values in plain text")
_CONFIG_FILE = CommandFlag("config-file", "value", help="use this file instead of Pulumi.STACK.yaml")
_PATH = CommandFlag("path", help="the key is a path, as in a.b[0]")
_PROVIDER = CommandFlag("secrets-provider", "value", help="only `passphrase`")
_CLOUD = "it needs Pulumi Cloud, which a file backend is not"
_REMOTE = tuple(
    CommandFlag(name, refused=f"remote deployments: {_CLOUD}") for name in ("remote", "remote-inherit-settings", "remote-agent-pool-id")
)

_OPERATION: Final = (
    _STACK,
    _JSON,
    _CONFIG_FILE,
    CommandFlag("message", "value", "m", "a note that is kept in the history"),
    CommandFlag("expect-no-changes", help="fail if anything would change, or has"),
    CommandFlag("diff", help="show every property, also of new objects"),
    CommandFlag("target", "list", "t", "only this URN; * and ** are wildcards; may be repeated"),
    CommandFlag("target-dependents", help="also what depends on the targets"),
    CommandFlag("exclude", "list", help="all but this URN; may be repeated"),
    CommandFlag("exclude-dependents", help="nor what depends on the excluded"),
    CommandFlag("parallel", "value", "p", "how many steps run at a time (16)"),
    CommandFlag("debug", short="d", help="show debug messages"),
    CommandFlag("suppress-outputs", help="do not show stack outputs"),
    CommandFlag("suppress-progress", help="do not show what is being waited for"),
    CommandFlag("suppress-permalink"),  # there is none to suppress
    CommandFlag("show-sames", help="show unchanged objects too"),
    CommandFlag("show-reads", help="show objects that are only read"),
    CommandFlag("show-config", help="show the configuration first"),
    CommandFlag("continue-on-error", help="go on with what does not depend on what failed"),
    CommandFlag("run-program"),  # false for refresh and destroy, see `operation`
    CommandFlag("clear-pending-creates", help="forget creations that were interrupted"),
    CommandFlag("exec-kind", "value"),
    CommandFlag("exec-agent", "value"),
    CommandFlag("client", "value"),
    CommandFlag("event-log", "value", help="send the events there: a file, or tcp://HOST:PORT"),
    CommandFlag("attach-debugger", refused="attach your debugger to the program's own process"),
    CommandFlag("config", "list", "c", refused="set values with `pulumi config set`"),
    CommandFlag("config-path", refused="set values with `pulumi config set --path`"),
    CommandFlag(
        "import-pending-creates", "list", refused="run `pulumi refresh --clear-pending-creates`, then use the `import_` resource option"
    ),
    CommandFlag("skip-pending-creates", refused="leave it out: pending creations are kept unless --clear-pending-creates is given"),
    CommandFlag("neo", refused=_CLOUD),
    CommandFlag("copilot", refused=_CLOUD),
    *_REMOTE,
)
_PLANS = "update plans are not modelled; preview with --json and compare, or use --expect-no-changes"
_UPDATE: Final = (
    *_OPERATION,
    CommandFlag("replace", "list", help="replace this URN; may be repeated"),
    CommandFlag("target-replace", "list", help="--target and --replace in one"),
    CommandFlag("policy-pack", "list", help="folder of a policy pack; may be repeated"),
    CommandFlag("policy-pack-config", "list", help="its configuration, a JSON file, in the same order"),
    CommandFlag("refresh", short="r", help="read every live object first"),
)
_CHANGE: Final = (
    _YES,
    CommandFlag("skip-preview", short="f", help="do not preview first"),
    CommandFlag("preview-only", help="only show what would be done"),
)
_CONFIG: Final = (_STACK, _CONFIG_FILE)


def _version(host: EngineHost, arguments: Arguments) -> None:
    del arguments
    host.console.line(f"v{host.version}")


def _whoami(host: EngineHost, arguments: Arguments) -> None:
    user, url = host.environment.get("USER") or getpass.getuser(), host.backend().url
    if arguments.switch("json"):
        host.json({"user": user, "organizations": [], "url": url})
    else:
        host.console.line(user)


def _about(host: EngineHost, arguments: Arguments) -> None:
    del arguments
    host.json({"version": host.version, "engine": NAME, "backend": host.backend().url, "packages": sorted(host.providers())})


def _plugins(host: EngineHost, arguments: Arguments) -> None:
    del arguments
    now = host.now().strftime("%Y-%m-%dT%H:%M:%S.000Z")
    rows = [
        {"name": name, "kind": "resource", "version": make().version, "size": 0, "installTime": now, "lastUsedTime": now}
        for name, make in sorted(host.providers().items())
    ]
    host.json(rows)


def _install(host: EngineHost, arguments: Arguments) -> None:
    del arguments
    host.console.line(f"Nothing to install: this is the {NAME}; its providers are part of the host of the engine")


def _cancel(host: EngineHost, arguments: Arguments) -> None:
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


_HISTORY: Final = (_STACK, _JSON, _SECRETS, CommandFlag("page-size", "value"), CommandFlag("page", "value"), CommandFlag("full-dates"))

_ACTIONS: Final[Mapping[CommandVerb, Action]] = {
    CommandVerb(
        ("up",),
        "create or update what the program describes",
        (*_UPDATE, *_CHANGE, _PROVIDER, CommandFlag("plan", "value", refused=_PLANS)),
        aliases=_both("update"),
    ): operation.up,
    CommandVerb(
        ("preview",),
        "show what `up` would do",
        (
            *_UPDATE,
            CommandFlag("save-plan", "value", refused=_PLANS),
            CommandFlag("plan", "value", refused=_PLANS),
            CommandFlag("import-file", "value", refused="write the import_ options by hand"),
        ),
        aliases=_both("pre"),
    ): operation.preview,
    CommandVerb(("refresh",), "record what really exists", (*_OPERATION, *_CHANGE)): operation.refresh,
    CommandVerb(
        ("destroy",),
        "delete everything in the stack",
        (
            *_OPERATION,
            *_CHANGE,
            CommandFlag("remove", help="remove the stack afterwards"),
            CommandFlag("exclude-protected", help="leave protected objects"),
            CommandFlag("refresh", short="r"),
        ),
        aliases=_both("down", "dn"),
    ): operation.destroy,
    CommandVerb(("cancel",), "stop the operation that runs on a stack", (_STACK, _YES), most=1, usage="[STACK]"): _cancel,
    CommandVerb(("stack",), "show the stack", (_STACK, _SECRETS, CommandFlag("show-name"))): verbs_stack.show,
    CommandVerb(
        ("stack", "init"),
        "make a stack",
        (
            _STACK,
            _PROVIDER,
            CommandFlag("no-select"),
            CommandFlag("copy-config-from", "value", refused="copy the file"),
            CommandFlag("teams", "list", refused=_CLOUD),
        ),
        most=1,
        usage="NAME",
    ): verbs_stack.init,
    CommandVerb(
        ("stack", "select"),
        "choose the stack that other commands mean",
        (_STACK, _PROVIDER, CommandFlag("create", short="c")),
        most=1,
        usage="NAME",
    ): verbs_stack.select,
    CommandVerb(
        ("stack", "ls"),
        "list stacks",
        (
            _JSON,
            CommandFlag("all", short="a"),
            CommandFlag("project", "value", "p"),
            CommandFlag("organization", "value", "o", refused=_CLOUD),
            CommandFlag("tag", "value", "t", refused="read the tags of each stack with `pulumi stack tag ls`"),
        ),
        aliases=_both("stack list"),
    ): verbs_stack.ls,
    CommandVerb(
        ("stack", "rm"),
        "forget a stack without resources",
        (_STACK, _YES, CommandFlag("force", short="f"), CommandFlag("preserve-config"), CommandFlag("remove-backups")),
        most=1,
        usage="[NAME]",
        aliases=_both("stack remove"),
    ): verbs_stack.remove,
    CommandVerb(
        ("stack", "output"), "show outputs", (_STACK, _JSON, _SECRETS, CommandFlag("shell", refused="use --json")), most=1, usage="[NAME]"
    ): verbs_stack.output,
    CommandVerb(
        ("stack", "export"),
        "print the deployment",
        (_STACK, _SECRETS, CommandFlag("file", "value"), CommandFlag("version", "value", refused=_CLOUD)),
        most=0,
    ): verbs_stack.export,
    CommandVerb(
        ("stack", "import"), "replace the deployment", (_STACK, CommandFlag("file", "value"), CommandFlag("force", short="f"))
    ): verbs_stack.import_,
    CommandVerb(
        ("stack", "history"), "show the operations of a stack", _HISTORY, aliases=_both("history", "stack hist", "hist")
    ): verbs_stack.log,
    CommandVerb(("stack", "rename"), "give a stack another name", (_STACK,), 1, 1, "NEW"): verbs_stack.rename,
    CommandVerb(
        ("stack", "change-secrets-provider"), "encrypt a stack's secrets by a new passphrase", (_STACK,), 1, 1, "passphrase"
    ): verbs_secrets.change,
    CommandVerb(("stack", "tag", "ls"), "list the tags of a stack", (_STACK, _JSON), aliases=_both("stack tag list")): tags.ls,
    CommandVerb(("stack", "tag", "get"), "show one tag", (_STACK,), 1, 1, "NAME"): tags.get,
    CommandVerb(("stack", "tag", "set"), "pin a tag to a stack", (_STACK,), 2, 2, "NAME VALUE"): tags.set_,
    CommandVerb(("stack", "tag", "rm"), "remove one tag", (_STACK,), 1, 1, "NAME", _both("stack tag remove")): tags.remove,
    CommandVerb(("config",), "show the configuration", (*_CONFIG, _JSON, _SECRETS, CommandFlag("open"))): verbs_config.show,
    CommandVerb(
        ("config", "get"), "show one value", (*_CONFIG, _JSON, _PATH, _SECRETS, CommandFlag("open")), 1, 1, "KEY"
    ): verbs_config.get,
    CommandVerb(
        ("config", "set"),
        "set one value",
        (
            *_CONFIG,
            _PATH,
            CommandFlag("secret"),
            CommandFlag("plaintext"),
            CommandFlag("type", "value", refused="values at a --path are typed by their looks"),
        ),
        1,
        2,
        "KEY [VALUE]",
    ): verbs_config.set_,
    CommandVerb(
        ("config", "set-all"),
        "set several values",
        (*_CONFIG, _PATH, CommandFlag("secret", "list"), CommandFlag("plaintext", "list"), CommandFlag("json", "value")),
    ): verbs_config.set_all,
    CommandVerb(("config", "rm"), "remove one value", (*_CONFIG, _PATH), 1, 1, "KEY", _both("config remove")): verbs_config.remove,
    CommandVerb(
        ("config", "rm-all"), "remove several values", (*_CONFIG, _PATH), 1, 1_000, "KEY...", _both("config remove-all")
    ): verbs_config.remove,
    CommandVerb(
        ("config", "refresh"), "make the file what the last update used", (*_CONFIG, CommandFlag("force", short="f"))
    ): verbs_config.refresh,
    CommandVerb(("whoami",), "show user and backend", (_JSON, CommandFlag("verbose", short="v"))): _whoami,
    CommandVerb(("version",), "print the version"): _version,
    CommandVerb(("about",), "tell about the engine", (_JSON, _STACK, CommandFlag("transitive", short="t"))): _about,
    CommandVerb(("plugin", "ls"), "list providers", (_JSON, CommandFlag("project", short="p")), aliases=_both("plugin list")): _plugins,
    CommandVerb(
        ("plugin", "install"), "nothing to do", (CommandFlag("server", "value"), CommandFlag("exact"), CommandFlag("reinstall")), most=3
    ): _install,
    CommandVerb(
        ("install",),
        "nothing to do",
        (
            CommandFlag("no-plugins"),
            CommandFlag("no-dependencies"),
            CommandFlag("reinstall"),
            CommandFlag("use-language-version-tools"),
            CommandFlag("parallel", "value"),
        ),
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
    "stack graph": "read the state with `pulumi stack export`",
    "state": "edit the result of `pulumi stack export` and give it to `pulumi stack import`",
    "template": _CLOUD,
    "watch": "run `pulumi up` again",
}
VERBS: Final = (*_ACTIONS, *(CommandVerb(tuple(words.split()), "", most=1_000, refused=why) for words, why in _REFUSED.items()))


def dispatch(args: Sequence[str], host: EngineHost) -> None:
    """Carry out one command line. Raises EngineError for everything that the user can do something about."""
    arguments = parse(args, VERBS)
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


def _help(host: EngineHost, verb: CommandVerb) -> None:
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
