"""What pulumi-eks asks of the machine that plans a cluster: AWS CLI, in its own words (pulumi-eks, `nodejs/eks/dependencies.ts`,
which `createCore` of `nodejs/eks/cluster/cluster.ts` calls first).
"""

import re
import shutil
import subprocess
from collections.abc import Mapping

OLDEST: Mapping[int, tuple[int, ...]] = {1: (1, 24, 0), 2: (2, 7, 0)}
"""By major version; the last holds for all after it."""
_HELP = "See https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html for installation instructions."
_SECONDS = 20.0


def aws_cli() -> str | None:
    """What AWS CLI on the PATH prints as its version; None where there is none."""
    if shutil.which("aws") is None:
        return None
    try:
        return subprocess.run(("aws", "--version"), capture_output=True, text=True, check=False, timeout=_SECONDS).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def refusal(printed: str | None) -> str | None:
    """Why pulumi-eks would not plan where AWS CLI prints this, None where it would."""
    if printed is None:
        return f"Could not find aws CLI for EKS. {_HELP}"
    written = re.match(r"(?:aws-cli/)?(\d+)\.(\d+)\.(\d+)", printed)
    if written is None:
        return f"aws --version does not say its version, but {printed[:40]!r}. {_HELP}"
    found = tuple(int(part) for part in written.groups())
    oldest = OLDEST.get(found[0], OLDEST[max(OLDEST)])
    if found < oldest:
        return f"At least v{_text(oldest)} of aws-cli is required. Current version is: {_text(found)}. {_HELP}"
    return None


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
