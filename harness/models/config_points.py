"""Configurations as points that a model of times can learn from.

Each parameter is an axis from 0 to 1. Further axes give what a model would otherwise have to learn
value by value:

- How many times two divides a value. Block sizes of 48 and 80 lie between 32 and 96, but multiples
  of large powers of two are what fills warps and cache lines.
- The product and the ratio of each two sizes: the elements of a tile, the threads of a group, the
  elements of a tile that each thread computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.space import PointArray
from harness.space_file import Parameter

_Columns = Callable[[PointArray], Array]
_Numbers = range | npt.NDArray[np.int64]
"""Ascending whole numbers."""

_MOST_WORDS = 1000  # axes of an enumeration; where it has more words, some share an axis
_TOO_LARGE = 2**62
_MOST_SIZES = 12  # sizes whose pairs become axes; 66 pairs

_RELATIVE_LENGTH_OF_PAIRS = math.e
"""How much longer the length scales of products and ratios are expected to be: most of them add
nothing to what the parameters say."""


class ConfigEncoder:
    """Encodes configurations, as positions of values (`harness.space.PointArray`), as points of
    [0, 1]^axes.

    An ordered parameter is the position of its value, a logarithmic one its logarithm; the values
    of an enumeration are all equally far apart. A flag with numbers is the position of its number,
    and on an axis of its own whether it is absent. Axes of one feature share a length scale:
    `groups` has the number of each axis's feature, from 0, and `relative_lengths` has for each
    feature how long its length scale is expected to be, relative to the others.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        """Make the axes; a parameter with one value has none."""
        varying = [axis for axis, p in enumerate(parameters) if len(p.values) > 1]
        sizes = [(axis, n) for axis in varying if (n := _sizes(parameters[axis])) is not None]
        self._own = [_own_columns(axis, parameters[axis]) for axis in varying]
        self._twos = [_twos_column(axis, n) for axis, n in sizes if not _are_powers(n)]
        # With more pairs than these, the parameters themselves would hardly count.
        self._logs = [_log_column(*n) for n in sizes] if len(sizes) <= _MOST_SIZES else []
        self._one, self._other = np.triu_indices(len(self._logs), 1)
        probe = np.zeros((1, len(parameters)), dtype=np.int32)
        widths = [columns(probe).shape[1] for columns in (*self._own, *self._twos)]
        pairs = len(widths) + np.arange(len(self._one))
        # Each pair has a product and a ratio.
        self.groups = np.concatenate([np.repeat(np.arange(len(widths)), widths), pairs, pairs])
        lengths = [1.0] * len(widths) + [_RELATIVE_LENGTH_OF_PAIRS] * len(pairs)
        self.relative_lengths = np.array(lengths)

    def points(self, places: PointArray) -> Array:
        """Encode configurations, shape (points, axes)."""
        columns = [of(places) for of in (*self._own, *self._twos)]
        if len(self._one):
            logs = np.hstack([of(places) for of in self._logs])
            one, other = logs[:, self._one], logs[:, self._other]
            columns += [(one + other) / 2, (one - other + 1) / 2]
        return np.hstack([np.empty((len(places), 0)), *columns])


def _own_columns(axis: int, parameter: Parameter) -> _Columns:
    """Make the columns of the parameter itself."""
    if parameter.kind == "log_integer" and (numbers := _sizes(parameter)) is not None:
        return _log_column(axis, numbers)
    last = len(parameter.values) - 1
    if parameter.is_optional_number:
        return lambda places: _optional_numbers(places[:, axis], last)
    if parameter.kind != "enum" or last == 1:
        return lambda places: places[:, axis, None] / last
    count = min(last + 1, _MOST_WORDS)
    # Two of these columns differ between two values: divided by the root of 2, the distance is 1.
    return lambda places: (places[:, axis, None] % count == np.arange(count)) / math.sqrt(2)


def _optional_numbers(places: PointArray, last: int) -> Array:
    """Encode a flag that is absent or a number: whether it is absent, which is as far from all
    numbers, and where among the numbers it is."""
    is_absent = places == 0
    where = np.where(is_absent, 0.5, (places - 1) / (last - 1))
    return np.column_stack([is_absent.astype(np.float64), where])


def _sizes(parameter: Parameter) -> _Numbers | None:
    """Return the values of a parameter if they are at least three whole numbers from 1."""
    values = parameter.values
    if len(values) < 3 or parameter.kind == "enum":
        return None
    if isinstance(values, range):
        return values if values[0] >= 1 and values[-1] < _TOO_LARGE else None
    numbers = [v for v in values if type(v) is int or (type(v) is float and v.is_integer())]
    whole = len(numbers) == len(values) and all(1 <= number < _TOO_LARGE for number in numbers)
    return np.array(numbers, dtype=np.int64) if whole else None


def _are_powers(numbers: _Numbers) -> bool:
    """Say whether all are powers of two: then their order already gives how often two divides
    them."""
    if isinstance(numbers, range):
        return False  # three or more numbers in equal steps are never all powers of two
    return bool((numbers & (numbers - 1) == 0).all())


def _twos_column(axis: int, numbers: _Numbers) -> _Columns:
    """Make the column of how many times two divides the value."""
    most = math.floor(math.log2(numbers[-1]))
    return lambda points: np.log2((n := _taken(numbers, points[:, axis, None])) & -n) / most


def _log_column(axis: int, numbers: _Numbers) -> _Columns:
    """Make the column of the value's logarithm, from 0 to 1 over all values."""
    low, high = math.log2(numbers[0]), math.log2(numbers[-1])
    return lambda points: (np.log2(_taken(numbers, points[:, axis, None])) - low) / (high - low)


def _taken(numbers: _Numbers, positions: PointArray) -> npt.NDArray[np.int64]:
    """Look up the numbers at these positions."""
    if isinstance(numbers, range):
        return positions.astype(np.int64) * numbers.step + numbers.start
    return numbers[positions]
