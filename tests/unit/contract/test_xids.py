"""Which Xids mean what: one vocabulary, held against NVIDIA's catalogue, the node monitoring agent's list and the runbook."""

import re
from pathlib import Path

from headway.contract.xids import AGENT_FATAL, BEYOND_TESTING, FATAL, XIDS, Recovery

RUNBOOK = Path(__file__).parents[3] / "docs/runbooks/gpu-xid.md"


def test_the_agents_list_is_the_published_one() -> None:
    """aws/eks-node-monitoring-agent v1.7.0, monitors/nvidia/dcgm/dcgm_policies.go, WellKnownXidCodes."""
    assert sorted(AGENT_FATAL) == [46, 48, 54, 62, 63, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 142, 143, 151, 155, 156, 158]


def test_what_stops_a_release_quarantines_a_node_and_so_does_worn_memory() -> None:
    assert {63} == AGENT_FATAL - FATAL
    assert FATAL <= AGENT_FATAL


def test_no_release_is_stopped_for_what_its_own_application_did() -> None:
    assert not FATAL & {13, 31, 43, 45}
    assert {48, 79, 95} <= FATAL


def test_what_a_reset_brings_back_may_be_cleared_by_a_test_and_nothing_else_may() -> None:
    assert {54, 64, 79, 140, 142, 151} == BEYOND_TESTING
    assert {code for code in FATAL if XIDS[code].recovery is Recovery.RESET} == FATAL - BEYOND_TESTING


def test_the_runbook_sorts_every_code_as_the_platform_does() -> None:
    text = " ".join(RUNBOOK.read_text(encoding="utf-8").split())
    listed = {
        heading: {int(code) for code in re.findall(r"\d+", found[1])}
        for heading in (
            "The error is the application's",
            "The GPU does not work until it is reset",
            "The machine must be replaced, whatever a test says",
        )
        if (found := re.search(rf"{heading}: ([\d,\s]+)\.", text))
    }
    named = [code for codes in listed.values() for code in codes]
    assert sorted([*named, 63]) == sorted(XIDS)
    assert listed["The GPU does not work until it is reset"] | listed["The machine must be replaced, whatever a test says"] == FATAL
    assert listed["The machine must be replaced, whatever a test says"] == BEYOND_TESTING
