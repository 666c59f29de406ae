"""What callers may ask of a model server, and what a container's contract may not name as its path for requests."""

import pytest

from headway.contract.runtime import Engine
from headway.contract.served_paths import CLOSED, OPEN, closed_by, open_paths
from tests.contract_samples import CHAT, CUSTOM, DEFECTS, model

SAMPLES = {"triton": DEFECTS, "vllm": CHAT, "container": CUSTOM}


@pytest.mark.parametrize(
    ("path", "by"),
    [
        ("/metrics", "/metrics"),
        ("/metrics/mine", None),
        ("/v2/repository/index", "/v2/repository/*"),
        ("/v2/models/a/trace/setting", "/v2/models/{*}/trace/setting"),
        ("/v2/models/a/b/trace/setting", None),
        ("/v2/models/a/infer", None),
        ("/update_weights", "/update_weight*"),
        ("/predict", None),
    ],
)
def test_a_path_is_closed_as_the_mesh_matches_it(path, by):
    assert closed_by(path) == by


def test_nothing_that_is_open_is_closed():
    assert [path for paths in OPEN.values() for path in paths if closed_by(path.replace("{*}", "a"))] == []


def test_a_container_may_hold_any_server_so_nobody_knows_what_asks_it():
    runtimes = {name: model(sample).runtime for name, sample in SAMPLES.items()}
    assert open_paths([runtimes["triton"], runtimes["container"]]) is None
    assert open_paths([runtimes["triton"], runtimes["triton"]]) == OPEN[Engine.TRITON]
    assert open_paths([runtimes["vllm"], runtimes["triton"]]) == (*OPEN[Engine.TRITON], *OPEN[Engine.VLLM])
    assert open_paths([]) is None


def test_no_path_is_listed_twice():
    assert len(set(CLOSED)) == len(CLOSED) and all(len(set(paths)) == len(paths) for paths in OPEN.values())
