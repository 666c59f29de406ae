"""Filling a mirror, from one real registry into another."""

import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from headway.problem import UserError
from headway.registry_mirror.client import RegistryClient
from headway.registry_mirror.copying import ImagePlace, copy_chart, copy_image
from tests.cluster.registries import digest, pushed, registries

__all__ = ["registries"]
pytestmark = pytest.mark.needs("registry")
ROOT = Path(__file__).parents[2]


def chart(name: str, version: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, text in ((f"{name}/Chart.yaml", f"apiVersion: v2\nname: {name}\nversion: {version}\n"), (f"{name}/values.yaml", "{}\n")):
            member = tarfile.TarInfo(path)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(packed.getvalue(), mtime=0)


def quiet(_: str) -> None: ...


def places(registries: tuple[RegistryClient, RegistryClient]) -> tuple[ImagePlace, ImagePlace]:
    return ImagePlace(registries[0], "grafana/loki"), ImagePlace(registries[1], "mirror/images/grafana/loki")


def test_an_image_of_two_platforms_arrives_with_its_digest(registries: tuple[RegistryClient, RegistryClient], tmp_path: Path) -> None:
    source, target = places(registries)
    pinned = pushed(registries[0], source.repository, "3.7.6", [os.urandom(3 * 2**20), b"small"], tmp_path)
    outcome = copy_image(source, target, "3.7.6", pinned, tmp_path, quiet)
    assert (outcome.digest, outcome.copied) == (pinned, True)
    found = target.registry.manifest(target.repository, "3.7.6")
    assert found is not None
    for each in found.content["manifests"]:
        part = target.registry.manifest(target.repository, each["digest"])
        assert part is not None
        assert all(target.registry.has_blob(target.repository, layer["digest"]) for layer in part.content["layers"])
    assert not copy_image(source, target, "3.7.6", pinned, tmp_path, quiet).copied


def test_a_tag_that_means_something_else_is_never_moved(registries: tuple[RegistryClient, RegistryClient], tmp_path: Path) -> None:
    source, target = places(registries)
    first = pushed(registries[0], source.repository, "1", [b"first"], tmp_path, index=False)
    copy_image(source, target, "1", None, tmp_path, quiet)
    pushed(registries[0], source.repository, "1", [b"second"], tmp_path, index=False)
    with pytest.raises(UserError, match="in the mirror is"):
        copy_image(source, target, "1", None, tmp_path, quiet)
    assert target.registry.digest_of(target.repository, "1") == first


def test_an_image_that_is_not_what_was_pinned_is_not_copied(registries: tuple[RegistryClient, RegistryClient], tmp_path: Path) -> None:
    source, target = places(registries)
    pushed(registries[0], source.repository, "1", [b"first"], tmp_path)
    with pytest.raises(UserError, match="with sha256:0000"):
        copy_image(source, target, "1", "sha256:" + "0" * 64, tmp_path, quiet)
    assert target.registry.digest_of(target.repository, "1") is None


def test_a_blob_that_was_begun_goes_on_where_it_ended(registries: tuple[RegistryClient, RegistryClient], tmp_path: Path) -> None:
    layer = os.urandom(5 * 2**20)
    pushed(registries[0], "a/b", "1", [layer], tmp_path, index=False)
    begun, passed = tmp_path / "begun", list[int]()
    begun.write_bytes(layer[: 4 * 2**20])
    registries[0].fetch_blob("a/b", digest(layer), len(layer), begun, passed.append)
    assert begun.read_bytes() == layer
    assert passed[0] == 4 * 2**20
    assert sum(passed) == len(layer)


def test_what_lies_in_the_spool_and_is_something_else_is_thrown_away(
    registries: tuple[RegistryClient, RegistryClient], tmp_path: Path
) -> None:
    layer = os.urandom(2**20)
    pushed(registries[0], "a/b", "1", [layer], tmp_path, index=False)
    begun = tmp_path / "begun"
    begun.write_bytes(b"x" * 1000)
    with pytest.raises(UserError, match="arrived as"):
        registries[0].fetch_blob("a/b", digest(layer), len(layer), begun, lambda _: None)
    assert not begun.exists()


def test_a_chart_arrives_as_helm_would_push_it(registries: tuple[RegistryClient, RegistryClient], tmp_path: Path) -> None:
    place = ImagePlace(registries[1], "mirror/charts/keda")
    package = chart("keda", "2.20.2")
    assert copy_chart(package, place, "2.20.2", tmp_path).copied
    assert not copy_chart(package, place, "2.20.2", tmp_path).copied
    found = registries[1].manifest(place.repository, "2.20.2")
    assert found is not None
    assert found.content["layers"][0]["digest"] == digest(package)
    helm = os.environ.get("HEADWAY_HELM") or shutil.which("helm")
    if helm:
        where = f"oci://{registries[1].host}/mirror/charts/keda"
        shown = subprocess.run([helm, "show", "chart", where, "--version", "2.20.2", "--plain-http"], capture_output=True, text=True)
        assert "name: keda" in shown.stdout, shown.stderr


COMMAND = """
import sys
from pathlib import Path
from headway.cli.mirror_push import push_all
from headway.cli.output import Output
import json
push_all(json.loads(sys.argv[1]), sys.argv[2], source=sys.argv[3], charts=Path(sys.argv[4]), only=(), output=Output.JSON)
"""


def test_a_copy_that_is_killed_goes_on_and_copies_nothing_twice(registries: tuple[RegistryClient, RegistryClient], tmp_path: Path) -> None:
    source, target = registries
    images = []
    for number in range(6):
        name = f"maker/image-{number}"
        pinned = pushed(source, name, "1.0", [os.urandom(8 * 2**20) for _ in range(3)], tmp_path)
        images.append({"image": f"docker.io/{name}:1.0", "digest": pinned, "target": f"images/{name}:1.0"})
    (tmp_path / "keda-2.20.2.tgz").write_bytes(chart("keda", "2.20.2"))
    charts = [{"chart": "keda", "repository": "https://charts.test", "version": "2.20.2", "digest": None, "target": "charts/keda:2.20.2"}]
    arguments = [json.dumps({"images": images, "charts": charts}), f"{target.host}/mirror", source.host, str(tmp_path)]
    environment = {**os.environ, "HEADWAY_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", COMMAND, *arguments]
    running = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while target.digest_of("mirror/images/maker/image-1", "1.0") is None and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=10)
    missing = [each for each in images if target.digest_of(f"mirror/{each['target'].rpartition(':')[0]}", "1.0") is None]
    assert 0 < len(missing) < 6, "it was killed in the middle"
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    outcomes = json.loads(ended.stdout)
    assert [each["digest"] for each in outcomes[:6]] == [each["digest"] for each in images]
    assert sum(each["copied"] for each in outcomes) == len(missing) + 1
    again = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert [each["copied"] for each in json.loads(again.stdout)] == [False] * 7
    assert list((tmp_path / "cache" / "mirror").iterdir()) == []
