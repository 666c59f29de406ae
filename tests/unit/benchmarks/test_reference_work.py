"""The reference work gives the same everywhere, and figures are told as multiples of it."""

import re

from benchmarks import reference


def test_the_reference_work_gives_what_it_should():
    assert reference.work() == reference.EXPECTED


def test_a_figure_is_told_as_a_multiple_of_the_reference(monkeypatch):
    monkeypatch.setattr(reference, "reference_seconds", lambda: 2.0)
    assert reference.times_reference(25.0) == "12.5"
    assert re.search(r"2\.00 s of CPU", reference.reference_line())
