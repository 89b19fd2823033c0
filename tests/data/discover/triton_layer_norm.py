"""Sums of a layer norm's gradient by columns, which all programs add to."""

import triton
import triton.language as tl


@triton.autotune(
    [triton.Config({"ROWS": r, "COLUMNS": c}, w) for r, c, w in ((8, 32, 4), (16, 32, 4), (4, 64, 2))],
    ["columns"],
    reset_to_zero=["gradient"],
)
@triton.jit
def weight_gradient(
    out, normal, gradient, rows, columns: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    at = row[:, None] * columns + column[None, :]
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    products = tl.load(out + at, inside, other=0.0) * tl.load(normal + at, inside, other=0.0)
    tl.atomic_add(gradient + column, tl.sum(products, axis=0), column < columns)
