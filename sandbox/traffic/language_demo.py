"""The demonstration of a language model: one service on the real vLLM behind Envoy, under a light load of streams.

`python -m sandbox.traffic.language_demo`, or `make demo-llm`. It takes the place of the other demonstration: one at a time, and `make
demo-down` ends either. vLLM takes minutes to start on a small machine, most of them imports; what lasts says how long it may.
"""

import os
import sys
import time
from collections.abc import Sequence

from headway.problem import UserError
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.progress import Progress, Silent
from sandbox.traffic import command_records, demo, load_process, profile, servers, workspace
from sandbox.traffic.demo import say, say_line
from sandbox.traffic.kube import Kube
from sandbox.traffic.mesh import envoy
from sandbox.traffic.profile import LANGUAGE
from sandbox.traffic.programs import programs
from sandbox.traffic.release_trials import headway, layout_of, stop
from sandbox.traffic.steady_load import RATES

READY_SECONDS = 1500.0
"""The contract's startup budget, and the sandbox's own way there."""
_LOOK_SECONDS = 2.0
HOST = f"{LANGUAGE.model}.{LANGUAGE.tenant}.models.sandbox.test"
QUESTION = '{"model": "sorter", "prompt": "sort: wheel nut bolt gear =", "max_tokens": 40, "temperature": 0, "stream": true}'

FULL = 16
"""Requests at once from which on the contract's replica turns others away (`degradation.overload_at`)."""
LONG = '{"model": "sorter", "prompt": "sort: nut =", "max_tokens": 512, "ignore_eos": true}'


class _Told(Silent):
    def step(self, key: str, text: str) -> None:
        say_line(f"{key}: {text}")


def main(arguments: Sequence[str]) -> int:
    if arguments:
        sys.stderr.write("usage: make demo-llm\n")
        return 2
    layout = layout_of(demo.CHECKOUT)
    demo.stop_on_signals()
    try:
        with demo.alone(layout):
            try:
                demo.forget(layout)
                command_records.record(layout, os.getpid())
                return demonstrate(layout, _Told())
            except KeyboardInterrupt:
                say("Interrupted: stopping everything that was started")
                stop(layout)
                return demo.INTERRUPTED
    except (UserError, OSError) as error:
        return demo.refused(error)


def demonstrate(layout: Layout, progress: Progress) -> int:
    """Bring the service up, put it under load, and say how to ask it."""
    began = time.monotonic()
    say("Starting one tenant, whose language model is served by vLLM behind Envoy and measured by Prometheus")
    say_line("It takes five to ten minutes on two cores, 5 GiB of memory, and some more minutes the first time, to train the model.")
    artifacts = profile.train(programs(demo.CHECKOUT), demo.CHECKOUT, layout.cache, progress)
    workspace.make(demo.CHECKOUT, layout.project, artifacts)
    # It gives pods a minute, which is for Triton; what counts is that it got as far as its last process.
    if headway(layout, "sandbox", "up", "--with", "traffic").wait() != 0 and not Supervisor(layout).runs(envoy.NAME):
        return 1
    say("vLLM loads; its start is the contract's own: fetch with checksums, warm-up at the largest prompt, golden answers")
    await_ready(layout)
    say_line(f"Ready {demo.minutes(time.monotonic() - began)} after the beginning.")
    load_process.start(layout, Silent())
    rate = RATES[LANGUAGE.model]
    say(f"Users ask without a break, by streams: {rate:g} request a second. Ask it yourself:")
    found = servers.addresses(Supervisor(layout))
    sys.stdout.write("".join(f"     {each}\n" for each in (*demo.FIRST_LINES[:2], *_curl(found.gateway))))
    say(
        f"Fill it with {FULL} long answers, then ask beside them: low priority gets 429, any other 503. Then see what the gateway measured:"
    )
    sys.stdout.write("".join(f"     {each}\n" for each in crowd(found.gateway, found.mesh_metrics)))
    say_line("`make demo-down` ends everything; `make clean-llm` removes the 6 GB of its environment.")
    return 0


def _curl(gateway: int) -> Sequence[str]:
    """Never folded: it is to be copied."""
    return (
        f"curl -sSN http://127.0.0.1:{gateway}/v1/completions -H 'Host: {HOST}' -H 'Content-Type: application/json' \\",
        f'  -H "Authorization: Bearer $(headway sandbox token {LANGUAGE.tenant})" \\',
        f"  -d '{QUESTION}'",
    )


def crowd(gateway: int, metrics: int) -> Sequence[str]:
    """Commands that fill the replica, ask beside it with low priority, and read the gateway's times of tokens."""
    asked = f"curl -sS http://127.0.0.1:{gateway}/v1/completions -H 'Host: {HOST}' -H 'Content-Type: application/json'"
    return (
        f"high=$(headway sandbox token {LANGUAGE.tenant} --priority high) low=$(headway sandbox token {LANGUAGE.tenant} --priority low)",
        f'ask() {{ {asked} -H "Authorization: Bearer $1" "${{@:2}}"; }}',
        f"for each in $(seq {FULL}); do ask \"$high\" -o /dev/null -d '{LONG}' & done; sleep 1",
        f"ask \"$low\" -i -d '{QUESTION}'",
        f"curl -sS http://127.0.0.1:{metrics}/metrics | grep 'envoy_headway.*_sum'",
    )


def await_ready(layout: Layout) -> None:
    """Wait until the service's pods are ready. UserError where they are not in time, or the node refuses them."""
    kube, deadline = Kube(layout.kubeconfig), time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        pods = kube.get(f"/api/v1/namespaces/{LANGUAGE.tenant}/pods")["items"]
        refused = [each["status"]["message"] for each in pods if each["status"].get("reason") == "NotServed"]
        if refused:
            raise UserError(f"The node does not run the pod: {refused[0]}.", "Nothing serves.", "Put that right and run the command again.")
        conditions = [each["status"].get("conditions") or () for each in pods]
        if pods and all(any(c["type"] == "Ready" and c["status"] == "True" for c in each) for each in conditions):
            return
        time.sleep(_LOOK_SECONDS)
    raise UserError(
        f"vLLM was not ready after {READY_SECONDS / 60:.0f} min.",
        "Nothing serves; it may still come, where the machine is busy.",
        f"Its log is below {layout.logs / 'pods' / LANGUAGE.tenant}; `make demo-down` ends what runs.",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
