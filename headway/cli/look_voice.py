"""What commands that look at services by turns say of each look, to people, programs and a webhook, and what keeps no other from its turn."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.cli.output import Output
from headway.problem import ODD, Exit, UserError, printable

if TYPE_CHECKING:
    from headway.release.service_place import ServicePlace


@dataclass(frozen=True, kw_only=True)
class LookVoice:
    """Where it is said. `notify`: a webhook that is told of what is new."""

    output: Output
    notify: str | None

    def say(self, chain: str, document: dict[str, Any], words: str) -> None:
        """What a look found."""
        text = json.dumps({"service": chain, **document}) if self.output is Output.JSON else printable(f"{chain}: {words}")
        print(text, flush=True)

    def fail(self, chain: str, failure: Exception) -> None:
        """Why there was none."""
        from headway.cli.error_log import keep

        fact = str(failure)
        if isinstance(failure, ODD):  # or a fault of headway, which nobody finds without its traceback
            fact = f"something there is not as it should be ({type(failure).__name__}: {failure}; details in {keep(failure)})"
        if self.output is Output.JSON:
            print(json.dumps({"service": chain, "look": "failed", "fact": fact}), flush=True)
        else:
            print(printable(f"{chain}: {fact}"), file=sys.stderr, flush=True)

    def tell(self, chain: str, release: str, status: str, words: str) -> None:
        """The webhook, if there is one."""
        from headway.release.notify import Webhook

        if not self.notify:
            return
        hook = Webhook(self.notify, chain)
        hook.post({"release": release, "status": status}, words)
        if trouble := hook.close():
            print(printable(trouble), file=sys.stderr, flush=True)

    def answered(self, here: "ServicePlace", look: "Callable[[ServicePlace], Exit]") -> Exit:
        """How a look at one of several ended: one that nobody answers does not keep the others from theirs."""
        try:
            return look(here)
        except failures() as failure:
            self.fail(here.chain, failure)
            return Exit.ENVIRONMENT


def failures() -> tuple[type[Exception], ...]:
    """What a look may end with that says nothing of the version."""
    from headway.environment.port import OutOfReachError
    from headway.ledger.store import MissingStoreError, UnreachableError

    return (OutOfReachError, UnreachableError, MissingStoreError, UserError, *ODD)
