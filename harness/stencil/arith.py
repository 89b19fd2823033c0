"""Index arithmetic: integer sums k + c1 * a1 + c2 * a2 + ... with a known range.

An atom is a variable, or one of `//`, `%`, clamp, mirror and wrap of another sum. Each sum is
simplified by its range when it is made: an index that cannot leave its array has no clamp, and a
split followed by a join leaves no division.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


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

    def value(self, values: Mapping[str, Any], is_padded: bool) -> Any:
        """Look the value up by name."""
        return values[self.name]

    def replaced(self, atom: Atom, by: Index) -> Index:
        """Return the variable as an index; it has no inner atoms."""
        return index_of(self)


@dataclass(frozen=True)
class Operation:
    """An operation on a sum and the integer `by`: `kind` is a key of `_VALUES`."""

    kind: str
    inner: Index
    by: int
    low: int
    high: int

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

    def replaced(self, atom: Atom, by: Index) -> Index:
        """Apply the same operation to the sum with `by` in place of an atom."""
        inner = self.inner.replaced(atom, by)
        if self.kind in PADDINGS:
            return inner.padded(self.kind, self.by)
        return inner // self.by if self.kind == "/" else inner % self.by


Atom = Variable | Operation


@dataclass(frozen=True)
class Index:
    """constant + sum of coefficient * atom; equal sums compare equal."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int

    @cached_property
    def low(self) -> int:
        """Return a lower bound, from the ranges of the atoms."""
        return self.constant + sum(c * (a.low if c > 0 else a.high) for a, c in self.terms)

    @cached_property
    def high(self) -> int:
        """Return an upper bound, from the ranges of the atoms."""
        return self.constant + sum(c * (a.high if c > 0 else a.low) for a, c in self.terms)

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other) if other else self
        if not other.terms:
            return self + other.constant
        if not self.terms:
            return other + self.constant
        coefficients = dict(self.terms)
        for atom, coefficient in other.terms:
            coefficients[atom] = coefficients.get(atom, 0) + coefficient
        return _sum(coefficients, self.constant + other.constant)

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
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
            if coefficient == 1 and isinstance(atom, Operation) and atom.kind == "/":
                return whole + atom.inner // (atom.by * by)
        return whole + _operation("/", rest, by, rest.low // by, rest.high // by)

    def __mod__(self, by: int) -> Index:
        _, rest = self._parted(by)
        if rest.is_within(by):
            return rest
        return _operation("%", rest, by, 0, by - 1)

    def _parted(self, by: int) -> tuple[Index, Index]:
        """Return (q, r) with self = q * by + r, where `by` divides no coefficient of r."""
        whole = tuple((a, c // by) for a, c in self.terms if c % by == 0)
        rest = tuple((a, c) for a, c in self.terms if c % by)
        return Index(whole, self.constant // by), Index(rest, self.constant % by)

    def padded(self, kind: str, length: int) -> Index:
        """Map it into 0 .. length - 1 by one of PADDINGS.

        It may lie at most `length` outside.
        """
        if self.is_within(length):
            return self
        return _operation(kind, self, length, 0, length - 1)

    def replaced(self, atom: Atom, by: Index) -> Index:
        """Replace an atom, at any depth, by a sum."""
        total = constant(self.constant)
        for own, coefficient in self.terms:
            new = by if own == atom else own.replaced(atom, by)
            total = total + new * coefficient
        return total

    def is_within(self, length: int) -> bool:
        """Return whether its range lies in 0 .. length - 1."""
        return self.low >= 0 and self.high < length

    def value(self, values: Mapping[str, Any], is_padded: bool = True) -> Any:
        """Evaluate it, with numbers or numpy arrays for the variables."""
        total: Any = self.constant
        for atom, coefficient in self.terms:
            total = total + atom.value(values, is_padded) * coefficient
        return total

    def atoms(self) -> Iterator[Atom]:
        """Yield its atoms at any depth, possibly with repeats."""
        for atom, _ in self.terms:
            yield atom
            if isinstance(atom, Operation):
                yield from atom.inner.atoms()

    def variables(self) -> Iterator[Variable]:
        """Yield its variables, possibly with repeats."""
        return (atom for atom in self.atoms() if isinstance(atom, Variable))

    @cached_property
    def text(self) -> str:
        """Return the C expression, the largest strides first."""
        text = ""
        for atom, coefficient in self.terms:
            size = abs(coefficient)
            product = f"{_factor(atom)} * {size}" if size > 1 else atom.text
            text += _signed(product, coefficient < 0, not text)
        if self.constant or not text:
            text += _signed(str(abs(self.constant)), self.constant < 0, not text)
        return text

    @property
    def factor(self) -> str:
        """Return the C expression, in parentheses unless it is a single factor."""
        is_one = not self.constant and len(self.terms) == 1 and self.terms[0][1] == 1
        return _factor(self.terms[0][0]) if is_one else f"({self.text})"


def constant(value: int) -> Index:
    """Return the index of one number."""
    return Index((), value)


def index_of(variable: Variable) -> Index:
    """Return the index of a variable; a variable with a single value becomes that number."""
    if variable.low == variable.high:
        return constant(variable.low)
    return Index(((variable, 1),), 0)


def _sum(coefficients: dict[Atom, int], added: int) -> Index:
    for atom in list(coefficients):
        # x / d * d + x % d is x.
        if isinstance(atom, Operation) and atom.kind == "%" and atom in coefficients:
            low, high = atom.inner.low // atom.by, atom.inner.high // atom.by
            whole = Operation("/", atom.inner, atom.by, low, high)
            times = coefficients[atom]
            if coefficients.get(whole) == times * atom.by:
                del coefficients[atom], coefficients[whole]
                return _sum(coefficients, added) + atom.inner * times
    terms = [(atom, c) for atom, c in coefficients.items() if c]
    terms.sort(key=lambda term: (-abs(term[1]), term[0].text))
    return Index(tuple(terms), added)


def _operation(kind: str, inner: Index, by: int, low: int, high: int) -> Index:
    return Index(((Operation(kind, inner, by, low, high), 1),), 0)


# ------------------------------------------------------------------------ C text and evaluation


def _factor(atom: Atom) -> str:
    is_quotient = isinstance(atom, Operation) and atom.kind in ("/", "%", "wrap")
    return f"({atom.text})" if is_quotient else atom.text


def _signed(text: str, is_negative: bool, is_first: bool) -> str:
    if is_first:
        return f"-{text}" if is_negative else text
    return f" - {text}" if is_negative else f" + {text}"


def _clamp_text(inner: Index, length: int) -> str:
    text = inner.text
    if inner.low < 0:
        text = f"max({text}, 0)"
    return f"min({text}, {length - 1})" if inner.high >= length else text


_TEXTS: dict[str, Callable[[Index, int], str]] = {
    # C rounds towards zero; numerators are never negative, since padding comes first.
    "/": lambda inner, by: f"{inner.factor} / {by}",
    "%": lambda inner, by: f"{inner.factor} % {by}",
    "clamp": _clamp_text,
    "mirror": lambda inner, length: f"mirror({inner.text}, {length})",
    "wrap": lambda inner, length: f"({(inner + length).text}) % {length}",
}


def _mirrored(inner: Any, length: int) -> Any:
    beyond = inner % (2 * length)
    return beyond + (2 * length - 1 - 2 * beyond) * (beyond >= length)


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
