"""Syntax tree -> the loops of a perfect nest, each of which counts up by a fixed step."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from harness.source.syntax_tree import Node, line_of, text_of

CANONICAL = "a loop such as `for (int i = 0; i < n; i++)`"
_SHOWN_CHARACTERS = 60
INTEGERS = frozenset((
    "int", "short", "long", "char", "signed", "unsigned", "uint", "ulong", "ushort", "uchar",
    "size_t", "ptrdiff_t", "ssize_t", "intptr_t", "uintptr_t",
    *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
))  # fmt: skip


class NestError(Exception):
    """The loops below a pragma cannot be tiled; `line` is the line of what was found there."""

    def __init__(self, line: int, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.line = line


@dataclass(frozen=True)
class CountingLoop:
    """A loop `for (KIND VARIABLE = FIRST; VARIABLE < LAST; VARIABLE += STEP)`.

    With `is_inclusive`, its condition is `<=`. `step` is a positive number or the name of a macro.
    """

    node: Node
    body: Node
    variable: str
    kind: str
    first: Node
    condition: Node
    last: Node
    is_inclusive: bool
    step: str


def quoted(node: Node) -> str:
    """Quote the text of a node, cut where it is long."""
    text = text_of(node)
    return f"`{text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + ' ...'}`"


def perfect_nest(top: Node, variables: Set[str], constants: Set[str]) -> tuple[CountingLoop, ...]:
    """Read the loops from this one to the innermost over one of the variables.

    `constants` are the macros that are positive numbers. Raises NestError for a loop that does not
    count up by a fixed step, and where anything but the next loop is in a loop's body.
    """
    loops: list[CountingLoop] = []
    node = top
    while True:
        loop = _counting_loop(node, constants)
        if loop.variable in (outer.variable for outer in loops):
            found = f"a second loop over `{loop.variable}`"
            raise NestError(line_of(node), found, "another name for each variable of the nest")
        loops.append(loop)
        missing = variables - {found.variable for found in loops}
        if not missing:
            return tuple(loops)
        node = _next_loop(loop, sorted(missing))


def _next_loop(outer: CountingLoop, missing: Sequence[str]) -> Node:
    statements = [outer.body]
    while len(statements) == 1 and statements[0].type == "compound_statement":
        statements = statements[0].named_children
    if len(statements) == 1 and statements[0].type == "for_statement":
        return statements[0]
    other = next((s for s in statements if s.type != "for_statement"), None)
    other = other or (statements[1] if len(statements) > 1 else outer.body)
    expected = (
        f"only the next loop in the body of the loop over `{outer.variable}`, since the loop over "
        f"`{missing[0]}` is to be tiled with it"
    )
    raise NestError(line_of(other), quoted(other), expected)


def _counting_loop(node: Node, constants: Set[str]) -> CountingLoop:
    if node.type != "for_statement":
        raise NestError(line_of(node), quoted(node), CANONICAL)
    variable, kind, first = _start(node)
    condition, last, is_inclusive = _end(node, variable)
    body = node.child_by_field_name("body")
    assert body is not None  # the grammar has no loop without one
    step = _step(node, variable, constants)
    return CountingLoop(node, body, variable, kind, first, condition, last, is_inclusive, step)


def _start(node: Node) -> tuple[str, str, Node]:
    """Return the variable of a loop, its type and its first value."""
    start = node.child_by_field_name("initializer")
    if start is None or start.type != "declaration":
        found = f"the start {quoted(start)}" if start else "a loop without a start"
        raise NestError(line_of(node), found, f"a variable that the loop declares: {CANONICAL}")
    declared = [c for c in start.named_children if c.type != "comment"]
    kind = text_of(start.child_by_field_name("type"))
    if len(declared) == 2 and declared[1].type == "init_declarator":
        name = declared[1].child_by_field_name("declarator")
        value = declared[1].child_by_field_name("value")
        if name is not None and name.type == "identifier" and value is not None:
            if not INTEGERS.issuperset(kind.split()):
                found = f"the type {quoted(declared[0])} of `{text_of(name)}`"
                raise NestError(line_of(node), found, "an integer type, such as int or size_t")
            return text_of(name), kind, value
    raise NestError(line_of(start), f"the start {quoted(start)}", "one variable, as in `int i = 0`")


def _end(node: Node, variable: str) -> tuple[Node, Node, bool]:
    """Return the condition of a loop, its bound, and whether it includes the bound."""
    condition = node.child_by_field_name("condition")
    if condition is None:
        raise NestError(line_of(node), "a loop without a condition", f"`{variable} < BOUND`")
    left, sign, right = map(condition.child_by_field_name, ("left", "operator", "right"))
    if text_of(left) != variable or text_of(sign) not in ("<", "<=") or right is None:
        found, expected = f"the condition {quoted(condition)}", f"`{variable} < BOUND`, or <="
        raise NestError(line_of(condition), found, expected)
    return condition, right, text_of(sign) == "<="


def _step(node: Node, variable: str, constants: Set[str]) -> str:
    update = node.child_by_field_name("update")
    text = text_of(update).replace(" ", "")
    if text in (f"{variable}++", f"++{variable}"):
        return "1"
    for begin in (f"{variable}+=", f"{variable}={variable}+"):
        step = text.removeprefix(begin)
        if step != text and (step in constants or (step.isdecimal() and step[0] != "0")):
            return step
    found = f"the step {quoted(update)}" if update else "a loop without a step"
    expected = f"`{variable}++`, or `{variable} += STEP` with a positive number"
    raise NestError(line_of(update or node), found, expected)
