"""What is wrong, shown to a terminal and to CI: nothing in it is an order to either, whoever wrote parts of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.problem import Problem, UserError, dotted, shown

ORDERS = {
    "a line that CI obeys": "a\n::error file=x::done",
    "a line that CI obeys, further in": "a\n   ::add-mask::x",
    "another CI's": "a\n##[error]x",
    "colours": "a\x1b[31mred",
    "a title of the window": "a\x1b]0;x\x07",
    "the line anew": "a\rb",
    "a backspace": "a\x08b",
    "another line's end": "a\u2028b",
    "text from right to left": "a\u202eb",
    "half of a pair": "a\ud800b",
}


@pytest.mark.parametrize("odd", ORDERS.values(), ids=ORDERS)
def test_no_part_of_a_problem_is_an_order_to_a_terminal_or_to_ci(odd: str) -> None:
    every = Problem(fact=odd, consequence=odd, remedy=odd, subject=odd, path=(odd, "b"), value=odd)
    for text in (
        str(every),
        every.brief,
        every.dotted,
        str(UserError(odd, odd, odd)),
        str(Problem(fact="a", consequence="b", remedy="c", file=odd)),
    ):
        assert all(c.isprintable() for c in text.replace("\n", ""))
        assert not any(line.lstrip().startswith(("::", "##[")) for line in text.split("\n"))


def test_a_fact_of_several_lines_keeps_them() -> None:
    assert str(Problem(fact="one\n  two", consequence="b", remedy="c")).startswith("one\n  two.\n")


@given(st.text())
def test_a_key_and_a_value_are_on_one_line(text: str) -> None:
    assert "\n" not in dotted((text,)) + shown(text)
