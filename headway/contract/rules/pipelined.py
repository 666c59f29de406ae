"""Whether a model's layers can be divided over nodes. By vLLM 0.32: NixlConnector ends a decode engine with several stages
(`nixl/base_worker.py`)."""

from collections.abc import Iterator

from headway.contract.model_parts import ModelParts
from headway.contract.runtime import Vllm
from headway.problem import Problem, problem


def nodes_divide_the_model(model: ModelParts) -> Iterator[Problem]:
    if model.pipeline is None:
        return
    runtime, gpu = model.runtime, model.envelope.gpu
    if not isinstance(runtime, Vllm):
        yield problem(
            "pipeline-is-vllms",
            "pipeline",
            value=runtime.engine,
            fact=f"{runtime.engine} does not divide a model over nodes",
            consequence="The section would be ignored",
            remedy="Leave pipeline out",
        )
    elif model.pipeline.nodes > runtime.architecture.layers:
        yield problem(
            "every-node-has-a-layer",
            "pipeline",
            "nodes",
            value=model.pipeline.nodes,
            fact=f"{runtime.architecture.layers} layers are too few for {model.pipeline.nodes} nodes",
            consequence="A node would hold no layer, and be paid for in vain",
            remedy="Use fewer nodes",
        )
    if gpu.share != "whole":
        yield problem(
            "pipeline-on-whole-gpus",
            "envelope",
            "gpu",
            "share",
            value=gpu.share,
            fact=f"a replica over several nodes has its GPUs by {gpu.share}",
            consequence="Whatever shares a GPU with one stage delays all of them",
            remedy="Use share: whole, or leave pipeline out",
        )
    if model.prefill:
        yield problem(
            "decode-stays-on-a-node",
            "pipeline",
            "nodes",
            value=model.pipeline.nodes,
            fact="decode replicas span nodes, and their prompts are read by others",
            consequence="vLLM's connector ends at start in such an engine",
            remedy="Leave out pipeline or prefill",
        )
    if model.batch:
        yield problem(
            "batch-stays-on-a-node",
            "batch",
            fact="batch workers would be replicas that span nodes",
            consequence="Nodes on spot go one by one, and each of them would end its whole replica",
            remedy="Leave out pipeline or batch",
        )
