"""Node exporter itself, with the collectors that the sandbox turns on: what somebody reads of a node is there, and its page is this machine's."""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from components.observability import manifests
from headway.diagnosis.measures import MEASURES
from sandbox.cluster.processes import Supervisor
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.monitoring import exporters
from sandbox.progress import Silent
from tests.cluster.conftest import eventually

pytestmark = pytest.mark.needs("node-exporter")


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    found = Layout.of(Path(__file__).parents[4])
    return Layout(project=found.project, state=tmp_path_factory.mktemp("exporters"), cache=found.cache)


@pytest.fixture(scope="module")
def page(layout: Layout) -> Iterator[dict[str, list[dict[str, str]]]]:
    """Labels of each series, by its name."""
    toolchain = ensure_toolchain(layout, Silent(), exporters.TOOL_SETS)
    keeper = Supervisor(layout)
    _, nodes = exporters.processes(layout, toolchain, keeper)
    with subprocess.Popen(nodes.argv, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: nodes.ready() is None, within=30)
            with urllib.request.urlopen(f"http://127.0.0.1:{nodes.ports[0]}/metrics", timeout=5) as answer:
                families = text_string_to_metric_families(answer.read().decode())
            found: dict[str, list[dict[str, str]]] = {}
            for each in (sample for family in families for sample in family.samples):
                found.setdefault(each.name, []).append(dict(each.labels))
            yield found
        finally:
            process.terminate()


def test_every_series_of_a_node_that_somebody_reads_is_there(page: dict[str, list[dict[str, str]]]) -> None:
    text = json.dumps([each.body for each in manifests.platform_manifests("runbooks", environment="prod")])
    text += " ".join(each.query for each in MEASURES.values())
    asked = set(re.findall(r"\bnode_(?:cpu|memory|disk|filesystem|netstat|network|vmstat|pressure)_\w+", text))
    assert len(asked) > 10
    assert sorted(asked - page.keys()) == []


def test_a_processor_tells_the_modes_that_a_diagnosis_counts(page: dict[str, list[dict[str, str]]]) -> None:
    assert {"idle", "iowait", "steal", "user"} <= {each["mode"] for each in page["node_cpu_seconds_total"]}


def test_each_node_with_a_process_is_read_under_its_own_name(layout: Layout) -> None:
    job, _ = exporters.settings(layout, Supervisor(layout)).scrape_configs
    marked = job["relabel_configs"][0]
    assert marked["source_labels"] == ["__meta_kubernetes_pod_annotation_sandbox_platform_io_run_by"]
    assert {each.get("target_label") for each in job["relabel_configs"]} >= {"node", "instance", "__address__"}
