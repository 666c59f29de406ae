"""A tenant learns whose pod it is that harms its own, and not how it is called."""

from headway.diagnosis.other_tenants import numbered, without_pods


def test_pods_of_others_are_told_apart_by_numbers_and_own_ones_by_names() -> None:
    found = numbered(["search/b", "search/a", "vision/ours", "search/a"], ["vision"])
    assert found == {"search/a": "pod 1 of search", "search/b": "pod 2 of search", "vision/ours": "vision/ours"}


def test_a_sentence_keeps_own_pods_and_what_is_no_pod() -> None:
    said = "vision/ours and search/secret-5b6bb57495-tj4tz take long; see /dev/nvidia0 and TICKET-1/2"
    assert without_pods(said, ["vision"]) == "vision/ours and a pod of search take long; see /dev/nvidia0 and TICKET-1/2"
