"""Index arithmetic: integer sums k + c1 * a1 + c2 * a2 + ... with a known range.

An atom is a variable, or one of `//`, `%`, clamp, mirror and wrap of another sum. Each sum is
simplified by its range when it is made: an index that cannot leave its array has no clamp, and a
split followed by a join leaves no division.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Span = tuple[int, int]
"""The least and the largest value."""


@dataclass(frozen=True)
class Variable:
    """A loop variable or a thread id: an integer from `low` to `high`."""

    name: str
    low: int
    high: int

    @property
    def text(self) -> str:
        """Return the name in C."""
        return self.name

    @property
    def index(self) -> Index:
        """Return it as a sum; a variable with a single value becomes that number."""
        if self.low == self.high:
            return constant(self.low)
        return Index(((self, 1),), 0)

    def value(self, values: Mapping[str, Any], is_padded: bool) -> Any:
        """Look the value up by name."""
        return values[self.name]

    def span(self, spans: Mapping[str, Span]) -> Span:
        """Return its own range, unless `spans` has another."""
        return spans.get(self.name, (self.low, self.high))


@dataclass(frozen=True)
class _Operation:
    """An operation on a sum and the integer `by`: `kind` is a key of `_VALUES`."""

    kind: str
    inner: Index
    by: int

    @cached_property
    def text(self) -> str:
        """Return the C expression."""
        return _TEXTS[self.kind](self.inner, self.by)

    def value(self, values: Mapping[str, Any], is_padded: bool) -> Any:
        """Evaluate it; skip padding unless `is_padded`."""
        inner = self.inner.value(values, is_padded)
        if not is_padded and self.kind in PADDINGS:
            return inner
        return _VALUES[self.kind](inner, self.by)

    def span(self, spans: Mapping[str, Span]) -> Span:
        """Bound its values."""
        low, high = self.inner.span(spans)
        if self.kind == "/":
            return low // self.by, high // self.by
        if self.kind == "clamp":
            return min(max(low, 0), self.by - 1), min(max(high, 0), self.by - 1)
        return (low, high) if 0 <= low <= high < self.by else (0, self.by - 1)


Atom = Variable | _Operation


@dataclass(frozen=True)
class Index:
    """constant + sum of coefficient * atom; equal sums compare equal."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int

    def span(self, spans: Mapping[str, Span]) -> Span:
        """Bound its values; `spans` are narrower ranges of variables by name."""
        low = high = self.constant
        for atom, coefficient in self.terms:
            ends = [end * coefficient for end in atom.span(spans)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    @cached_property
    def _whole(self) -> Span:
        return self.span({})

    @property
    def low(self) -> int:
        """Return a lower bound, from the ranges of the atoms."""
        return self._whole[0]

    @property
    def high(self) -> int:
        """Return an upper bound, from the ranges of the atoms."""
        return self._whole[1]

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other) if other else self
        coefficients = dict(self.terms)
        for atom, coefficient in other.terms:
            coefficients[atom] = coefficients.get(atom, 0) + coefficient
        return _sum(coefficients, self.constant + other.constant)

    def __mul__(self, factor: int) -> Index:
        if factor == 0:
            return constant(0)
        terms = tuple((atom, c * factor) for atom, c in self.terms)
        return Index(terms, self.constant * factor)

    def __floordiv__(self, by: int) -> Index:
        whole, rest = self._parted(by)
        if rest.is_within(by):
            return whole
        if len(rest.terms) == 1 and rest.constant == 0:
            (atom, coefficient), *_ = rest.terms
            if coefficient == 1 and isinstance(atom, _Operation) and atom.kind == "/":
                return whole + atom.inner // (atom.by * by)
        return whole + _operation("/", rest, by)

    def __mod__(self, by: int) -> Index:
        _, rest = self._parted(by)
        return rest if rest.is_within(by) else _operation("%", rest, by)

    def _parted(self, by: int) -> tuple[Index, Index]:
        """Return (q, r) with self = q * by + r, where `by` divides no coefficient of r."""
        whole = tuple((a, c // by) for a, c in self.terms if c % by == 0)
        rest = tuple((a, c) for a, c in self.terms if c % by)
        return Index(whole, self.constant // by), Index(rest, self.constant % by)

    def padded(self, kind: str, length: int) -> Index:
        """Map it into 0 .. length - 1 by one of PADDINGS.

        It may lie at most `length` outside.
        """
        return self if self.is_within(length) else _operation(kind, self, length)

    def is_within(self, length: int) -> bool:
        """Return whether its range lies in 0 .. length - 1."""
        return self.low >= 0 and self.high < length

    def value(self, values: Mapping[str, Any], is_padded: bool = True) -> Any:
        """Evaluate it, with numbers or numpy arrays for the variables."""
        total: Any = self.constant
        for atom, coefficient in self.terms:
            total = total + atom.value(values, is_padded) * coefficient
        return total

    @cached_property
    def text(self) -> str:
        """Return the C expression, the largest strides first."""
        products = [f"{'-' * (c < 0)}{_product(atom, abs(c))}" for atom, c in self.terms]
        products += [str(self.constant)] * (self.constant != 0 or not products)
        return " + ".join(products).replace(" + -", " - ")

    @property
    def factor(self) -> str:
        """Return the C expression, in parentheses unless it is a single factor."""
        is_factor = not self.constant and len(self.terms) == 1 and self.terms[0][1] == 1
        return _factor(self.terms[0][0]) if is_factor else f"({self.text})"


def constant(value: int) -> Index:
    """Return the index of one number."""
    return Index((), value)


def _sum(coefficients: dict[Atom, int], added: int) -> Index:
    for atom in list(coefficients):
        # x / d * d + x % d is x.
        if isinstance(atom, _Operation) and atom.kind == "%":
            whole, times = _Operation("/", atom.inner, atom.by), coefficients[atom]
            if coefficients.get(whole) == times * atom.by:
                del coefficients[atom], coefficients[whole]
                return _sum(coefficients, added) + atom.inner * times
    terms = [(atom, c) for atom, c in coefficients.items() if c]
    terms.sort(key=lambda term: (-abs(term[1]), term[0].text))
    return Index(tuple(terms), added)


def _operation(kind: str, inner: Index, by: int) -> Index:
    return Index(((_Operation(kind, inner, by), 1),), 0)


# ------------------------------------------------------------------------ C text and evaluation


def _factor(atom: Atom) -> str:
    is_quotient = isinstance(atom, _Operation) and atom.kind in ("/", "%", "wrap")
    return f"({atom.text})" if is_quotient else atom.text


def _product(atom: Atom, size: int) -> str:
    return f"{_factor(atom)} * {size}" if size > 1 else atom.text


def _clamp_text(inner: Index, length: int) -> str:
    text = inner.text
    if inner.low < 0:
        text = f"max({text}, 0)"
    return f"min({text}, {length - 1})" if inner.high >= length else text


def _mirror_text(inner: Index, length: int) -> str:
    text, factor = inner.text, inner.factor
    if inner.low < 0:
        text = factor = f"max({inner.text}, -1 - {inner.factor})"
    return f"min({text}, {2 * length - 1} - {factor})" if inner.high >= length else text


_TEXTS: dict[str, Callable[[Index, int], str]] = {
    # C rounds towards zero; numerators are never negative, since padding comes first.
    "/": lambda inner, by: f"{inner.factor} / {by}",
    "%": lambda inner, by: f"{inner.factor} % {by}",
    "clamp": _clamp_text,
    "mirror": _mirror_text,
    "wrap": lambda inner, length: f"({(inner + length).text}) % {length}",
}


def _mirrored(inner: Any, length: int) -> Any:
    after = np.maximum(inner, -1 - inner)
    return np.minimum(after, 2 * length - 1 - after)


_VALUES: dict[str, Callable[[Any, int], Any]] = {
    "/": lambda inner, by: inner // by,
    "%": lambda inner, by: inner % by,
    "clamp": lambda inner, length: np.clip(inner, 0, length - 1),
    "mirror": _mirrored,
    "wrap": lambda inner, length: inner % length,
}
PADDINGS = ("clamp", "mirror", "wrap")
"""How an index outside an array maps into it: to the nearest element; to its mirror image, which
repeats the border element; to the other end."""
