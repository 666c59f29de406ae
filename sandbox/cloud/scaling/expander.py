"""Which of the groups that would help is enlarged. Pure.

kubernetes/autoscaler at cluster-autoscaler-1.35.2, `cluster-autoscaler/expander/priority/priority.go` and
`expander/waste/waste.go`. Of what is left the real one takes one at random (`expander/random/random.go`); here it is
the first by name.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sandbox.cloud.autoscaler import Body, amount, requests
from sandbox.cloud.scaling.model import AutoscalerArguments


@dataclass(frozen=True, kw_only=True)
class ExpansionOption:
    """`count` more nodes of a group would take `pods`; `template` is one of them."""

    group: str
    count: int
    pods: Sequence[Body]
    template: Body


def best(options: Sequence[ExpansionOption], arguments: AutoscalerArguments) -> ExpansionOption:
    """The one to take of at least one."""
    left = sorted(options, key=lambda option: option.group)
    for name in arguments.expander:
        left = _highest(left, arguments.priorities) if name == "priority" else _least_wasteful(left)
    return left[0]


def _highest(options: Sequence[ExpansionOption], priorities: Mapping[int, Sequence[str]]) -> Sequence[ExpansionOption]:
    """Those of the highest priority; a group that no pattern matches is passed over while another can be used."""
    found = {
        option.group: max(matched)
        for option in options
        if (matched := [number for number, patterns in priorities.items() if any(re.search(each, option.group) for each in patterns)])
    }
    return [option for option in options if found.get(option.group) == max(found.values())] if found else options


def _least_wasteful(options: Sequence[ExpansionOption]) -> Sequence[ExpansionOption]:
    """By the shares of CPU and memory that nobody would ask for; GPUs are not looked at."""
    scores = {option.group: sum(_wasted(option, name) for name in ("cpu", "memory")) for option in options}
    return [option for option in options if scores[option.group] == min(scores.values())]


def _wasted(option: ExpansionOption, resource: str) -> Decimal:
    offered = amount(option.template["status"]["capacity"][resource]) * option.count
    return (offered - sum((requests(pod).get(resource, Decimal(0)) for pod in option.pods), Decimal(0))) / offered
