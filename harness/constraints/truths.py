"""Refuse `and` and `or` where Python's own would give a number.

In Python `7 or b` is 7, and here it is true. The two agree in a condition, and anywhere else if
all operands are true or false themselves.
"""

from __future__ import annotations

import ast

from harness.core.errors import ExpressionError


def refuse_truths_as_numbers(node: ast.expr, text: str, is_condition: bool) -> None:
    """Raise ExpressionError for an `and` or `or` of numbers whose value is used as a number.

    `is_condition` says that only the truth of the node's value is used.
    """
    if isinstance(node, ast.BoolOp):
        if not is_condition and not _is_truth(node):
            word = "and" if isinstance(node.op, ast.And) else "or"
            raise ExpressionError(
                f"`{word}` in `{text}` is used as a number, but its operands are not conditions: "
                "compare them, such as (A != 0 or B != 0), or write `A if A != 0 else B`"
            )
        parts = [(part, is_condition) for part in node.values]
    elif isinstance(node, ast.UnaryOp):
        parts = [(node.operand, isinstance(node.op, ast.Not))]
    elif isinstance(node, ast.IfExp):
        parts = [(node.test, True), (node.body, is_condition), (node.orelse, is_condition)]
    else:
        parts = [(part, False) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
    for part, within_condition in parts:
        refuse_truths_as_numbers(part, text, within_condition)


def _is_truth(node: ast.expr) -> bool:
    """Whether the value is clearly true or false."""
    if isinstance(node, ast.BoolOp):
        return all(map(_is_truth, node.values))
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    if isinstance(node, ast.IfExp):
        return _is_truth(node.body) and _is_truth(node.orelse)
    is_word = isinstance(node, ast.Name) and node.id in ("true", "false")
    return is_word or isinstance(node, ast.Compare)
