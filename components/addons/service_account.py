"""The service account of a chart's pods, as its values say it. Pure.

Each chart that asks AWS hands `annotations` on to that account as they are, which IRSA needs; the place differs. Sources:
the template `serviceaccount.yaml` of each chart at its pinned version.
"""

from collections.abc import Mapping
from typing import Any

import pulumi

Annotations = Mapping[str, pulumi.Input[str]] | None


def service_account(name: str, annotations: Annotations) -> dict[str, Any]:
    """What the chart calls the account, and what the account carries: nothing under Pod Identity."""
    return {"name": name, **({"annotations": dict(annotations)} if annotations else {})}
