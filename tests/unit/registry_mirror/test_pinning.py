"""`headway mirror --pin`: the first answer of a maker is written down, and any other one after it is refused."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from components import mirror
from headway.cli import mirror as command
from headway.cli.main import app
from headway.problem import Exit, UserError
from headway.registry_mirror.pinning import kept
from headway.wire import PINS_FILE
from tests.loopback import Handler, served

PACKAGE = b"a package of a chart"
IMAGE = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": f"sha256:{'0' * 64}", "size": 2},
        "layers": [],
    }
).encode()


def sha(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Maker(Handler):
    """A repository of charts and a registry of images in one; `answers` are by path."""

    answers: dict[str, bytes]

    def do_GET(self) -> None:
        body = self.answers.get(self.path)
        kind = "application/vnd.oci.image.manifest.v1+json" if "/manifests/" in self.path else "application/octet-stream"
        self.reply(404 if body is None else 200, body or b"", content_type=kind)


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A maker of one chart and one image, of which a checkout knows no digest; a third row's digest a public source states."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    with served(Maker) as address:
        index = {"entries": {"istiod": [{"version": "1.31.4", "urls": ["istiod-1.31.4.tgz"]}]}}
        Maker.answers = {
            "/charts/index.yaml": json.dumps(index).encode(),
            "/charts/istiod-1.31.4.tgz": PACKAGE,
            "/v2/istio/pilot/manifests/1.31.4": IMAGE,
        }
        host = address.removeprefix("http://")

        def installed_by(project: Path) -> dict[str, Any]:
            return listed(project, host)

        monkeypatch.setattr(command, "installed_by", installed_by)
        yield host


def listed(project: Path, host: str) -> dict[str, Any]:
    """As the program lists it, with what the checkout has pinned."""
    pins = mirror.first_answers(project)

    def row(name: str, **more: str) -> dict[str, Any]:
        return {**more, "digest": pins.get(name), "firstUse": name in pins}

    image = f"{host}/istio/pilot:1.31.4"
    stated = {"chart": "keda", "version": "1", "repository": "https://nowhere.test", "digest": sha(b"keda"), "firstUse": False}
    chart = row("istiod 1.31.4", chart="istiod", version="1.31.4", repository=f"http://{host}/charts")
    return {"charts": [chart, stated], "images": [row(image, image=image)]}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "components").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: headway\n")
    return tmp_path


def pinned(checkout: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["mirror", "--pin", "--project", str(checkout), *arguments])


def pins(checkout: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((checkout / PINS_FILE).read_text())
    return found


def test_what_has_no_digest_gets_that_of_its_makers_first_answer(maker: str, checkout: Path) -> None:
    said = pinned(checkout)
    assert said.exit_code == Exit.OK, said.output
    assert pins(checkout) == {f"{maker}/istio/pilot:1.31.4": sha(IMAGE), "istiod 1.31.4": sha(PACKAGE)}
    assert "2 pins, 2 new" in said.output


def test_the_listing_goes_by_the_first_answer_and_never_against_a_public_source() -> None:
    found = mirror.listing({"istiod 1.31.4": sha(b"seen"), "keda 2.20.2": sha(b"other"), "docker.io/istio/pilot:1.31.4": sha(b"image")})
    charts = {each["chart"]: (each["digest"], each["firstUse"]) for each in found["charts"]}
    assert charts["istiod"] == (sha(b"seen"), True)
    assert charts["keda"][0] != sha(b"other")
    assert charts["base"] == (None, False)
    (pilot,) = [each for each in found["images"] if each["image"] == "docker.io/istio/pilot:1.31.4"]
    assert (pilot["digest"], pilot["firstUse"]) == (sha(b"image"), True)


def test_another_answer_than_the_first_is_refused_and_the_first_stays(maker: str, checkout: Path) -> None:
    pinned(checkout)
    Maker.answers["/charts/istiod-1.31.4.tgz"] = b"another package"
    error = pinned(checkout).exception
    assert isinstance(error, UserError)
    assert error.exit is Exit.REFUSED
    assert f"istiod 1.31.4 is {sha(b'another package')}, and was {sha(PACKAGE)}" in error.fact
    assert pins(checkout)["istiod 1.31.4"] == sha(PACKAGE)


@pytest.mark.usefixtures("maker")
def test_the_same_answer_again_changes_nothing(checkout: Path) -> None:
    pinned(checkout)
    before = (checkout / PINS_FILE).read_bytes()
    assert "2 pins, 0 new" in pinned(checkout).output
    assert (checkout / PINS_FILE).read_bytes() == before


def test_a_maker_that_has_it_not_is_named_and_the_others_are_pinned(maker: str, checkout: Path) -> None:
    del Maker.answers["/v2/istio/pilot/manifests/1.31.4"]
    error = pinned(checkout).exception
    assert isinstance(error, UserError)
    assert (error.exit, f"{maker} has no istio/pilot:1.31.4" in error.fact) == (Exit.ENVIRONMENT, True)
    assert pins(checkout) == {"istiod 1.31.4": sha(PACKAGE)}


@pytest.mark.usefixtures("maker")
def test_a_version_that_is_installed_no_more_loses_its_pin(checkout: Path) -> None:
    (checkout / PINS_FILE).write_text(json.dumps({"istiod 1.30.0": sha(b"old")}))
    pinned(checkout)
    assert "istiod 1.30.0" not in pins(checkout)


@pytest.mark.usefixtures("maker")
def test_a_file_that_holds_no_pins_is_left_as_it_is(checkout: Path) -> None:
    (checkout / PINS_FILE).write_text("[]")
    with pytest.raises(ValueError, match="holds no digests by name"):
        mirror.first_answers(checkout)
    (checkout / PINS_FILE).write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        kept(checkout / PINS_FILE, [], set())
    assert (checkout / PINS_FILE).read_text() == "{"


@pytest.mark.usefixtures("maker")
def test_only_what_is_named_is_asked_for_and_the_rest_keeps_its_pin(checkout: Path) -> None:
    pinned(checkout, "--only", "istiod")
    assert set(pins(checkout)) == {"istiod 1.31.4"}
    pinned(checkout, "--only", "pilot")
    assert len(pins(checkout)) == 2
