"""Rules between the parts of one model contract: what must agree for the whole to work.

Each rule looks at one thing that must agree and yields every problem with it; the modules are named by what their rules are about. Rules run
only when every part is valid by itself.
"""

from collections.abc import Callable, Iterator

from headway.contract.model_parts import ModelParts
from headway.contract.rules import apart, drifting, evaluating, files, hardware, measuring, picking, pipelined, requests, serving
from headway.problem import Problem


def disagreements(model: ModelParts) -> Iterator[Problem]:
    """Every problem that any rule finds."""
    for rule in _RULES:
        yield from rule(model)


_RULES: tuple[Callable[[ModelParts], Iterator[Problem]], ...] = (
    serving.batching_fits_runtime,
    serving.tokens_fit_runtime,
    hardware.isolation_is_what_the_share_gives,
    hardware.hardware_can_do_it,
    serving.optimisation_fits_runtime,
    measuring.signals_exist,
    requests.golden_requests_reach_a_model,
    requests.copies_can_be_compared,
    files.artifact_holds_the_models,
    files.artifact_holds_the_adapters,
    files.md5_is_for_models_of_triton,
    files.configuration_fits,
    requests.running_requests_can_finish,
    requests.classes_fit_the_largest_body,
    requests.fallback_is_another,
    serving.container_serves_files,
    serving.grpc_containers_speak_the_open_protocol,
    serving.batch_is_asked_by_http,
    evaluating.labelled_requests_can_be_asked,
    evaluating.labelled_requests_have_room,
    drifting.watched_numbers_are_kept,
    apart.prefill_is_a_role_of_the_model,
    pipelined.nodes_divide_the_model,
    picking.picker_reads_prompts,
)
