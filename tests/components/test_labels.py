"""Labels say whose an object is; selectors hold what never changes."""

from components.labels import labels, selector, tags
from headway.wire import MODEL, RELEASE, TENANT


def test_only_what_is_given_appears() -> None:
    found = labels("quota", tenant="vision")
    assert found[TENANT] == "vision"
    assert MODEL not in found, "a label without a value was made up"


def test_labels_come_in_a_fixed_order() -> None:
    found = labels("server", tenant="vision", model="classifier", release="r1", workload_class="latency")
    assert list(found) == sorted(found)


def test_a_selector_is_a_part_of_the_labels_it_selects() -> None:
    found = labels("server", tenant="vision", model="classifier", release="r1")
    assert selector(tenant="vision", model="classifier", release="r1").items() <= found.items()


def test_a_selector_without_a_release_picks_every_release() -> None:
    assert RELEASE not in selector(tenant="vision", model="classifier")


def test_tags_name_environment_and_layer() -> None:
    found = tags("prod", "cluster")
    assert found["platform.io/environment"] == "prod"
    assert found["platform.io/layer"] == "cluster"
    assert all(key.startswith("platform.io/") for key in found)
