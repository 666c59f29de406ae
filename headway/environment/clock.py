"""How far this machine's clock is from another's, as far as a question and its answer can tell. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ClockOffset:
    """Seconds by which this machine's clock is ahead of another's, and by how much that may be wrong."""

    ahead: float
    uncertain: float

    @classmethod
    def read(cls, asked: float, answered: float, told: float, resolution: float) -> "ClockOffset":
        """`told`: what the other clock said in a question that lasted from `asked` to `answered`; it tells multiples
        of `resolution`."""
        return cls((asked + answered) / 2 - (told + resolution / 2), (answered - asked) / 2 + resolution / 2)

    @property
    def certain(self) -> float:
        """Seconds ahead (negative: behind) that are beyond doubt."""
        return max(0.0, self.ahead - self.uncertain) + min(0.0, self.ahead + self.uncertain)
