"""Parts of encoders: one-hot words, logarithms of sizes, the power of two in a number.

scikit-learn's ColumnTransformer, OneHotEncoder and StandardScaler are not used: they refuse words
of several types (None and texts), differ in the last bit from generated code, and take 10 ms for
one input where this takes 0.2 ms.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array, Flags, Indices

LOG2_DIGITS = 24
"""Binary digits behind the point of `digits_of_log2`: errors below 1e-7."""


def one_hot(codes: Indices, count: int) -> Array:
    """Give each code from 0 to count - 1 a column, 1 where a row has it and else 0; a row of zeros
    for any other code. Shape (rows, count)."""
    columns: Array = (codes[:, None] == np.arange(count)).astype(np.float64)
    return columns


def log2_where(values: Array, are_sizes: Flags) -> Array:
    """Replace the marked columns, which must be positive, by their base-2 logarithms. Shape (rows,
    columns)."""
    return np.where(are_sizes, np.log2(np.where(are_sizes, values, 1.0)), values)


def digits_of_log2(sizes: Array) -> Array:
    """Compute base-2 logarithms of positive sizes, to 24 binary digits; the shape stays.

    Only exact operations and one multiplication a digit: C and Python compute the same bits, which
    no library's logarithm promises.
    """
    mantissa, exponent = np.frexp(sizes)
    square, logs, digit = 2 * mantissa, exponent - 1.0, 1.0
    for _ in range(LOG2_DIGITS):
        digit /= 2
        square = square * square
        is_one = square >= 2
        logs = np.where(is_one, logs + digit, logs)
        square = np.where(is_one, square / 2, square)
    return logs


def power_of_two_in(numbers: npt.NDArray[np.int64]) -> Array:
    """Return the largest power of two that divides each number; 0 for 0."""
    return (numbers & -numbers).astype(np.float64)
