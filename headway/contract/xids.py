"""NVIDIA's Xid codes that the platform knows, and what each asks of it. Data: releases, node health and runbooks derive their lists here.

Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/xid-errors), column "Resolution Bucket (Immediate
Action)", and aws/eks-node-monitoring-agent, monitors/nvidia/dcgm/dcgm_policies.go, whose list of fatal codes is `AGENT_FATAL`. The trap:
which codes are fatal is a question with two answers. A release is to blame for none that the hardware causes, yet must stop for them; a
node is put aside for what its agent reports, which is one code more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Recovery(StrEnum):
    """What brings the GPU back."""

    APPLICATION = "application"
    """Nothing was wrong with it: the application ends or starts anew (IGNORE, RESTART_APP)."""
    RESET = "reset"
    """A reset, after which a passing diagnostic proves it sound (RESET_GPU and the workflows that begin with one)."""
    REPLACEMENT = "replacement"
    """Another machine (RESTART_BM, RESTART_VM, CHECK_MECHANICALS, CONTACT_SUPPORT), or a reset that clears the report and not the cause."""


@dataclass(frozen=True, kw_only=True)
class Xid:
    """One code. `agent_fatal`: the node monitoring agent sets `AcceleratedHardwareReady` to False for it."""

    code: int
    meaning: str
    recovery: Recovery
    agent_fatal: bool = True


def _by_code(*found: Xid) -> Mapping[int, Xid]:
    return {xid.code: xid for xid in sorted(found, key=lambda xid: xid.code)}


XIDS = _by_code(
    Xid(code=13, meaning="graphics engine exception", recovery=Recovery.APPLICATION, agent_fatal=False),
    Xid(code=31, meaning="memory page fault", recovery=Recovery.APPLICATION, agent_fatal=False),
    Xid(code=43, meaning="channel reset after the application's fault", recovery=Recovery.APPLICATION, agent_fatal=False),
    Xid(code=45, meaning="channels removed, as when a process is killed", recovery=Recovery.APPLICATION, agent_fatal=False),
    Xid(code=46, meaning="GPU stopped processing", recovery=Recovery.RESET),
    Xid(code=48, meaning="double-bit ECC error", recovery=Recovery.RESET),
    Xid(code=54, meaning="auxiliary power not connected", recovery=Recovery.REPLACEMENT),
    Xid(code=62, meaning="internal micro-controller halted", recovery=Recovery.RESET),
    # NVIDIA: ignore. EC2: memory that remaps again and again runs out of spare rows, so the agent has the node replaced.
    Xid(code=63, meaning="memory row remapped", recovery=Recovery.APPLICATION),
    # A reset clears the report; the row stays bad (NVIDIA, GPU Memory Error Management: a remapping failure is a reason to return it).
    Xid(code=64, meaning="memory row could not be remapped", recovery=Recovery.REPLACEMENT),
    Xid(code=74, meaning="NVLink error", recovery=Recovery.RESET),
    Xid(code=79, meaning="GPU fell off the bus", recovery=Recovery.REPLACEMENT),
    Xid(code=94, meaning="contained memory error", recovery=Recovery.APPLICATION, agent_fatal=False),
    Xid(code=95, meaning="uncontained memory error", recovery=Recovery.RESET),
    Xid(code=109, meaning="context switch timed out", recovery=Recovery.RESET),
    Xid(code=110, meaning="security fault", recovery=Recovery.RESET),
    Xid(code=119, meaning="system processor does not answer", recovery=Recovery.RESET),
    Xid(code=120, meaning="system processor failed", recovery=Recovery.RESET),
    Xid(code=136, meaning="link training failed", recovery=Recovery.RESET),
    # An ECC error that escaped its containment: memory that a diagnostic passes may hold it still.
    Xid(code=140, meaning="unrecoverable ECC error", recovery=Recovery.REPLACEMENT),
    Xid(code=142, meaning="video encoder failed", recovery=Recovery.REPLACEMENT),
    Xid(code=143, meaning="GPU failed to initialise", recovery=Recovery.RESET),
    Xid(code=151, meaning="key rotation failed", recovery=Recovery.REPLACEMENT),
    Xid(code=155, meaning="NVLink error defined by software", recovery=Recovery.RESET),
    Xid(code=156, meaning="resource retired", recovery=Recovery.RESET),
    Xid(code=158, meaning="fatal timeout", recovery=Recovery.RESET),
)

FATAL = frozenset(code for code, xid in XIDS.items() if xid.recovery is not Recovery.APPLICATION)
"""After these the GPU serves nothing until something is done to it: no release goes on on it."""
BEYOND_TESTING = frozenset(code for code, xid in XIDS.items() if xid.recovery is Recovery.REPLACEMENT)
"""After these a passing diagnostic proves nothing."""
AGENT_FATAL = frozenset(code for code, xid in XIDS.items() if xid.agent_fatal)
"""For these the EKS node monitoring agent (v1.7.0) reports the node as broken, with the reason `NvidiaXID<code>Error`."""
