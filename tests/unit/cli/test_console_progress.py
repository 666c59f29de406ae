"""Progress away from a terminal: a line a change, a mark at the end."""

import io

from rich.console import Console

from headway.cli.progress import ConsoleProgress, elapsed


def test_a_task_is_told_when_it_changes_and_when_it_ends_with_its_time() -> None:
    out, now = io.StringIO(), [100.0]
    progress = ConsoleProgress(Console(file=out, width=120), clock=lambda: now[0])
    progress.step("build/etcd", "compiling")
    progress.step("build/etcd", "compiling")
    now[0] = 190.0
    progress.step("build/etcd", "linking")
    progress.done("build/etcd", "built")
    assert out.getvalue().splitlines() == ["  … etcd: compiling", "  … etcd: linking", "  ✓ etcd: built 1 min 30 s"]


def test_a_task_whose_result_others_show_ends_without_a_line() -> None:
    out, now = io.StringIO(), [0.0]
    progress = ConsoleProgress(Console(file=out, width=120), clock=lambda: now[0])
    progress.step("layer/vision", "applying 3 changes")
    progress.done("layer/vision", "")
    now[0] = 9.0
    progress.step("layer/vision", "planning")
    assert out.getvalue().splitlines() == ["  … vision: applying 3 changes", "  … vision: planning"]


def test_a_task_that_changes_fast_is_told_now_and_then() -> None:
    out, now = io.StringIO(), [0.0]
    progress = ConsoleProgress(Console(file=out, width=120), clock=lambda: now[0])
    for i in range(12):
        progress.step("apply", f"create {i}")
        now[0] += 1.0
    assert out.getvalue().splitlines() == ["  … apply: create 0", "  … apply: create 5", "  … apply: create 10"]


def test_markup_in_a_text_is_shown_as_it_is() -> None:
    out = io.StringIO()
    ConsoleProgress(Console(file=out, width=120)).failed("x", "spec.containers[0] is wrong")
    assert "spec.containers[0] is wrong" in out.getvalue()


def test_times_are_read_at_a_glance() -> None:
    assert [elapsed(s) for s in (0.04, 59.94, 60, 3605)] == ["0.0 s", "59.9 s", "1 min 00 s", "60 min 05 s"]
