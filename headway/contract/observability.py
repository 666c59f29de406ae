"""Who is told, and how much is traced. What is measured is not here: signals, panels and rules follow from runtime and objectives."""

from typing import Annotated

from pydantic import Field

from headway.contract.part import Name, Part, between
from headway.contract.units import Share


class Observability(Part):
    """Who is alerted, and how much is traced."""

    receiver: Name
    """The Alertmanager receiver of the team on call."""
    runbook: (
        Annotated[
            str,
            Field(pattern=r"^https://[A-Za-z0-9.-]+(:[0-9]+)?(/[^\s]*)?$", max_length=300, examples=["https://wiki.example.com/runbook"]),
        ]
        | None
    ) = None
    """The team's own runbook; linked from every alert beside the platform's."""
    tracing: Annotated[Share, between(Share(0), Share.parse("100%"))] = Share.parse("1%")
    """Share of requests that are traced."""
