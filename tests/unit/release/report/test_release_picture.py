"""A release as a picture for chat: what it shows, seen by its pixels."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from headway.contract.reading.loader import load_tenant
from headway.release.driver.rollout_state import RolloutState
from headway.release.report import picture
from tests.unit.release_kill import Shelf
from tests.unit.release_world import BAD, CHAIN, Scene

TENANTS = Path(__file__).parents[4] / "tenants"
RED, GREEN, BLUE = (0xB3, 0x26, 0x1E), (0x14, 0x6C, 0x43), (0x0B, 0x53, 0x94)


def ended(*, bad: bool) -> tuple[Scene, RolloutState]:
    (found,) = load_tenant(TENANTS / "vision").contracts
    scene = Scene.of(Shelf(), next(model for model in found.models if model.name == "defects"))
    if bad:
        scene.world.shares = BAD
    scene.begin(reason="smaller")
    return scene, scene.driver().run()


@pytest.fixture(scope="module")
def rolled_back() -> tuple[Scene, RolloutState]:
    return ended(bad=True)


@pytest.fixture(scope="module")
def promoted() -> tuple[Scene, RolloutState]:
    return ended(bad=False)


def drawn(release: tuple[Scene, RolloutState]) -> Image.Image:
    scene, rollout = release
    return Image.open(io.BytesIO(picture.png(CHAIN, "prod", rollout, scene.ledger().read())))


def test_the_verdict_has_its_colour(rolled_back: tuple[Scene, RolloutState], promoted: tuple[Scene, RolloutState]) -> None:
    assert drawn(rolled_back).getpixel((4, 40)) == RED
    assert drawn(promoted).getpixel((4, 40)) == GREEN


def test_the_chart_is_as_full_as_users_had_the_new_version(
    rolled_back: tuple[Scene, RolloutState], promoted: tuple[Scene, RolloutState]
) -> None:
    def users(image: Image.Image) -> int:
        counted = image.getcolors(1 << 24) or []
        return next((number for number, colour in counted if colour == BLUE), 0)

    assert users(drawn(promoted)) > 20_000
    assert users(drawn(rolled_back)) < 2_000


def test_the_evidence_that_decided_reaches_the_line(rolled_back: tuple[Scene, RolloutState], promoted: tuple[Scene, RolloutState]) -> None:
    def reached(image: Image.Image) -> bool:
        right = picture.WIDTH - 48
        return any(image.getpixel((right - 8, y)) == RED for y in range(300, image.height))

    assert reached(drawn(rolled_back))
    assert not reached(drawn(promoted))


def test_nothing_is_drawn_beyond_the_margins(rolled_back: tuple[Scene, RolloutState]) -> None:
    image = drawn(rolled_back)
    assert image.width == picture.WIDTH
    margin = image.crop((picture.WIDTH - 40, 0, picture.WIDTH, image.height))
    assert margin.getcolors() == [(margin.width * margin.height, (255, 255, 255))]


def test_a_word_that_is_longer_than_a_line_is_drawn_within_the_margins(rolled_back: tuple[Scene, RolloutState]) -> None:
    scene, rollout = rolled_back
    said = replace(rollout, ended={**(rollout.ended or {}), "reason": f"it answered 500: {'/a/long/path' * 30}"})
    image = drawn((scene, said))
    margin = image.crop((picture.WIDTH - 40, 0, picture.WIDTH, image.height))
    assert margin.getcolors() == [(margin.width * margin.height, (255, 255, 255))]
    assert image.height > drawn(rolled_back).height + 3 * 34


def test_the_command_of_a_picture_leads_to_its_own_release() -> None:
    scene, first = ended(bad=True)
    scene.begin(reason="again")
    again = scene.driver().run()
    events = scene.ledger().read()
    commands = [picture.command(CHAIN, "prod", rollout, events) for rollout in (first, again)]
    assert commands == [f"headway release report {CHAIN} -e prod --number {number}" for number in (1, 2)]


def test_the_same_release_gives_the_same_picture(rolled_back: tuple[Scene, RolloutState]) -> None:
    scene, rollout = rolled_back
    assert picture.png(CHAIN, "prod", rollout, scene.ledger().read()) == picture.png(CHAIN, "prod", rollout, scene.ledger().read())


@pytest.mark.parametrize(("text", "plain"), [("Z\u00fcge \u2013 5 ms", "Zuge - 5 ms"), ("\u00b5s \u00d72", "us x2"), ("漢", "?")])
def test_letters_that_the_font_lacks_are_replaced(text: str, plain: str) -> None:
    assert picture.letters(text) == plain
