"""Constraints of a catalogue over the flags that a space selects.

A flag that a space leaves out is absent, so its name is replaced by its value: `prec_div !=
'false'` becomes `absent != 'false'`. Messages show the constraint as the catalogue has it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from harness.constraints.expression import Expression
from harness.core.records import Value, shown


class SettledExpression(Expression):
    """An expression in which some names are replaced by fixed values.

    Messages show it as it was `written`, with those values.
    """

    def __init__(self, written: Expression, values: Mapping[str, Value]) -> None:
        super().__init__(_with_values(written, values))
        self.written = written.text
        self._describe, self._values = written.describe_values, values

    def describe_values(self, values: Mapping[str, Value]) -> str:
        """Return the values that it uses, with the fixed ones."""
        return self._describe({**self._values, **values})


def _with_values(expression: Expression, values: Mapping[str, Value]) -> str:
    """Return the expression's text with names replaced by words such as `absent`."""
    text = expression.text.encode()  # syntax trees count columns in bytes
    nodes = [n for n in ast.walk(expression.tree) if isinstance(n, ast.Name) and n.id in values]
    for node in sorted(nodes, key=lambda node: -node.col_offset):
        word = shown(values[node.id]).encode()
        text = text[: node.col_offset] + word + text[node.end_col_offset :]
    return text.decode()
