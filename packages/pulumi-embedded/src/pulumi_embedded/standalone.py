"""The engine without a host: its own folder for state, passphrase and simulated accounts, and a double of every SDK that is installed."""

import os
import secrets
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.private import private
from pulumi_embedded.engine.provider import Provider
from pulumi_embedded.engine.secrets import FILE_VARIABLE, VALUE_VARIABLE

HOME_VARIABLE: Final = "PULUMI_EMBEDDED_HOME"
"""Names that folder; without it, `.pulumi-embedded` in the user's home."""
BACKEND_VARIABLE: Final = "PULUMI_BACKEND_URL"


def home() -> Path:
    """The folder that the environment means."""
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".pulumi-embedded").absolute()


def prepare(folder: Path) -> None:
    """Give this process a file backend and a passphrase in `folder`, unless its environment names others."""
    private(folder)
    if not os.environ.get(BACKEND_VARIABLE):
        state = folder / "state"
        state.mkdir(exist_ok=True)
        os.environ[BACKEND_VARIABLE] = state.as_uri()
    if VALUE_VARIABLE not in os.environ and FILE_VARIABLE not in os.environ:
        file = folder / "passphrase"
        if not file.exists():
            file.touch(0o600)
            file.write_text(secrets.token_urlsafe(32), encoding="utf-8")
        os.environ[FILE_VARIABLE] = str(file)


def providers(folder: Path | None = None) -> ProviderFactories:
    """A factory per package whose SDK is installed; the simulated accounts of aws lie in `folder`, or in `home()`."""
    where = folder or home()
    made: dict[str, Callable[[], Provider]] = {}
    if find_spec("pulumi_aws") and find_spec("botocore"):
        made["aws"] = lambda: _aws(where / "aws")
    if find_spec("pulumi_kubernetes") and find_spec("kubernetes"):
        made["kubernetes"] = _kubernetes
    return made


def _aws(folder: Path) -> Provider:
    from pulumi_embedded.providers.aws.assembly import aws_provider

    return aws_provider(folder)


def _kubernetes() -> Provider:
    """For clusters on this machine alone; whatever the kubeconfig names besides is refused."""
    from pulumi_embedded.providers.kubernetes.provider import KubernetesProvider

    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return KubernetesProvider(Path(named) if named else Path.home() / ".kube" / "config")
