"""What the demonstration holds its releases to, and what it says of them."""

import ast
import http.server
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.traffic_rollouts import ORDER
from headway.errors import UserError
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.traffic import stage
from sandbox.traffic.demo import STORY, WANTED, forget, main
from sandbox.traffic.stage import BEFORE_TRAFFIC, Ended, Stage

BUILD = Path(stage.__file__).parent / "models" / "build.py"


def ended(outcome: str, where: str) -> Ended:
    return Ended(release="errors", outcome=outcome, where=where, verdict="", seconds=1.0, users=0, number=1)


def test_every_release_that_is_built_has_an_end_that_it_should_have() -> None:
    (table,) = (
        node.value
        for node in ast.walk(ast.parse(BUILD.read_text()))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "RELEASES"
    )
    assert isinstance(table, ast.Dict)
    built = {key.value for key in table.keys if isinstance(key, ast.Constant)}
    assert built - {"stable"} == set(WANTED)
    assert set(STORY) <= set(WANTED)
    assert sorted(ORDER) == sorted(WANTED), "the table has them all"


@pytest.mark.parametrize(
    ("name", "found", "met"),
    [
        ("errors", ended("rolled back", "mirror 100%"), True),
        ("errors", ended("rolled back", "10%"), False),
        ("errors", ended("promoted", "all traffic"), False),
        ("wrong", ended("rolled back", BEFORE_TRAFFIC), True),
        ("wrong", ended("rolled back", "mirror 100%"), False),
        ("better", ended("promoted", "all traffic"), True),
        ("better", ended("not over", "50%"), False),
    ],
)
def test_a_release_that_is_caught_later_than_it_should_be_has_not_ended_as_it_should(name: str, found: Ended, met: bool) -> None:
    assert WANTED[name].met(found) is met


def test_a_release_that_does_not_exist_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["perfect"])
    assert ended.value.code == 2
    assert "no release perfect; choose from identical" in capsys.readouterr().err


@pytest.mark.parametrize(("result", "enough"), [(b'[{"value": [1, "5"]}]', True), (b"[]", False)], ids=["requests", "none"])
def test_no_release_begins_before_prometheus_holds_requests_to_judge_it_by(tmp_path: Path, result: bytes, enough: bool) -> None:
    class Prometheus(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"data": {"result": ' + result + b"}}")

        def log_message(self, format: str, *args: object) -> None: ...

    layout, nothing = Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path), cast(Any, None)
    stage = Stage(tmp_path, layout, nothing, 15.0)
    with pytest.raises(UserError, match="shows no requests of quality/classifier"):
        stage.measured(within=0.1)
    server = http.server.HTTPServer(("127.0.0.1", Supervisor(layout).port("prometheus")), Prometheus)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    if enough:
        stage.measured()
    else:
        with pytest.raises(UserError, match="none was begun"):
            stage.measured(within=0.1)
    server.shutdown()
    server.server_close()


def test_a_demonstration_begins_from_nothing_and_keeps_earlier_reports(tmp_path: Path) -> None:
    layout = Layout(project=tmp_path / "demo" / "checkout", state=tmp_path / "demo" / "state", cache=tmp_path / "cache")
    ledger, report = layout.ledger / "quality" / "1.json", tmp_path / "demo" / "reports" / "01-better.html"
    for path in (ledger, report):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    forget(layout)
    forget(layout)
    assert not layout.state.exists()
    assert report.exists()
