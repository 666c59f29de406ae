"""How a calculation explains itself: the lines a person would write on paper. Results of `headway.contract.arithmetic` carry them."""

from dataclasses import dataclass

from headway.contract.units import Quantity


@dataclass(frozen=True)
class Line:
    """One line: what, how much, and where the number comes from."""

    what: str
    amount: Quantity | str
    why: str = ""

    @property
    def figure(self) -> str:
        """The amount as one reads it; the exact one is in `amount`."""
        return self.amount.brief if isinstance(self.amount, Quantity) else self.amount


def written(lines: tuple[Line, ...], indent: str = "  ") -> str:
    """The lines as aligned text."""
    wide = max((len(line.what) for line in lines), default=0)
    tall = max((len(line.figure) for line in lines), default=0)
    return "\n".join(f"{indent}{line.what:<{wide}}  {line.figure:>{tall}}  {line.why}".rstrip() for line in lines)
