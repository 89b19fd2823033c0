"""The element of an output that shows best that a result is wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorstElement:
    """The element of an output that is farthest outside its tolerance.

    Integers stay integers, so that different integers above 2^53 do not look equal. For a complex
    element this is the part that is farther off: `argument` then ends in `.real` or `.imag`.
    """

    argument: str
    index: tuple[int, ...]
    found: int | float
    expected: int | float
    tolerance: int | float
    wrong_count: int
    count: int

    def __str__(self) -> str:
        index = ", ".join(map(str, self.index))
        return (
            f"{self.argument}[{index}] is {_exactly(self.found)}, expected "
            f"{_exactly(self.expected)} +- {self.tolerance:.3g}; "
            f"{self.wrong_count:,} of {self.count:,} elements are wrong"
        )


def _exactly(number: int | float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.9g}"
