"""Where a release finds its ledger."""

from pathlib import Path

import pytest

from headway.release.service_place import ServicePlace
from sandbox.layout import Layout


@pytest.mark.parametrize("said", [None, "s3://production-ledger", "file:///elsewhere"])
def test_the_sandboxs_stacks_and_its_releases_have_one_ledger_whatever_the_shell_was_set_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("HEADWAY_LEDGER", raising=False)
    if said:
        monkeypatch.setenv("HEADWAY_LEDGER", said)
    here = ServicePlace(project=tmp_path, environment="sandbox", tenant="vision", model="defects")
    planned = Layout.of(tmp_path).engine_environment()["HEADWAY_LEDGER"]
    assert here.address == planned == (tmp_path / "state" / "ledger").as_uri()


def test_another_environments_ledger_is_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_LEDGER", "s3://other/prefix")
    assert ServicePlace(project=tmp_path, environment="prod", tenant="vision", model="defects").address == "s3://other/prefix"
