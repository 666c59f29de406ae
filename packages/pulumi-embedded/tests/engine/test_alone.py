"""The distribution by itself: its wheel in an empty environment, beside the SDKs and without anything of this checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2]
CHECKOUT = ("headway", "sandbox", "components", "stacks", "policies")
PROGRAM = """
import pulumi
import pulumi_aws as aws

vpc = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16")
bucket = aws.s3.Bucket("data")
queue = aws.sqs.Queue("work", opts=pulumi.ResourceOptions(depends_on=[bucket]))
pulumi.export("vpc", vpc.id)
pulumi.export("bucket", bucket.arn)
pulumi.export("password", pulumi.Config().require_secret("password"))
"""
CALLER = """
import json, sys
from importlib.util import find_spec
from pathlib import Path
from pulumi import automation as auto
from pulumi_embedded import standalone
from pulumi_embedded.engine.command import EmbeddedPulumi

folder = Path(sys.argv[1])
standalone.prepare(folder / "home")
engine = EmbeddedPulumi(standalone.providers(folder / "home"))
stack = auto.create_stack("dev", work_dir=sys.argv[2], opts=auto.LocalWorkspaceOptions(pulumi_command=engine))
stack.set_config("aws:region", auto.ConfigValue("eu-west-1"))
stack.set_config("password", auto.ConfigValue("not in the clear", secret=True))
planned = stack.preview().change_summary
made = stack.up()
again = stack.up().summary.resource_changes
gone = stack.destroy().summary.resource_changes
print("ANSWER" + json.dumps({
    "planned": planned,
    "made": made.summary.resource_changes,
    "outputs": {key: str(value.value) for key, value in made.outputs.items()},
    "again": again,
    "gone": gone,
    "checkout": [name for name in sys.argv[3:] if find_spec(name)],
    "engine": str(Path(sys.modules["pulumi_embedded"].__file__)),
}))
"""


@pytest.mark.timeout(300)
def test_the_wheel_runs_a_program_where_nothing_of_this_checkout_is(tmp_path: Path) -> None:
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(built, cwd=PACKAGE, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("pulumi_embedded-*.whl")
    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
    zipfile.ZipFile(wheel).extractall(own)
    project = tmp_path / "project"
    project.mkdir()
    (project / "Pulumi.yaml").write_text("name: alone\nruntime: python\n")
    (project / "__main__.py").write_text(PROGRAM)

    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "AWS_", "PYTHON"))}
    # A folder on this path is searched, but its .pth files, which lead to the checkout, are not read.
    environment = {**kept, "PYTHONPATH": sysconfig.get_path("purelib"), "PULUMI_EMBEDDED_CACHE": str(tmp_path / "cache")}
    run = [str(python), "-c", CALLER, str(tmp_path), str(project), *CHECKOUT]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout.partition("ANSWER")[2])
    assert said["checkout"] == []
    assert said["engine"].startswith(own)
    assert said["planned"] == said["made"] == {"create": 4}
    assert said["again"] == {"same": 4}
    assert said["gone"] == {"delete": 4}
    assert said["outputs"]["vpc"].startswith("vpc-")
    assert said["outputs"]["bucket"].startswith("arn:aws:s3:::data-")
    assert said["outputs"]["password"] == "not in the clear"
