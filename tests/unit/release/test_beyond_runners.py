"""Which releases are refused to a tenant's runner before they begin. What each would write is in tests/components/tenant/test_permissions.py."""

from typing import Any

import pytest

from headway.release.beyond_runners import why_beyond
from tests.components.contracts import CONTAINER, DEFECTS, PLAIN, POOLS, changed

OWN = {**PLAIN, "runtime": CONTAINER}
MIG = {"share": "mig", "accelerator": "a100-80gb", "profile": "1g.10gb", "memory": "8Gi"}


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        (OWN, {}, "runtime.engine"),
        (OWN, {**OWN, "runtime__metrics__path": "/figures"}, "runtime.metrics.path"),
        ({}, {"workload_class": "throughput"}, "workload_class"),
        ({}, {"envelope__gpu": MIG, "placement__isolation": "mig"}, "envelope.gpu.accelerator"),
        (OWN, {**OWN, "runtime__port": 9100}, None),
    ],
)
def test_a_release_beyond_a_runners_rights_is_told_by_its_field(before: dict[str, Any], after: dict[str, Any], field: str | None) -> None:
    why = why_beyond(changed(DEFECTS, **before), changed(DEFECTS, **after), POOLS, counts_tokens=False)
    assert why is None if field is None else f"({field})" in (why or "")
