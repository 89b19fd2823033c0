"""A softmax of rows, with heuristics and every combination of a few values."""

from itertools import product

import triton
from triton import language as tl

WARPS = [4, 8]


@triton.heuristics({"EXACT": lambda args: args["y"].numel() % args["BLOCK"] == 0})
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": block, "ROWS": rows}, num_warps=warps)
        for block, rows in product((64, 32), range(1, 3))
        for warps in WARPS
        if block * rows <= 64 or warps == 8
    ],
    key=["rows", "columns"],
)
@triton.jit
def softmax(x, y, rows, columns, BLOCK: tl.constexpr, ROWS: tl.constexpr, EXACT: tl.constexpr):
    for row in range(tl.program_id(0) * ROWS, min((tl.program_id(0) + 1) * ROWS, rows)):
        most, total = float("-inf"), 0.0
        for begin in range(0, columns, BLOCK):
            at = begin + tl.arange(0, BLOCK)
            values = tl.load(x + row * columns + at, at < columns, other=float("-inf"))
            more = tl.maximum(most, tl.max(values))
            total = total * tl.exp(most - more) + tl.sum(tl.exp(values - more))
            most = more
        for begin in range(0, columns, BLOCK):
            at = begin + tl.arange(0, BLOCK)
            values = tl.exp(tl.load(x + row * columns + at, at < columns) - most) / total
            tl.store(y + row * columns + at, values, at < columns)
