"""Where the sandbox keeps things: one frozen value, derived from the checkout and three environment variables.

Owns paths and the environment of the embedded engine. Creates nothing; whoever writes a file makes its folder.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway import wire
from headway.environment.checkout import ENVIRONMENT_VARIABLE, SANDBOX

HOME_VARIABLE = "HEADWAY_SANDBOX_HOME"
CACHE_VARIABLE = "HEADWAY_CACHE"
LEDGER_VARIABLE = "HEADWAY_SANDBOX_LEDGER"
"""Address of another release ledger than the folder in the state: `s3://bucket/prefix`, as production has it."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Paths of one sandbox. `project` is the checkout; `state` is forgotten by `reset`; `cache` outlives it."""

    project: Path
    state: Path
    cache: Path
    ledger_elsewhere: str | None = None

    @classmethod
    def of(cls, project: Path, environment: Mapping[str, str] = os.environ) -> "Layout":
        """The layout of the checkout at `project`; state defaults to `.headway` in it, cache to the user's cache
        folder."""
        state = environment.get(HOME_VARIABLE)
        cache = environment.get(CACHE_VARIABLE)
        user_cache = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME") or "~").expanduser() / ".cache")
        return cls(
            project=project.resolve(),
            state=Path(state).resolve() if state else project.resolve() / ".headway",
            cache=Path(cache).resolve() if cache else Path(user_cache) / "headway",
            ledger_elsewhere=environment.get(LEDGER_VARIABLE) or None,
        )

    @property
    def backend(self) -> Path:
        """Pulumi's file backend: `<backend>/.pulumi/stacks/<project>/<stack>.json`."""
        return self.state / "pulumi"

    @property
    def passphrase_file(self) -> Path:
        """Passphrase of the sandbox's stacks, made at first use, mode 0600."""
        return self.state / "passphrase"

    @property
    def receipt(self) -> Path:
        """What the last `up` was made from and how it ended."""
        return self.state / "receipt.json"

    @property
    def bin(self) -> Path:
        """Holds the executable that answers as `pulumi`."""
        return self.state / "bin"

    @property
    def cluster(self) -> Path:
        """Data, certificates, tokens and process records of the control plane."""
        return self.state / "cluster"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the sandbox's administrator, mode 0600."""
        return self.cluster / "kubeconfig"

    @property
    def cloud(self) -> Path:
        """State of the cloud doubles and of the object storage and queue server."""
        return self.state / "cloud"

    @property
    def ledger(self) -> Path:
        """The release ledger, as a folder."""
        return self.state / "ledger"

    @property
    def ledger_address(self) -> str:
        """Where releases are written down: that folder, unless the environment says where else."""
        return self.ledger_elsewhere or self.ledger.as_uri()

    @property
    def ledger_witness(self) -> Path:
        """What is known of that ledger outside of it; of another one, something else is."""
        return self.state / "witness" / hashlib.sha256(self.ledger_address.encode()).hexdigest()[:12]

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def toolchain(self) -> Path:
        """Built binaries, one folder per content hash of what they were built from."""
        return self.cache / "toolchain"

    def engine_environment(self) -> dict[str, str]:
        """What makes any Automation API client use the sandbox's backend; holds no secret, only the path of one."""
        return {
            "PULUMI_BACKEND_URL": self.backend.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self.passphrase_file),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            wire.LEDGER_VARIABLE: self.ledger_address,
            wire.WITNESS_VARIABLE: str(self.ledger_witness),
            HOME_VARIABLE: str(self.state),
        }

    def shell_environment(self) -> dict[str, str]:
        """What points `headway`, `pulumi` and Kubernetes clients of a shell at the sandbox."""
        return {**self.engine_environment(), ENVIRONMENT_VARIABLE: SANDBOX, "KUBECONFIG": str(self.kubeconfig)}
