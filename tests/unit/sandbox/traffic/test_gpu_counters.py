"""What is played of GPUs that nobody has: names and labels of dcgm-exporter, values by a script, and what no script is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.addons.gpu_operator import COUNTERS as SCRAPED
from headway.diagnosis.measure import Sight
from headway.diagnosis.measures import MEASURES
from headway.problem import UserError
from sandbox.traffic.node.gpu_counters import COUNTERS, SCRIPT, XIDS_COUNTED, checked, device_labels, played, script_of
from sandbox.traffic.node.metrics import device_samples

NODE = {"metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-L4"}}}


def shown(script: Any, now: float = 100.0) -> dict[str, float]:
    return {name: value for name, _, value in played(checked(script), "l4-0", now)}


def test_every_counter_that_is_played_is_one_that_production_scrapes() -> None:
    assert COUNTERS.keys() <= {name for name, _, _ in SCRAPED}


def test_every_counter_that_a_diagnosis_asks_for_is_played() -> None:
    asked = " ".join(each.query for each in MEASURES.values() if each.sight is Sight.GPU)
    served = {*COUNTERS, XIDS_COUNTED, "DCGM_FI_DEV_FB_USED"}  # the last one as the node agent measures it
    assert set(re.findall(r"DCGM_\w+", asked)) <= served


def test_a_gpu_that_no_script_names_is_calm() -> None:
    calm = shown({"l4-1": {"DCGM_FI_DEV_SM_CLOCK": 600}})
    assert (calm["DCGM_FI_DEV_SM_CLOCK"], calm["DCGM_FI_DEV_THERMAL_VIOLATION"], XIDS_COUNTED in calm) == (1500, 0, False)


def test_a_gauge_shows_its_value_and_a_counter_rises() -> None:
    found = shown({"l4-0": {"since": 90.0, "DCGM_FI_DEV_SM_CLOCK": 600, "DCGM_FI_DEV_THERMAL_VIOLATION": 6e8}})
    assert (found["DCGM_FI_DEV_SM_CLOCK"], found["DCGM_FI_DEV_THERMAL_VIOLATION"]) == (600, 6e9)


def test_an_xid_is_counted_with_its_number_as_the_exporter_counts_it() -> None:
    found = {name: labels for name, labels, _ in played({"l4-0": {"DCGM_FI_DEV_XID_ERRORS": 79}}, "l4-0", 0.0)}
    assert found[XIDS_COUNTED] == {"xid": "79", "window_size_in_ms": "300000"}


def test_a_device_has_the_labels_of_the_exporter() -> None:
    assert device_labels(NODE, "u1", "l4-0") == {
        "gpu": "0",
        "UUID": "SIMULATED-u1",
        "pci_bus_id": "00000000:00:1E.0",
        "device": "nvidia0",
        "modelName": "NVIDIA L4",
        "Hostname": "l4-0",
    }


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([], "no object of nodes"),
        ({"l4-0": 1}, "l4-0 is no object"),
        ({"l4-0": {"DCGM_FI_PROF_SM_ACTIVE": 1}}, "DCGM_FI_PROF_SM_ACTIVE is not played"),
        ({"l4-0": {"DCGM_FI_DEV_SM_CLOCK": -1}}, "no number from zero on"),
        ({"l4-0": {"DCGM_FI_DEV_SM_CLOCK": True}}, "no number from zero on"),
    ],
)
def test_what_is_not_played_is_refused(script: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        checked(script)


def test_a_script_is_read_anew_and_what_is_no_json_is_refused(tmp_path: Path) -> None:
    assert script_of(tmp_path) == {}
    (tmp_path / SCRIPT).write_text(json.dumps({"l4-0": {"DCGM_FI_DEV_GPU_TEMP": 93}}))
    assert script_of(tmp_path) == {"l4-0": {"DCGM_FI_DEV_GPU_TEMP": 93}}
    (tmp_path / SCRIPT).write_text("{")
    with pytest.raises(UserError, match="no JSON"):
        script_of(tmp_path)


def test_a_node_with_gpus_and_no_pod_tells_of_one_that_is_idle() -> None:
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.memory": "23034"}
    nodes = [{"metadata": {"name": "l4-0", "labels": labels}}, {"metadata": {"name": "system-0", "labels": {}}}]
    found = {name: (where["Hostname"], value) for name, where, value in device_samples((), nodes, {}, 0.0)}
    assert (found["DCGM_FI_DEV_FB_USED"], found["DCGM_FI_DEV_FB_FREE"]) == (("l4-0", 0.0), ("l4-0", 23034.0))
    assert {host for host, _ in found.values()} == {"l4-0"}
