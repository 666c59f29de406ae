"""The executable with providers that live in memory, as a process of its own: `python -m engine.executable ARGUMENTS`.

The creation of a resource called `slow` waits while the file named by HOLD exists, and stops when it is cancelled unless STUBBORN is set.
Where WORLD names a folder, objects lie there and outlive the process.
"""

import os
import sys
import time
from pathlib import Path

from pulumi_embedded.engine.cli import main
from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.provider import ProviderError, ProviderStep


def hold(method: str, name: str, step: ProviderStep) -> None:
    file = Path(os.environ.get("HOLD", "/nowhere"))
    while (method, name) == ("create", "slow") and file.exists():
        step.status("0/1 ready: insufficient nvidia.com/gpu")
        time.sleep(0.05)
        if step.cancelled() and not os.environ.get("STUBBORN"):
            raise ProviderError("stopped while waiting")


def providers() -> ProviderFactories:
    from engine.doubles import World  # the SDK takes half a second to import, and most verbs need none of it

    if os.environ.get("WORLD"):
        from engine.hammer import Durable

        return Durable(Path(os.environ["WORLD"])).factories()
    return World(during=hold).factories()


if __name__ == "__main__":
    code = main(providers=providers)
    sys.stdout.flush()
    os._exit(code)
