"""`headway loops push`: where it pushes, and what it writes."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.loop_process import say
from headway.cli.loops import place_of, with_image
from headway.problem import UserError

PROJECT = Path(__file__).parents[3]
IMAGE = "111111111111.dkr.ecr.us-west-2.amazonaws.com/headway-dev/headway:0.1.0-a@sha256:" + "a" * 64


def checkout(folder: Path) -> Path:
    for name in ("components", "headway", "stacks", "tenants"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "Pulumi.yaml", folder)
    return folder


def test_the_image_is_written_and_every_other_character_stays() -> None:
    text = (PROJECT / "stacks" / "Pulumi.dev-platform.yaml").read_text(encoding="utf-8")
    text = text.replace("    image: null\n", "    # pinned\n    image: null  # by digest\n")
    changed = with_image(text, IMAGE, "the file")
    assert changed == text.replace("image: null", f"image: {IMAGE}")
    assert with_image(changed, IMAGE.replace("aaa", "bbb"), "the file").count("image:") == 1


@pytest.mark.parametrize("text", ["config:\n  headway:loops: {image: null}\n", "config:\n  headway:warm: []\n", "{}\n"])
def test_a_file_laid_out_otherwise_is_left_alone_and_the_line_told(text: str) -> None:
    with pytest.raises(UserError, match="could be changed") as refused:
        with_image(text, IMAGE, "the file")
    assert IMAGE in refused.value.remedy


def test_an_environments_own_repository_is_made_by_its_cluster_layer(tmp_path: Path) -> None:
    assert place_of(PROJECT, "dev") == ("111111111111.dkr.ecr.us-west-2.amazonaws.com/headway-dev/headway", True)
    project = checkout(tmp_path)
    file = project / "stacks" / "Pulumi.dev-cluster.yaml"
    file.write_text(file.read_text().replace("fetch, headway, ", "fetch, "))
    with pytest.raises(UserError, match="does not name `headway`"):
        place_of(project, "dev")


def test_beside_a_mirror_the_image_goes_into_the_mirror(tmp_path: Path) -> None:
    project = checkout(tmp_path)
    file = project / "stacks" / "Pulumi.dev-platform.yaml"
    file.write_text(file.read_text().replace("mirror: null", "mirror: registry.example.com/mirror"))
    assert place_of(project, "dev") == ("registry.example.com/mirror/headway", False)


def test_an_environment_without_loops_needs_no_image() -> None:
    with pytest.raises(UserError, match="runs no loops"):
        place_of(PROJECT, "sandbox")


def test_a_check_says_what_stays_off_without_the_image_and_accepts() -> None:
    command = [sys.executable, "-m", "headway.cli.main", "check", "--environment", "dev", "--output", "json"]
    told = json.loads(subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout)
    (found,) = [problem for problem in told["environment"]["problems"] if problem["rule"] == "loops-image-named"]
    assert (told["ok"], found["level"]) == (True, "warning")
    assert "release start" in found["consequence"]
    assert "headway loops push --environment dev" in found["remedy"]


def test_a_check_refuses_pools_that_mig_cuts_without_the_image(tmp_path: Path) -> None:
    project = checkout(tmp_path)
    file = project / "stacks" / "Pulumi.staging-platform.yaml"
    file.write_text(re.sub(r"    image: \S+", "    image: null", file.read_text()))
    words = ["-m", "headway.cli.main", "check", "--environment", "staging", "--output", "json"]
    environment = {**os.environ, "PYTHONPATH": str(project)}
    done = subprocess.run([sys.executable, *words], cwd=project, env=environment, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    (found,) = [problem for problem in told["environment"]["problems"] if problem["rule"] == "mig-needs-the-loops"]
    assert (done.returncode, told["ok"], found["level"], found["path"]) == (1, False, "error", "headway:loops.image")


def test_the_samples_image_is_written_over() -> None:
    for environment in ("staging", "prod"):
        text = (PROJECT / "stacks" / f"Pulumi.{environment}-platform.yaml").read_text(encoding="utf-8")
        assert f"    image: {IMAGE}\n" in with_image(text, IMAGE, "the file")


def test_what_a_loop_says_of_tenants_words_is_no_order_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("vision: s3://models/vision/\x1b]52;c;eA==\x07\nserving on 0.0.0.0:80 is here")
    assert capsys.readouterr().out == "vision: s3://models/vision/\\x1b]52;c;eA==\\x07\\nserving on 0.0.0.0:80 is here\n"
