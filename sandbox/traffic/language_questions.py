"""How a person asks the demonstration's language model: commands to copy, never folded."""

from collections.abc import Sequence

from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.traffic import servers
from sandbox.traffic.profile import LANGUAGE

HOST = f"{LANGUAGE.model}.{LANGUAGE.tenant}.models.sandbox.test"
QUESTION = '{"model": "sorter", "prompt": "sort: wheel nut bolt gear =", "max_tokens": 40, "temperature": 0, "stream": true}'

FULL = 16
"""Requests at once from which on the contract's replica turns others away (`degradation.overload_at`)."""
LONG = '{"model": "sorter", "prompt": "sort: nut =", "max_tokens": 512, "ignore_eos": true}'


def commands(layout: Layout) -> Sequence[str]:
    """Ask it; then fill it, and ask beside that."""
    found = servers.addresses(Supervisor(layout))
    return (
        "# Ask it:",
        *question(found.gateway),
        f"# Fill it with {FULL} long answers and ask beside them: low priority gets 429, any other 503. Then see what the gateway measured:",
        *crowd(found.gateway, found.mesh_metrics),
    )


def question(gateway: int) -> Sequence[str]:
    return (
        f"curl -sSN http://127.0.0.1:{gateway}/v1/completions -H 'Host: {HOST}' -H 'Content-Type: application/json' \\",
        f'  -H "Authorization: Bearer $(headway sandbox token {LANGUAGE.tenant})" \\',
        f"  -d '{QUESTION}'",
    )


def crowd(gateway: int, metrics: int) -> Sequence[str]:
    """Fill the replica, ask beside it with low priority, and read the gateway's times of tokens."""
    asked = f"curl -sS http://127.0.0.1:{gateway}/v1/completions -H 'Host: {HOST}' -H 'Content-Type: application/json'"
    return (
        f"high=$(headway sandbox token {LANGUAGE.tenant} --priority high) low=$(headway sandbox token {LANGUAGE.tenant} --priority low)",
        f'ask() {{ {asked} -H "Authorization: Bearer $1" "${{@:2}}"; }}',
        f"for each in $(seq {FULL}); do ask \"$high\" -o /dev/null -d '{LONG}' & done; sleep 1",
        f"ask \"$low\" -i -d '{QUESTION}'",
        f"curl -sS http://127.0.0.1:{metrics}/metrics | grep 'envoy_headway.*_sum'",
    )
