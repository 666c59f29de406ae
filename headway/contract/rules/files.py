"""Whether the artifact holds what the server will look for."""

import json
from collections.abc import Iterator

from headway.contract.adapter import CONFIGURATION, WEIGHTS
from headway.contract.model_parts import ModelParts
from headway.contract.runtime import Triton, Vllm
from headway.problem import Problem, problem

LARGEST_CONFIGURATION = 2**20
"""Bytes of all that a ConfigMap holds (kubernetes, pkg/apis/core, `MaxSecretSize`, which its validation asks of ConfigMaps too)."""
_SCRIPTS = 128 * 2**10
"""What does not grow with a contract: the scripts of a pod."""


def artifact_holds_the_models(model: ModelParts) -> Iterator[Problem]:
    if isinstance(model.runtime, Triton):
        for number, served in enumerate(model.runtime.models):
            expected = served.folder + served.backend.file
            if not any(file.path == expected or file.path.startswith(expected + "/") for file in model.artifact.files):
                yield problem(
                    "artifact-holds-the-model",
                    "runtime",
                    "models",
                    number,
                    value=served.name,
                    fact=f"the artifact has no {expected}",
                    consequence="Triton would find no such model version and exit",
                    remedy=f"Add {expected} to artifact.files, or correct name, version or backend",
                )
    elif isinstance(model.runtime, Vllm):
        paths = [file.path for file in model.artifact.files]
        for kind, found in (
            ("config.json", "config.json" in paths),
            ("*.safetensors", any(path.endswith(".safetensors") and "/" not in path for path in paths)),
        ):
            if not found:
                yield problem(
                    "artifact-holds-the-model",
                    "artifact",
                    "files",
                    fact=f"the artifact has no {kind}",
                    consequence="vLLM would find no model and exit",
                    remedy=f"Add {kind} to artifact.files",
                )


def artifact_holds_the_adapters(model: ModelParts) -> Iterator[Problem]:
    adapters = model.runtime.adapters if isinstance(model.runtime, Vllm) else ()
    paths = {file.path for file in model.artifact.files}
    for number, adapter in enumerate(adapters):
        if adapter.name == model.name:
            yield problem(
                "adapter-is-another",
                "runtime",
                "adapters",
                number,
                "name",
                value=adapter.name,
                fact=f"an adapter has the model's own name, {model.name}",
                consequence="vLLM would answer with the model, and never with the adapter",
                remedy="Give the adapter another name",
            )
        for expected in (adapter.folder + CONFIGURATION, adapter.folder + WEIGHTS):
            if expected not in paths:
                yield problem(
                    "artifact-holds-the-adapter",
                    "runtime",
                    "adapters",
                    number,
                    "folder",
                    value=adapter.folder,
                    fact=f"the artifact has no {expected}",
                    consequence="vLLM would not find the adapter and would not start",
                    remedy=f"Add {expected} to artifact.files, or correct the folder",
                )


def md5_is_for_models_of_triton(model: ModelParts) -> Iterator[Problem]:
    folders = tuple(f"{served.name}/" for served in model.runtime.models) if isinstance(model.runtime, Triton) else ()
    for number, file in enumerate(model.artifact.files):
        if file.md5 is not None and not file.path.startswith(folders):
            yield problem(
                "md5-is-for-models-of-triton",
                "artifact",
                "files",
                number,
                "md5",
                value=file.md5,
                fact=f"{file.path} belongs to no model that Triton loads",
                consequence="Nothing would ever compare the MD5; the SHA-256 is what verifies this file",
                remedy="Leave md5 out here",
            )


def configuration_bytes(model: ModelParts) -> int:
    """How large the ConfigMap of a release may be at most: files, golden requests and the server's settings stand in it as text, a line a value."""
    first, *others = model.health.golden  # which also warms a container of one's own up
    parts = [part.model_dump(mode="json") for part in (*model.artifact.files, first, first, *others, model.runtime)]
    return _SCRIPTS + len(json.dumps(parts, indent=2))


def configuration_fits(model: ModelParts) -> Iterator[Problem]:
    size = configuration_bytes(model)
    if size > LARGEST_CONFIGURATION:
        yield problem(
            "configuration-fits",
            "health",
            "golden",
            fact=f"golden requests, files and settings take {size:,} bytes of a replica's configuration, and {LARGEST_CONFIGURATION:,} are the most",
            consequence="Kubernetes refuses the ConfigMap, and no replica of the release would start",
            remedy="Have fewer golden requests or shorter answers, put large requests into files of the artifact, and list fewer files",
        )
