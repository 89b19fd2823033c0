"""Constraints of a catalogue over the flags that a space selects, told as the catalogue has them.

A flag that a space leaves out is absent, and its value stands in the constraint in its location:
`absent != 'false'` is what `prec_div != 'false'` then says, but nothing that a person wrote.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from harness.constraints.expression import Expression
from harness.core.records import Value, shown


class SettledExpression(Expression):
    """An expression of which some names have one value for good, which is in its text; people
    read it as it was `written`, with those values beside it."""

    def __init__(self, written: Expression, values: Mapping[str, Value]) -> None:
        super().__init__(_with_values(written, values))
        self.written = written.text
        self._told, self._values = written.told, values

    def told(self, values: Mapping[str, Value]) -> str:
        """The values that it looks at, those that are settled among them."""
        return self._told({**self._values, **values})


def _with_values(expression: Expression, values: Mapping[str, Value]) -> str:
    """The expression's text with the words `absent` and `false` in place of names."""
    text = expression.text.encode()  # syntax trees count columns in bytes
    nodes = [n for n in ast.walk(expression.tree) if isinstance(n, ast.Name) and n.id in values]
    for node in sorted(nodes, key=lambda node: -node.col_offset):
        word = shown(values[node.id]).encode()
        text = text[: node.col_offset] + word + text[node.end_col_offset :]
    return text.decode()
