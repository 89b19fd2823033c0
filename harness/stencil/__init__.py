"""Stencils in a functional language: explored by rewriting, generated, tuned and predicted.

The words that a stencil's file needs; docs/stencil.md teaches them.
"""

from harness.stencil.ir import Node, UserFun, show, user_fun
from harness.stencil.language import (
    array,
    at,
    get,
    grid,
    iterate,
    join,
    map2d,
    map_,
    number,
    pad,
    pad2d,
    reduce_,
    slide,
    slide2d,
    split,
    transpose,
    zip2d,
    zip_,
)

__all__ = [
    "Node",
    "UserFun",
    "array",
    "at",
    "get",
    "grid",
    "iterate",
    "join",
    "map2d",
    "map_",
    "number",
    "pad",
    "pad2d",
    "reduce_",
    "show",
    "slide",
    "slide2d",
    "split",
    "transpose",
    "user_fun",
    "zip2d",
    "zip_",
]
