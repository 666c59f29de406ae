"""Rules between the parts of one model contract: what must agree for the whole to work.

Each rule looks at one agreement and yields every breach of it; they lie by what they are about. The trap: they run only when every part is
valid by itself.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headway.contract.agreement import files, hardware, measuring, requests, serving
from headway.problem import Problem

if TYPE_CHECKING:
    from headway.contract.model import Model


def disagreements(model: "Model") -> Iterator[Problem]:
    """Every breach of every rule."""
    for rule in _RULES:
        yield from rule(model)


_RULES: tuple[Callable[["Model"], Iterator[Problem]], ...] = (
    serving.batching_fits_runtime,
    serving.tokens_fit_runtime,
    hardware.isolation_is_what_the_share_gives,
    hardware.hardware_can_do_it,
    serving.optimisation_fits_runtime,
    measuring.signals_exist,
    requests.golden_requests_reach_a_model,
    requests.copies_can_be_compared,
    files.artifact_holds_the_models,
    files.md5_is_for_models_of_triton,
    requests.running_requests_can_finish,
    requests.classes_fit_the_largest_body,
    requests.fallback_is_another,
    serving.container_serves_files,
    serving.grpc_containers_speak_the_open_protocol,
    serving.batch_is_asked_by_http,
)
