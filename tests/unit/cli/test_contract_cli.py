"""`headway check`, `new`, `diff` and `schema`, as a team and a CI job use them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner, Result

from headway.cli.contracts import app
from headway.cli.platform_sums import platform_sums
from headway.problem import UserError
from tests.contract_samples import DEFECTS, TENANTS, VISION, changed

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit | UserError), result.exception
    return result


def code(result: Result) -> int:
    return result.exception.exit if isinstance(result.exception, UserError) else result.exit_code


def write(folder: Path, name: str, data: dict[str, Any]) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return file


def test_a_starter_tenant_and_model_pass_check(folder: Path) -> None:
    assert code(run("new", "tenant", "acme")) == 0
    for runtime in ("triton", "vllm", "container"):
        assert code(run("new", "model", "acme", f"m-{runtime}", "--runtime", runtime)) == 0
    checked = run("check")
    assert code(checked) == 0
    assert "accepted: 1 tenant, 3 models" in checked.stdout


def test_a_starters_digest_is_refused_for_an_environment(folder: Path) -> None:
    lab(folder, "single")
    run("new", "model", "vision", "labels")

    def levels(*words: str) -> set[str]:
        found = json.loads(run("check", "-o", "json", *words).stdout)["findings"]
        return {each["level"] for each in found if each["rule"] == "digest-is-real"}

    assert (levels(), levels("-e", "lab")) == ({"warning"}, {"error"})


def test_a_new_tenant_gets_the_stack_file_of_its_first_environment(folder: Path) -> None:
    (folder / "Pulumi.yaml").write_text("name: headway\n")
    write(folder, "stacks/Pulumi.sandbox-cluster.yaml", {"config": {"headway:pools": []}})
    assert code(run("new", "tenant", "acme")) == 0
    assert (folder / "stacks/Pulumi.sandbox-acme.yaml").read_text().startswith("# What this stack deploys stands in tenants/acme/.")
    assert code(run("new", "tenant", "other", "--environment", "moon")) == 2
    assert not (folder / "tenants/other").exists()
    assert code(run("new", "tenant", "platform")) == 2


def test_check_judges_the_tenants_that_the_environment_has(folder: Path) -> None:
    (folder / "Pulumi.yaml").write_text("name: headway\n")
    write(folder, "stacks/Pulumi.lab-cluster.yaml", {"config": {"headway:pools": []}})
    write(folder, "tenants/vision/tenant.yaml", changed(VISION, {"priority": "huge"}))
    result = run("check", "--environment", "lab")
    assert code(result) == 0
    assert "not deployed here, because no stack file names them: vision" in result.stdout
    write(folder, "stacks/Pulumi.lab-vision.yaml", {"config": {}})
    write(folder, "stacks/Pulumi.lab-gone.yaml", {"config": {}})
    result = run("check", "--environment", "lab")
    assert code(result) == 1
    assert "priority = huge" in result.stdout
    assert "stack-has-a-tenant" in result.stdout


def test_check_warns_of_traffic_that_cannot_prove_a_version(folder: Path) -> None:
    rollout = {"strategy": "canary", "at_most": "30m", "step_at_most": "20m", "usual_requests": "100/h"}
    model = changed(DEFECTS, {"rollout": rollout})
    write(folder, "tenants/vision/defects.yaml", model)
    result = run("check", "--output", "json")
    (found,) = [each for each in json.loads(result.stdout)["findings"] if each["rule"] == "rollout-can-be-proven"]
    assert (found["level"], found["path"]) == ("warning", "rollout.usual_requests")
    assert "at 0.0278 requests a second 0 of 15 simulated releases" in found["fact"]
    write(folder, "tenants/vision/defects.yaml", changed(DEFECTS, {"rollout": {**rollout, "usual_requests": "50/s"}}))
    assert "rollout-can-be-proven" not in run("check", "--output", "json").stdout


def test_a_starter_says_what_to_replace(folder: Path) -> None:
    run("new", "tenant", "acme")
    run("new", "model", "acme", "first")
    text = (folder / "tenants/acme/first.yaml").read_text()
    assert text.count("# replace") > 6
    assert all(len(line) <= 140 or "sha256" in line for line in text.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        ("new", "tenant", "Acme"),
        ("new", "tenant", "../x"),
        ("new", "tenant", "a" * 41),
        ("new", "model", "nobody", "first"),
        ("new", "model", "acme", "tenant"),
        ("new", "tenant", "acme"),
        ("check", "nowhere"),
        ("check", "notes.md"),
        ("check", "/dev/null"),
        ("check", "--environment", "moon"),
        ("check", "--output", "xml"),
        ("diff", "tenants", "tenants"),
        ("diff", "nowhere"),
        ("schema", "planet"),
    ],
)
def test_wrong_use_exits_with_2_and_changes_nothing(folder: Path, arguments: tuple[str, ...]) -> None:
    run("new", "tenant", "acme")
    (folder / "Pulumi.yaml").write_text("name: headway\n")
    (folder / "notes.md").write_text("# Not a contract\n")
    before = sorted((path, path.read_bytes()) for path in folder.rglob("*") if path.is_file())
    assert code(run(*arguments)) == 2
    assert sorted((path, path.read_bytes()) for path in folder.rglob("*") if path.is_file()) == before


def test_a_refusal_shows_path_value_consequence_and_remedy_and_exits_with_1(folder: Path) -> None:
    write(folder, "tenants/vision/tenant.yaml", VISION)
    write(folder, "tenants/vision/defects.yaml", changed(DEFECTS, {"envelope/gpu/memory": "8GB"}))
    result = run("check")
    assert code(result) == 1
    shown = " ".join(result.stdout.split())
    assert "tenants/vision/defects.yaml" in shown
    assert "envelope.gpu.memory = 8GB" in shown
    assert "This stays unknown: GPU memory that the replica may use" in shown
    assert "Remedy: Write a number with one of the units B, Ki, Mi, Gi, Ti" in shown
    assert "refused: 1 error" in shown


def test_check_prints_its_result_as_json(folder: Path) -> None:
    write(folder, "tenants/vision/tenant.yaml", VISION)
    write(folder, "tenants/vision/defects.yaml", changed(DEFECTS, {"health/drain": "1s"}))
    result = run("check", "--output", "json")
    record = json.loads(result.stdout)
    assert code(result) == 1
    assert record["ok"] is False
    (finding,) = record["findings"]
    assert finding["file"] == "tenants/vision/defects.yaml"
    assert finding["path"] == "health.drain"
    assert finding["rule"] == "value-out-of-range"
    assert set(finding) == {"level", "rule", "file", "line", "column", "path", "value", "fact", "consequence", "remedy"}


SARIF_CORE: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "results": {
                        "items": {
                            "required": ["message", "ruleId", "level", "locations"],
                            "properties": {"level": {"enum": ["error", "warning", "note", "none"]}, "message": {"required": ["text"]}},
                        }
                    }
                },
            },
        },
    },
}
"""What SARIF 2.1.0 demands of the parts that are written here."""


def test_sarif_places_each_finding_for_code_scanning(folder: Path) -> None:
    write(folder, "tenants/vision/tenant.yaml", VISION)
    file = write(folder, "tenants/vision/defects.yaml", changed(DEFECTS, {"health/drain": "1s", "owner": 3}))
    log = json.loads(run("check", "-o", "sarif").stdout)
    jsonschema.validate(log, SARIF_CORE)
    run_ = log["runs"][0]
    rules = [rule["id"] for rule in run_["tool"]["driver"]["rules"]]
    lines = file.read_text().splitlines()
    assert len(run_["results"]) == 2
    for result, key in zip(run_["results"], ("owner", "drain"), strict=True):
        assert rules[result["ruleIndex"]] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "tenants/vision/defects.yaml"
        assert lines[place["region"]["startLine"] - 1].strip().startswith(f"{key}:")


def test_one_file_is_judged_with_its_tenant_but_shows_its_own_findings_only(folder: Path) -> None:
    write(folder, "tenants/vision/tenant.yaml", changed(VISION, {"priority": "huge"}))
    file = write(folder, "tenants/vision/defects.yaml", changed(DEFECTS, {"health/drain": "1s"}))
    result = run("check", str(file), "-o", "json")
    assert [finding["path"] for finding in json.loads(result.stdout)["findings"]] == ["health.drain"]


def test_the_environments_pools_are_checked_when_named() -> None:
    result = run("check", str(TENANTS), "--environment", "sandbox")
    assert code(result) == 0
    assert "not checked" not in result.stdout


def lab(folder: Path, nat: str) -> None:
    """An environment whose tenant serves from NVIDIA's registry."""
    (folder / "Pulumi.yaml").write_text("name: headway\n")
    account = {"id": "111111111111", "region": "us-west-2"}
    write(
        folder,
        "stacks/Pulumi.lab-cluster.yaml",
        {"config": {"headway:account": account, "headway:network": {"nat": nat}, "headway:pools": []}},
    )
    write(folder, "stacks/Pulumi.lab-vision.yaml", {"config": {}})
    write(folder, "tenants/vision/tenant.yaml", VISION)
    write(
        folder,
        "tenants/vision/defects.yaml",
        changed(DEFECTS, {"runtime/image": f"nvcr.io/nvidia/tritonserver:26.07-py3@sha256:{'a' * 64}"}),
    )


def test_an_image_that_no_node_reaches_without_nat_is_refused_with_its_path(folder: Path) -> None:
    lab(folder, "none")
    found = json.loads(run("check", "--environment", "lab", "-o", "json").stdout)["findings"]
    (finding,) = [each for each in found if each["rule"] == "image-reached-without-nat"]
    assert (finding["file"], finding["path"], finding["level"]) == ("tenants/vision/defects.yaml", "runtime.image", "error")
    assert "<account>.dkr.ecr.us-west-2.amazonaws.com/nvidia/tritonserver and" in finding["remedy"]


def test_a_batch_store_needs_a_bucket_in_the_tenants_stack_file(folder: Path) -> None:
    lab(folder, "single")
    batch = {"max_replicas": 1, "messages_per_replica": 9, "deadline": "12h", "message_timeout": "2m", "store": "batches://vision/defects/"}
    write(folder, "tenants/vision/defects.yaml", changed(DEFECTS, {"batch": batch}))
    refused = run("check", "--environment", "lab").stdout
    assert "batch-store-has-a-bucket" in refused
    assert "Pulumi.lab-vision.yaml names no bucket" in refused
    write(folder, "stacks/Pulumi.lab-vision.yaml", {"config": {"headway:batch": {"bucket": "example-batch"}}})
    assert "batch-store" not in run("check", "--environment", "lab").stdout


def test_an_artifact_in_another_environments_bucket_is_refused(folder: Path) -> None:
    lab(folder, "single")
    own, other = (f"s3://headway-lab-artifacts-{account}/vision/defects/1/" for account in ("1" * 12, "2" * 12))
    write(folder, "tenants/vision/defects.yaml", changed(DEFECTS, {"artifact/uri": other}))
    assert "artifact-of-this-environment" in run("check", "--environment", "lab").stdout
    write(folder, "tenants/vision/defects.yaml", changed(DEFECTS, {"artifact/uri": own}))
    assert "artifact-of-this-environment" not in run("check", "--environment", "lab").stdout


def test_batch_work_without_a_way_to_its_queue_is_refused(folder: Path) -> None:
    lab(folder, "none")
    batch = {
        "max_replicas": 1,
        "messages_per_replica": 9,
        "deadline": "12h",
        "message_timeout": "2m",
        "store": "s3://example-batch/vision/",
    }
    write(folder, "tenants/vision/defects.yaml", changed(DEFECTS, {"batch": batch}))
    assert "batch-queue-in-reach" in run("check", "--environment", "lab").stdout


def test_an_image_of_any_registry_is_accepted_behind_nat(folder: Path) -> None:
    lab(folder, "single")
    assert "image-reached-without-nat" not in run("check", "--environment", "lab").stdout


def test_explain_shows_the_arithmetic() -> None:
    text = run("check", str(TENANTS), "--explain", "-e", "sandbox").stdout
    for title in ("Quota, at maximum replicas", "GPU memory, each GPU", "RAM", "Start-up", "Cost", "Capacity for a rollout"):
        assert title in text
    record = json.loads(run("check", str(TENANTS), "--explain", "-o", "json").stdout)
    assert record["explained"]["assist"]["quota"]["gpus.h100"] == {"used": "3", "limit": "4", "within": True}


def test_an_empty_folder_is_not_called_accepted(folder: Path) -> None:
    (folder / "tenants").mkdir()
    assert "nothing to check" in run("check").stdout


def test_check_and_diff_find_the_tenants_of_the_checkout_around_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "tenants/vision/tenant.yaml", VISION)
    (folder / "Pulumi.yaml").write_text("name: headway\n")
    monkeypatch.chdir(folder / "tenants" / "vision")
    assert "accepted: 1 tenant" in run("check").stdout


@pytest.mark.parametrize("command", ["check", "diff"])
def test_outside_a_checkout_it_is_said_where_one_stands(folder: Path, command: str) -> None:
    refused = run(command).exception
    assert isinstance(refused, UserError)
    assert (refused.fact, refused.exit) == (f"{folder} is not inside a checkout of Headway.", 2)


def test_a_finding_stands_below_a_place_that_opens_and_shows_its_line(folder: Path) -> None:
    write(folder, "tenants/vision/tenant.yaml", VISION)
    file = write(folder, "tenants/vision/defects.yaml", changed(DEFECTS, {"workload_class": "latenzy"}))
    number = file.read_text().splitlines().index("workload_class: latenzy") + 1
    shown = run("check").stdout
    assert f"tenants/vision/defects.yaml:{number}:1  workload_class = latenzy  value-not-legal\n" in shown
    assert f"  {number} | workload_class: latenzy\n  {' ' * len(str(number))} | ^\n" in shown


def test_a_line_that_holds_a_secret_is_not_shown(folder: Path) -> None:
    write(folder, "tenants/vision/tenant.yaml", VISION)
    text = yaml.safe_dump(DEFECTS, sort_keys=False).replace("contract: model/v1\n", "contract: model/v7  # api_key: hunter2\n")
    (folder / "tenants/vision/defects.yaml").write_text(text)
    shown = run("check").stdout
    assert "contract = model/v7" in shown and "hunter2" not in shown


def test_a_bad_line_in_a_pool_is_the_only_finding(folder: Path) -> None:
    lab(folder, "single")
    pools = [{"name": "l4", "instance_typs": ["g6.12xlarge"]}]
    account = {"id": "111111111111", "region": "us-west-2"}
    write(
        folder,
        "stacks/Pulumi.lab-cluster.yaml",
        {"config": {"headway:account": account, "headway:network": {"nat": "single"}, "headway:pools": pools}},
    )
    shown = run("check", "--environment", "lab").stdout
    assert "stacks/Pulumi.lab-cluster.yaml:" in shown and "pools[0].instance_typs" in shown
    assert "pool-offers-the-envelope" not in shown
    assert "because the GPU pools are not known (correct the stack file first)" in shown


def test_what_a_layer_refuses_has_the_line_of_its_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks/Pulumi.lab-platform.yaml").touch()
    (tmp_path / "stacks/Pulumi.lab-cluster.yaml").write_text("config:\n  headway:account:\n    id: 7\n")
    told = {"file": "Pulumi.lab-cluster.yaml", "level": "error", "fact": "it is no text", "consequence": "", "remedy": ""}
    paths = (["headway:account", "id"], ["headway:account", "region"], ["headway:pools"])
    answer = {"lines": [], "month": [], "problems": [{**told, "path": path} for path in paths]}
    monkeypatch.setattr("headway.cli.platform_sums.told_by", lambda *_, **__: answer)
    assert [(each.line, each.column) for each in platform_sums(tmp_path, "lab").problems] == [(3, 5), (2, 3), (1, 1)]


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments], check=True, capture_output=True
    )


def test_diff_compares_the_working_tree_with_git(folder: Path) -> None:
    write(folder, "tenants/vision/tenant.yaml", VISION)
    write(folder, "tenants/vision/defects.yaml", DEFECTS)
    write(folder, "tenants/vision/old.yaml", changed(DEFECTS, {"name": "old"}))
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")
    assert "no contract differs" in run("diff").stdout
    write(folder, "tenants/vision/defects.yaml", changed(DEFECTS, {"batching/max_delay": "5ms", "scaling/max_replicas": 5}))
    write(folder, "tenants/vision/fresh.yaml", changed(DEFECTS, {"name": "fresh"}))
    write(folder, "tenants/other/tenant.yaml", changed(VISION, {"name": "other"}))
    (folder / "tenants/vision/old.yaml").unlink()
    record = {each["contract"]: each for each in json.loads(run("diff", "-o", "json").stdout)}
    assert record["tenants/vision/fresh.yaml"]["what"] == "added"
    assert record["tenants/vision/old.yaml"]["what"] == "removed"
    assert (record["tenants/vision/fresh.yaml"]["release"], record["tenants/other/tenant.yaml"]["release"]) == (True, False)
    assert "tenants/other/tenant.yaml: added; its namespace is made by the next update" in run("diff").stdout
    changes = {each["path"]: each for each in record["tenants/vision/defects.yaml"]["changes"]}
    assert changes["batching.max_delay"]["release"] is True
    assert (changes["batching.max_delay"]["old"], changes["batching.max_delay"]["new"]) == ("2ms", "5ms")
    assert changes["scaling.max_replicas"]["release"] is False
    assert "a new release is needed" in run("diff").stdout


def test_diff_of_two_files_names_what_moves(folder: Path) -> None:
    old, new = write(folder, "a.yaml", DEFECTS), write(folder, "b.yaml", changed(DEFECTS, {"scaling/max_replicas": 5}))
    text = run("diff", str(old), str(new)).stdout
    assert "in place, no new release" in text
    assert "quota: gpus.l4: 7 -> 6" in text


def test_a_difference_as_markdown_is_a_table_that_no_value_breaks(folder: Path) -> None:
    old = write(folder, "a.yaml", DEFECTS)
    new = write(folder, "b.yaml", changed(DEFECTS, {"scaling/max_replicas": 5, "owner": "<b>a|b`@all`</b>", "batching/max_delay": "5ms"}))
    said = run("diff", str(old), str(new), "-o", "markdown").stdout.splitlines()
    assert said[0] == "**`b.yaml`**: 3 changes, **a new release is needed**"
    assert "| R | `batching.max_delay` | `2ms` | `5ms` |" in said[4]
    assert "`<b>a\\|b'@all'</b>`" in said[5]
    assert "- quota: gpus.l4: `7` → `6`" in said
    assert run("diff", str(old), str(old), "-o", "markdown").stdout == "No contract differs.\n"


def test_diff_refuses_a_contract_that_check_refuses(folder: Path) -> None:
    old, new = write(folder, "a.yaml", DEFECTS), write(folder, "b.yaml", changed(DEFECTS, {"owner": 3}))
    assert code(run("diff", str(old), str(new))) == 1


def test_names_that_no_terminal_can_show_do_not_break_the_output(folder: Path) -> None:
    write(folder, "tenants/vision/tenant.yaml", changed(VISION, {"priority": "é 🚀", "owner": "\x1b[31m"}))
    for output in ("text", "json", "sarif"):
        process = subprocess.run(
            [sys.executable, "-m", "headway.cli.main", "check", "-o", output],
            cwd=folder,
            env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PATH": ""},
            capture_output=True,
            check=False,
        )
        assert process.returncode == 1, process.stderr
        assert "é 🚀".encode("ascii" if output == "text" else "utf-8", "backslashreplace") in process.stdout
        assert b"\x1b[31m" not in process.stdout, "a contract must not colour the terminal of who checks it"


def test_a_difference_shows_values_as_they_are_written(folder: Path) -> None:
    old = write(folder, "a/x.yaml", {**DEFECTS, "name": "x"})
    new = write(folder, "b/x.yaml", changed({**DEFECTS, "name": "x"}, {"rollout/weights": ["5%", "50%"]}))
    assert "[5%, 50%]" in run("diff", str(old), str(new)).stdout


def test_schema_prints_json_schema_for_editors() -> None:
    published = json.loads(run("schema", "tenant").stdout)
    assert published["title"] == "Headway tenant contract"
    assert "quota" in published["properties"]
