"""`pulumi stack change-secrets-provider`: the same secrets under another passphrase, in state, configuration and history.

As the real command, it takes the old passphrase from the environment and the new one from the terminal, or from the first line of standard
input (pulumi/pulumi, pkg/secrets/passphrase/manager.go, promptForNewPassphrase). The trap: what was written before still opens with the old
one, so `.bak` beside the state, and every copy of a file, must be thought of by whoever changes a passphrase because somebody has it.
"""

from pulumi_embedded.engine import history
from pulumi_embedded.engine.arguments import Arguments
from pulumi_embedded.engine.config_file import ConfigFile
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.secrets import Passphrase
from pulumi_embedded.engine.session import EngineHost

KNOWN = ("passphrase", "default")


def change(host: EngineHost, arguments: Arguments) -> None:
    """Raises EngineError for another provider than `passphrase`, and without a new passphrase; then nothing has changed."""
    provider = arguments.words[0]
    if provider not in KNOWN:
        raise EngineError(
            f"secrets provider '{provider}' is not supported by the embedded engine; it knows `passphrase`. Nothing was changed: "
            "keys of a cloud can be tried with the real command alone"
        )
    stack = host.stack(arguments)
    with stack.editing("stack change-secrets-provider") as state:
        file = ConfigFile(stack.config_file, stack.project.name)
        # Everything is opened before anything is written: what the old passphrase does not open stops it here.
        before = stack.config_passphrase()
        new = Passphrase.new(_new_phrase(host, arguments))
        sealed = file.reseal(lambda value: new.encrypt(before.decrypt(value)))
        entries = history.resealed(stack.backend.history(stack.name), lambda value: new.encrypt(before.decrypt(value)))
        state.reseal(new)
        history.write(stack.backend.history(stack.name), entries)
        if sealed or stack.settings().salt:
            file.set_salt(new.salt)
            file.save()
    host.console.line(f"Migrated the secrets of stack '{stack.name.stack}' to the new passphrase; give it to every command from now on")


def _new_phrase(host: EngineHost, arguments: Arguments) -> str:
    phrase = host.console.hidden("Enter your new passphrase to protect config/secrets: ")
    if host.interactive(arguments) and host.console.hidden("Re-enter your new passphrase to confirm: ") != phrase:
        raise EngineError("passphrases do not match; nothing was changed")
    if not phrase:
        # The real command takes an empty line, and so the end of an input that nobody gave, for an empty passphrase.
        raise EngineError("no new passphrase was given; type it, or give it as the first line of standard input. Nothing was changed")
    return phrase
