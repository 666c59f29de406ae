"""What is derived from the SDK and the service models is kept, shared and never believed when damaged."""

from pathlib import Path
from typing import Any

import pytest

from pulumi_embedded.providers.derived import CACHE_VARIABLE, derived


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    return tmp_path


def kept(cache: Path) -> Path:
    (file,) = (cache / "schemas").glob("*/*")
    return file


def never() -> Any:
    raise AssertionError("derived although it was kept")


def test_what_was_derived_once_is_read(cache: Path) -> None:
    assert derived("one", lambda: {"a": 1}, dict) == {"a": 1}
    assert derived("one", never, dict) == {"a": 1}
    assert derived("another", lambda: {"a": 2}, dict) == {"a": 2}


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\xfe\n{}"])
def test_a_damaged_file_is_derived_anew_and_mended(cache: Path, damage: bytes) -> None:
    derived("one", lambda: {"a": 1}, dict)
    kept(cache).write_bytes(damage)
    assert derived("one", lambda: {"a": 1}, dict) == {"a": 1}
    assert derived("one", never, dict) == {"a": 1}


def test_one_changed_byte_is_noticed_though_the_text_still_parses(cache: Path) -> None:
    derived("one", lambda: {"a": 1}, dict)
    kept(cache).write_bytes(kept(cache).read_bytes().replace(b":1}", b":2}"))
    assert derived("one", lambda: {"a": 1}, dict) == {"a": 1}


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(cache: Path) -> None:
    (cache / "schemas").write_text("no folder", encoding="utf-8")
    assert derived("one", lambda: {"a": 1}, dict) == {"a": 1}


def test_a_failure_to_derive_is_told_and_not_kept(cache: Path) -> None:
    with pytest.raises(AssertionError):
        derived("one", never, dict)
    assert derived("one", lambda: {"a": 1}, dict) == {"a": 1}
