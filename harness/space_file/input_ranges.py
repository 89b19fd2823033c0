"""Inputs that are drawn from ranges of features, spread over all of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, StrictFloat, StrictInt, StrictStr, model_validator

from harness.constraints.arithmetic import MAX_EXACT
from harness.core.arrays import Array
from harness.core.records import Input, Value
from harness.space_file.messages import StrictModel
from harness.space_file.tuned import distinct, plain

MOST_INPUTS = 1_000
_CANDIDATES = 4096
"""So many inputs are candidates; where there are no more in all, all of them are."""

Bound = Annotated[StrictInt | StrictFloat, AfterValidator(plain)]
Ends = Annotated[list[Bound], Field(min_length=2, max_length=2)]
Choice = Annotated[StrictInt | StrictFloat | StrictStr, AfterValidator(plain)]
_FEW = 4
"""Whole numbers that span less are taken for names, such as those of a layout."""

_KINDS = ("linear", "log", "choices")


class FeatureRange(StrictModel):
    """The values of one feature: numbers from a smallest to a largest one, or choices."""

    linear: Ends | None = None
    """[smallest, largest], spread evenly"""
    log: Ends | None = None
    """[smallest, largest], from above 0, spread evenly by ratio"""
    choices: Annotated[list[Choice], AfterValidator(distinct), Field(min_length=1)] | None = None
    """numbers or words"""
    multiple_of: Annotated[StrictInt, Field(ge=1)] | None = None
    """numbers are multiples of this"""

    @model_validator(mode="before")
    @classmethod
    def _names_a_kind(cls, data: object) -> object:
        if isinstance(data, list):
            raise ValueError(
                f"write `{{log: {data}}}`, `{{linear: {data}}}` or `{{choices: {data}}}`"
            )
        return data

    @model_validator(mode="after")
    def _is_one_kind(self) -> FeatureRange:
        kinds = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            got = " and ".join(f"`{kind}`" for kind in kinds) or "none of them"
            raise ValueError(f"needs one of `linear`, `log` and `choices`, but got {got}")
        if self.choices is not None:
            if self.multiple_of is not None:
                raise ValueError("`multiple_of` does not go with `choices`")
            return self
        low, high = self.ends
        if not low <= high:
            raise ValueError(f"the smallest comes first, but got [{low}, {high}]")
        if self.log is not None and low <= 0:
            raise ValueError(f"`log` needs numbers above 0, but got {low}; write `linear`")
        if not math.isfinite(high - low if self.log is None else high / low):
            raise ValueError(f"[{low}, {high}] is too wide to compute with; narrow it")
        if self.is_whole and max(-low, high) > MAX_EXACT:
            raise ValueError(f"whole numbers lie between -2**53 and 2**53, but got [{low}, {high}]")
        if self.is_whole and not self._multiples:
            raise ValueError(f"there is no multiple of {self.multiple_of} from {low} to {high}")
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number."""
        low, high = self.linear or self.log or (0, 0)
        return low, high

    @property
    def is_whole(self) -> bool:
        """Whether the numbers are whole: the ends are, or they are multiples."""
        return self.multiple_of is not None or all(type(end) is int for end in self.ends)

    @property
    def may_be_odd(self) -> bool:
        """Whether it is a range of whole numbers, of which some are odd."""
        return self.choices is None and self.is_whole and (self.multiple_of or 1) % 2 == 1

    @property
    def _multiples(self) -> range:
        (low, high), step = self.ends, self.multiple_of or 1
        return range(math.ceil(low / step) * step, math.floor(high / step) * step + 1, step)

    @property
    def size(self) -> float:
        """How many values there are; infinite for fractions."""
        if self.choices is not None:
            return len(self.choices)
        if self.is_whole:
            return len(self._multiples)
        return math.inf if self.ends[0] < self.ends[1] else 1

    def all(self) -> Sequence[Value]:
        """Return the values, of which there are not too many."""
        if self.choices is not None:
            return self.choices
        return self._multiples if self.is_whole else [self.ends[0]]

    def at(self, share: float) -> Value:
        """Return the value at a share of the range, from 0 to 1."""
        if self.choices is not None:
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        low, high = self.ends
        is_even = self.log is None
        number = low + share * (high - low) if is_even else low * float(high / low) ** share
        if not self.is_whole:
            return float(min(max(number, low), high))
        multiples = self._multiples
        nearest = round(number / multiples.step) * multiples.step
        return min(max(nearest, multiples[0]), multiples[-1])

    def coordinates(self, values: Sequence[Any]) -> Array:
        """Return the coordinates of values, shape (values,): a number's share of the range, or the
        index of a choice."""
        if self.choices is not None:
            indices = {choice: index for index, choice in enumerate(self.choices)}
            return np.array([indices[value] for value in values], dtype=np.float64)
        numbers: Array = np.array(values, dtype=np.float64)
        ends: Array = np.array(self.ends, dtype=np.float64)
        if self.log is not None:
            numbers, ends = np.log(numbers), np.log(ends)
        width = float(ends[1] - ends[0])
        shares: Array = (numbers - ends[0]) / (width or 1.0)
        return shares


def draw_inputs(
    features: Sequence[str],
    ranges: Mapping[str, FeatureRange],
    count: int,
    holds: Callable[[Input], bool],
) -> list[Input]:
    """Draw inputs that are spread over the ranges, and for which a condition holds.

    Each is the candidate farthest from those before it, the first ones at the ends of the ranges
    (maximin distance; Johnson, Moore and Ylvisaker, 1990). So a larger count begins with the same
    inputs. Returns fewer where there are no more candidates.
    """
    candidates = [problem for problem in _candidates(features, ranges) if holds(problem)]
    if not candidates:
        return []
    columns = [ranges[name].coordinates([p[name] for p in candidates]) for name in features]
    points = np.stack(columns, axis=1)
    is_choice = np.array([ranges[name].choices is not None for name in features])
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    chosen = int(np.argmax((((points - middle) ** 2)[:, ~is_choice]).sum(axis=1)))
    distances = np.full(len(points), np.inf)
    inputs = []
    for _ in range(min(count, len(candidates))):
        inputs.append(candidates[chosen])
        apart = (points - points[chosen]) ** 2
        apart[:, is_choice] = apart[:, is_choice] > 0  # two choices are 1 apart
        distances = np.minimum(distances, apart.sum(axis=1))
        distances[chosen] = -1
        chosen = int(np.argmax(distances))
    return inputs


def draw_unseen(
    inputs: Sequence[Input],
    given: Mapping[str, FeatureRange],
    count: int,
    holds: Callable[[Input], bool],
) -> list[Input]:
    """Draw other inputs from the ranges that are `given`, or else from those that the inputs span;
    none whose numbers have a larger product, since it may not fit in memory.

    All whole numbers are odd, and in half of the inputs one is prime; where there are too few of
    these, others follow.
    """
    features = list(inputs[0])
    ranges = {name: given.get(name) or _spanned([p[name] for p in inputs]) for name in features}
    sized = [name for name in features if ranges[name].may_be_odd]
    largest, unseen = max(map(size_of_input, inputs)), list[Input]()

    def draw(wanted: int, has_shape: Callable[[Sequence[Any]], bool]) -> None:
        taken = {*inputs, *unseen}

        def fits(problem: Input) -> bool:
            has = problem not in taken and has_shape([problem[name] for name in sized])
            return has and size_of_input(problem) <= largest and holds(problem)

        unseen.extend(draw_inputs(features, ranges, wanted - len(unseen), fits))

    draw(count // 2, lambda sizes: all(n % 2 for n in sizes) and any(map(_is_prime, sizes)))
    draw(count, lambda sizes: all(n % 2 for n in sizes))
    draw(count, lambda sizes: True)
    return unseen


def _spanned(values: Sequence[Any]) -> FeatureRange:
    """Return the range of the values of a feature; of words and of very few numbers, the values."""
    numbers = [value for value in values if isinstance(value, (int, float))]
    low, high = (min(numbers), max(numbers)) if len(numbers) == len(values) else (0, 0)
    if high == low or (high - low < _FEW and all(type(number) is int for number in numbers)):
        return FeatureRange(choices=list(dict.fromkeys(values)))
    return FeatureRange(log=[low, high]) if low > 0 else FeatureRange(linear=[low, high])


def size_of_input(problem: Input) -> float:
    """Return the product of the numbers of an input, which its memory and time often follow."""
    return math.prod(abs(v) for v in problem.values() if isinstance(v, (int, float)) and v)


def _is_prime(number: int) -> bool:
    """Whether Fermat's test takes a number for a prime; it errs on 22 numbers below 10,000."""
    return number > 1 and pow(2, number - 1, number) == 1


def _candidates(features: Sequence[str], ranges: Mapping[str, FeatureRange]) -> list[Input]:
    """Return all inputs where they are few; else the ends of all ranges, and points of a sequence
    of low discrepancy (Roberts, "The Unreasonable Effectiveness of Quasirandom Sequences", 2018).
    """
    of = [ranges[name] for name in features]
    if math.prod(each.size for each in of) <= _CANDIDATES:
        every = itertools.product(*(each.all() for each in of))
        return [Input(dict(zip(features, values, strict=True))) for values in every]
    ends = itertools.islice(itertools.product((0.0, 1.0), repeat=len(of)), _CANDIDATES)
    steps = _golden_ratio(len(of)) ** -np.arange(1, len(of) + 1)
    inner = (0.5 + np.outer(np.arange(_CANDIDATES), steps)) % 1
    points = itertools.chain(ends, inner.tolist())
    drawn = (
        Input({name: ranges[name].at(share) for name, share in zip(features, point, strict=True)})
        for point in points
    )
    return list(dict.fromkeys(drawn))


def _golden_ratio(dimensions: int) -> float:
    """Return the root above 1 of x^(d + 1) = x + 1, the golden ratio for d = 1."""
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (dimensions + 1))
    return root
