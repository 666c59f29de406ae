"""A golden difference fails on any change of the text that it stands for."""

import pytest

from tests.components.golden import difference, named, objects, resources

FULL = "bucket logs\n  days: 30\n  name: logs\nqueue batch\n  name: batch\nrole nodes\n  name: nodes\n"
OTHER = "bucket logs\n  days: 7\n  name: logs\nqueue batch\n  name: batch\ntable locks\n  name: locks\n"
NAMES = {"environment": "dev"}


def recorded(text: str, *, ordered: bool = False) -> str:
    return difference(resources(FULL), resources(text), NAMES, ordered=ordered)


def test_a_difference_names_what_is_changed_new_and_gone() -> None:
    assert recorded(OTHER).splitlines() == [
        "<environment> dev",
        "- role nodes",
        "  bucket logs",
        "@@ 1,1 @@",
        "-  days: 30",
        "+  days: 7",
        "+ table locks",
        "+  name: locks",
    ]


@pytest.mark.parametrize(
    "change",
    [
        ("days: 7", "days: 8"),
        ("  days: 7\n", ""),
        ("  name: logs\n", "  name: logs\n  tags: none\n"),
        ("queue batch\n  name: batch\n", ""),
        ("queue batch\n  name: batch\n", "queue batch\n  name: other\n"),
        ("table locks\n  name: locks\n", "table locks\n  name: lock\n"),
        ("table locks\n  name: locks\n", "role nodes\n  name: nodes\n"),
    ],
)
def test_every_change_of_the_other_text_changes_its_difference(change: tuple[str, str]) -> None:
    assert OTHER.replace(*change) != OTHER
    assert recorded(OTHER.replace(*change)) != recorded(OTHER)


def test_another_order_of_blocks_shows_where_it_matters() -> None:
    turned = "queue batch\n  name: batch\nbucket logs\n  days: 30\n  name: logs\nrole nodes\n  name: nodes\n"
    assert recorded(turned, ordered=True) != recorded(FULL, ordered=True)


def test_names_are_replaced_as_whole_words_and_never_hidden() -> None:
    assert named("dev-queue of developers", NAMES) == "<environment>-queue of developers"
    with pytest.raises(ValueError, match="stands in the text"):
        named("<environment>", NAMES)


def test_two_blocks_of_one_title_are_refused() -> None:
    with pytest.raises(ValueError, match="two blocks"):
        resources("queue batch\nqueue batch\n")
    with pytest.raises(ValueError, match="two blocks"):
        objects("kind: A\nmetadata: {name: b}\n---\nkind: A\nmetadata: {name: b}\n")
