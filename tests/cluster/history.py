"""History that Prometheus holds from before its start."""

import subprocess
from pathlib import Path

from headway.problem import UserError
from sandbox.cluster.toolchain import Toolchain
from sandbox.layout import Layout
from sandbox.monitoring.servers import folder_of


def backfill(layout: Layout, toolchain: Toolchain, openmetrics: Path) -> None:
    """Store the samples of an OpenMetrics file (with timestamps). Call it while Prometheus is stopped. UserError with
    promtool's words."""
    data = folder_of(layout) / "data"
    data.mkdir(parents=True, exist_ok=True)
    command = [str(toolchain.binary("promtool")), "tsdb", "create-blocks-from", "openmetrics", str(openmetrics), str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(
            f"promtool refused {openmetrics.name}: {(done.stderr or done.stdout).strip()}",
            "no sample of it was stored",
            "correct the file; it must be sorted by metric and end with '# EOF'",
        )
