"""When a layer needs no plan: only when nothing that a plan is made from has changed since the last one was empty or applied."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import MappingProxyType

import pytest

from headway.environment.stacks import StackResult, Violation
from sandbox.layout import Layout
from sandbox.receipts import ROOMS, Receipt, given, read, receipt, recorded, write

PROJECT = Path(__file__).parents[3]
TODAY = date(2026, 11, 21)
VIOLATION = Violation(pack="tenant", policy="owner-named", level="advisory", message="no owner", resource="urn:a")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(project=tmp_path / "checkout", state=tmp_path / "state", cache=tmp_path / "cache")
    for file in ("__main__.py", "tenants/vision/tenant.yaml", "policies/exemptions.yaml", "README.md", "headway/contract/model.py"):
        put(found.project / file, "as it was")
    put(found.ledger / "vision" / "events" / "1", "registered")
    put(found.backend / ".pulumi" / "stacks" / "headway" / "sandbox-vision.json", "{}")
    return found


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def now(layout: Layout, today: date = TODAY, **environment: str) -> Receipt:
    """A receipt of this moment."""
    return receipt(
        given(layout, today, environment),
        recorded(layout),
        [StackResult(stack="sandbox-vision", operation="up", ok=True, changes={"create": 3, "same": 4, "read": 1, "delete": 2})],
    )


def stands(last: Receipt, layout: Layout, today: date = TODAY, environment: Mapping[str, str] = MappingProxyType({})) -> bool:
    return bool(last.holds(given(layout, today, dict(environment)), recorded(layout)))


def test_where_nothing_has_changed_the_last_results_stand(layout: Layout) -> None:
    assert stands(now(layout), layout)


def test_a_shell_that_evaluated_the_sandboxs_variables_changes_nothing(layout: Layout) -> None:
    assert stands(now(layout), layout, environment=layout.shell_environment())
    assert not stands(now(layout), layout, environment={**layout.shell_environment(), "KUBECONFIG": "/another"})


EDITS: dict[str, Callable[[Layout], None]] = {
    "a contract": lambda found: put(found.project / "tenants/vision/tenant.yaml", "as it is"),
    "the program": lambda found: put(found.project / "__main__.py", "as it is"),
    "an exemption": lambda found: put(found.project / "policies/exemptions.yaml", "as it is"),
    "a new module": lambda found: put(found.project / "headway/contract/new.py", ""),
    "a module less": lambda found: (found.project / "headway/contract/model.py").unlink(),
    "a release event": lambda found: put(found.ledger / "vision/events/2", "promoted"),
    "a stack's state": lambda found: put(found.backend / ".pulumi/stacks/headway/sandbox-vision.json", '{"version": 3}'),
    "what a killed update left": lambda found: put(found.backend / ".pulumi/stacks/headway/sandbox-vision.journal", "creating"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_change_of_anything_a_plan_is_made_from_asks_for_a_plan(layout: Layout, edit: Callable[[Layout], None]) -> None:
    last = now(layout)
    edit(layout)
    assert not stands(last, layout)


def test_another_day_asks_for_a_plan_because_exemptions_expire(layout: Layout) -> None:
    assert not stands(now(layout), layout, date(2026, 11, 22))


def test_another_program_environment_asks_for_a_plan_and_another_shell_does_not(layout: Layout) -> None:
    last = now(layout, AWS_REGION="us-west-2", COLUMNS="80")
    assert stands(last, layout, environment={"AWS_REGION": "us-west-2", "COLUMNS": "140"})
    assert not stands(last, layout, environment={"AWS_REGION": "us-east-1", "COLUMNS": "80"})


def test_what_no_plan_is_made_from_asks_for_nothing(layout: Layout) -> None:
    last = now(layout)
    put(layout.project / "README.md", "better words")
    put(layout.project / "headway/__pycache__/model.cpython-311.pyc", "compiled")
    put(layout.backend / ".pulumi/stacks/headway/sandbox-vision.json.lock", "4711")
    assert stands(last, layout)


def test_an_open_editor_breaks_nothing(layout: Layout) -> None:
    """Emacs marks an edited file by a link to nowhere."""
    (layout.project / "tenants/vision/.#tenant.yaml").symlink_to("somebody@somewhere.4711")
    assert stands(now(layout), layout)


def test_what_differs_is_told_by_name(layout: Layout) -> None:
    last = now(layout)
    put(layout.project / "tenants/vision/tenant.yaml", "as it is")
    assert last.differences(given(layout, date(2026, 11, 22), {}), recorded(layout)) == ["tenants/vision/tenant.yaml", "the day"]


def test_a_receipt_holds_no_value_of_the_environment(layout: Layout) -> None:
    assert "hunter2-and-more" not in json.dumps(dict(now(layout, AWS_SECRET_ACCESS_KEY="hunter2-and-more").given))


def test_an_update_is_remembered_as_an_empty_plan_with_the_packs_findings(layout: Layout) -> None:
    applied = StackResult(
        stack="sandbox-vision",
        operation="up",
        ok=True,
        changes={"create": 3, "same": 4, "read": 1, "delete": 2},
        violations=(VIOLATION,),
        warnings=("older than the cluster",),
        seconds=9.0,
    )
    write(layout.receipt, receipt({"a": "1"}, {"b": "2"}, [applied]))
    kept = read(layout.receipt).holds({"a": "1"}, {"b": "2"})["sandbox-vision"]
    assert kept.changed == 0
    assert kept.changes == {"read": 1, "same": 7}
    assert (kept.violations, kept.warnings) == ((VIOLATION,), ("older than the cluster",))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 0}', '{"format": 1, "results": {"a": {}}}', '{"format": 1, "results": 5}'])
def test_a_damaged_receipt_covers_nothing(layout: Layout, text: str) -> None:
    put(layout.receipt, text)
    assert not read(layout.receipt).results


def test_the_rooms_are_all_that_the_program_and_the_packs_import() -> None:
    """A package of the checkout that is imported anywhere in the rooms is itself one of them."""
    packages = {path.parent.name for path in PROJECT.glob("*/__init__.py")}
    sources = (file.read_text(encoding="utf-8") for room in ROOMS for file in (PROJECT / room).rglob("*.py"))
    imported = {name for source in sources for name in re.findall(r"^\s*(?:from|import) (\w+)", source, re.MULTILINE)}
    assert imported & packages <= set(ROOMS)


def test_a_remote_ledger_that_does_not_answer_lets_layers_be_planned_again(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "none")
    last = now(layout)
    assert not stands(last, replace(layout, ledger_elsewhere="s3://ledger"))
