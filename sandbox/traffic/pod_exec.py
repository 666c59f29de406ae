"""`exec` for served pods: runs Python beside the server, with the pod's folders in place of its mounts. Stands in for
the kubelet's exec.

Only Python with a script and paths below the pod's configuration folder: whatever else is asked for is refused.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from headway.wire import SCRIPTS_FOLDER
from sandbox.layout import Layout


class NotRunError(Exception):
    """The pod is not served here, or the command failed."""


def executed(layout: Layout, pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
    """Standard output of `python3 ARGUMENTS` in the serving container of `pod`. Raises NotRunError."""
    head = pod["metadata"]
    folder = layout.state / "traffic" / "node" / "pods" / f"{head['namespace']}_{head['name']}_{head['uid'][:8]}"
    scripts = sorted(folder.glob("*/probe.py"))
    if not scripts:
        raise NotRunError(f"pod {head['name']} is not served on this machine")
    words = [str(scripts[0].parent) if word == SCRIPTS_FOLDER else word for word in arguments]
    environment = {"PATH": os.environ.get("PATH", ""), "TMPDIR": str(folder)}
    try:
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=seconds, env=environment, check=False)
    except subprocess.TimeoutExpired:
        raise NotRunError(f"pod {head['name']}: no end within {seconds:g} s") from None
    if done.returncode:
        raise NotRunError(f"pod {head['name']}: exit {done.returncode}: {done.stderr.strip()[-200:]}")
    return done.stdout
