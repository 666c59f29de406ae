"""What a node that MIG cuts shows later than it joins. Pure.

Stages play it (`sandbox/cluster/stages/mig-*.yaml`), in the order of NVIDIA's MIG manager (NVIDIA/mig-parted v0.15,
`pkg/mig/reconfigure/reconfigure.go`, Run): it says `pending`, cuts, lets the device plugin start again and says
`success`; only then the plugin offers anything. Until it does, what it will offer stands in annotations of the node.
The stages take seconds, where the real one takes minutes and reboots a node of Ampere GPUs; and none of them fails.
"""

import json
from collections.abc import Mapping

from headway.wire import MIG_STATE, PREFIX

MIG_RESOURCES, MIG_LABELS = f"sandbox.{PREFIX}/mig-resources", f"sandbox.{PREFIX}/mig-labels"
"""Annotations: what the device plugin will offer, and what feature discovery will say of it."""
_LATE = ("nvidia.com/mig-", MIG_STATE)


def uncut(facts: Mapping[str, str]) -> dict[str, str]:
    """Labels or resources as they are before MIG has cut the node."""
    return {key: value for key, value in facts.items() if not is_late(key)}


def is_late(key: str) -> bool:
    """Whether the label or resource comes from a layout that has been cut."""
    return key.startswith(_LATE)


def promised(facts: Mapping[str, str]) -> str | None:
    """What is to come of these labels or resources, as the value of an annotation; None where nothing is."""
    found = {key: value for key, value in sorted(facts.items()) if is_late(key) and key != MIG_STATE}
    return json.dumps(found) if found else None
