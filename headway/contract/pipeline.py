"""Layers of a language model divided over several nodes: a form that `check` judges.

Each node is a stage (pipeline parallel) and its GPUs divide what the stage holds (tensor parallel), as vLLM advises. The trap: the nodes of a
replica come, fail and go together, and no environment arranges that yet (ADR 27), so whatever knows an environment's pools refuses it.
"""

from typing import Annotated

from pydantic import Field

from headway.contract.part import Count, Part


class Pipeline(Part):
    """One replica over several nodes, which a LeaderWorkerSet would start and end together."""

    nodes: Annotated[Count, Field(ge=2, le=8)]
    """Nodes of one replica, each with `envelope.gpu.count` GPUs, `envelope.cpu` and `envelope.memory`; all in one zone."""
