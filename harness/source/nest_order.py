"""Check that the order of a nest's iterations can change: nothing leaves it, or moves its bounds.

Whether the iterations depend on one another is not decided here: every result is verified.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.source.definitions import WORD, Definitions
from harness.source.loop_nest import INTEGERS, CountingLoop, NestError, quoted
from harness.source.syntax_tree import Node, ancestors, line_of, text_of, walk

_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
_LEAVING = ("return_statement", "goto_statement", "co_return_statement", "throw_statement")
_PURE_NODES = (
    "identifier", "number_literal", "parenthesized_expression", "binary_expression",
    "unary_expression", "cast_expression", "conditional_expression", "sizeof_expression",
    "field_expression", "call_expression",
)  # fmt: skip
_PURE_FUNCTIONS = frozenset((
    "min", "max", "get_global_id", "get_local_id", "get_group_id", "get_global_size",
    "get_local_size", "get_num_groups", "get_global_offset", "sizeof", "defined",
))  # fmt: skip
_BARRIER = re.compile(
    r"\b(barrier|work_group_barrier|sub_group_barrier|wait_group_events|__sync\w+|__barrier_sync\w*"
    r"|(?<=\.)sync|(?<=\.)arrive_and_wait)\b"
)
_JUMP = re.compile(r"\b(break|continue|goto|return)\b")
_WRITE = re.compile(r"\+ ?\+|- ?-|(?<![=!<>])=(?! ?=)|(?:<<|>>)=")
_CALLED = re.compile(r"\b([A-Za-z_]\w*) ?\(")
_REAL = re.compile(r"(?<![\w.])(?!0[xX])(?:\d+\.\d*|\.\d+|\d+[eE][-+]?\d+|\d+[fF]\b)")
_REALS = ("float", "double", "half", "long double")
_COPY = "names, numbers and arithmetic; copy other values to a variable before the loops"


def check_order(loops: Sequence[CountingLoop], tiled: set[str], known: Definitions) -> None:
    """Check the bounds and the body of a nest; `tiled` are the variables of its tiled loops.

    Raises NestError with the first obstacle.
    """
    variables = {loop.variable for loop in loops}
    fixed = set(variables)
    for loop in loops:
        for bound in (loop.first, loop.last):
            _check_pure(bound, known)
            words = set(WORD.findall(known.expanded(text_of(bound))))
            if loop.variable in tiled and words & variables:
                found = f"the bound {quoted(bound)} of the loop over `{loop.variable}`"
                other = sorted(words & variables)[0]
                raise NestError(
                    line_of(bound), found, f"a bound that does not depend on `{other}` of the nest"
                )
            fixed |= words
    _check_whole(loops, fixed - variables)
    _check_jumps(loops[-1])
    for node in walk(loops[-1].body):
        _check_writes(node, fixed)
        _check_macros(node, fixed, known)
    _check_barriers(loops[-1].body, known)


# ------------------------------------------------------------------------------- bounds


def _check_pure(bound: Node, known: Definitions) -> None:
    """Check that a bound always has the same value, and that nothing happens when it is read."""
    waiting = [bound]
    while waiting:
        node = waiting.pop()
        called = text_of(node.child_by_field_name("function"))
        is_cast = INTEGERS.issuperset(called.strip("() ").split())
        is_called = node.type == "call_expression" and not (is_cast or called in _PURE_FUNCTIONS)
        is_pointer = text_of(node.child_by_field_name("operator")) == "->"
        if node.type not in _PURE_NODES or is_called or is_pointer:
            raise NestError(line_of(node), f"{quoted(node)} in the bound {quoted(bound)}", _COPY)
        if node.type == "field_expression":
            waiting += node.named_children[:1]
        elif node.type == "call_expression":
            waiting += node.children_by_field_name("arguments")[0].named_children
        elif node.type == "cast_expression":
            waiting += node.children_by_field_name("value")
        elif node.type != "sizeof_expression":
            waiting += node.named_children
    for word in WORD.findall(text_of(bound)):
        body = known.expanded(word)
        calls = set(_CALLED.findall(body)) - _PURE_FUNCTIONS - known.macros.keys()
        if word in known.macros and ("[" in body or "->" in body or calls or _WRITE.search(body)):
            found = f"the macro `{word}`, which does more than arithmetic, in {quoted(bound)}"
            raise NestError(line_of(bound), found, _COPY)


def _check_whole(loops: Sequence[CountingLoop], names: set[str]) -> None:
    """Check that no bound is a floating-point number: between tiles it would be cut off."""
    for bound in (b for loop in loops for b in (loop.first, loop.last)):
        if _REAL.search(text_of(bound)) or set(_REALS) & set(WORD.findall(text_of(bound))):
            raise NestError(line_of(bound), f"the bound {quoted(bound)}", "a whole number")
    functions = [n for n in ancestors(loops[0].node) if n.type == "function_definition"]
    for node in (n for around in functions for n in walk(around)):
        declares = node.type in ("declaration", "parameter_declaration")
        if declares and text_of(node.child_by_field_name("type")) in _REALS:
            for name in node.children_by_field_name("declarator"):
                words = WORD.findall(text_of(name))
                if words and words[0] in names and name.type in ("identifier", "init_declarator"):
                    found = f"`{words[0]}`, a floating-point number, in a bound of the loops"
                    raise NestError(line_of(node), found, "a whole number")


# --------------------------------------------------------------------------------- body


def _check_jumps(innermost: CountingLoop) -> None:
    """Check that nothing leaves the loops; `continue` of the innermost one stays in its tile."""
    for node in walk(innermost.body):
        if node.type in _LEAVING:
            raise NestError(line_of(node), quoted(node), "that every iteration runs: nothing leaves"
                            " a tiled loop")  # fmt: skip
        if node.type == "break_statement":
            ends = (n for n in ancestors(node) if n.type in (*_LOOPS, "switch_statement"))
            if next(ends, innermost.node) == innermost.node:
                expected = "that every iteration runs: nothing leaves a tiled loop"
                raise NestError(line_of(node), "`break`", expected)


def _check_writes(node: Node, fixed: set[str]) -> None:
    """Check that a node does not write to a variable or a bound of the loops."""
    for target in _targets(node):
        name = _base(target)
        if name in fixed:
            found = f"{quoted(node)}, which may change `{name}`"
            raise NestError(line_of(node), found, "variables and bounds that the loops alone set")


def _targets(node: Node) -> Iterator[Node]:
    """Yield what a node may write to, or let others write to."""
    if node.type == "assignment_expression":
        yield from node.children_by_field_name("left")
    elif node.type == "update_expression":
        yield from node.children_by_field_name("argument")
    elif node.type == "pointer_expression":
        if text_of(node.child_by_field_name("operator")) == "&":
            yield from node.children_by_field_name("argument")
    elif node.type == "init_declarator":
        declarator = node.child_by_field_name("declarator")
        if declarator is not None and declarator.type == "reference_declarator":
            yield from node.children_by_field_name("value")
    elif node.type == "gnu_asm_expression":
        yield from (n for n in walk(node) if n.type == "identifier")


def _base(target: Node) -> str:
    """Return the variable that is written to, and nothing for an element of an array."""
    while target.type in ("parenthesized_expression", "field_expression"):
        target = target.named_children[0]
    return text_of(target) if target.type == "identifier" else ""


def _check_macros(node: Node, fixed: set[str], known: Definitions) -> None:
    """Check the macros of a body, and the functions that take references."""
    if node.type != "identifier":
        return
    name, called = text_of(node), node.parent
    is_call = called is not None and called.type == "call_expression"
    arguments = called.child_by_field_name("arguments") if called and is_call else None
    passed = {_base(argument) for argument in arguments.named_children} if arguments else set()
    if name in known.by_reference and passed & fixed:
        found = f"`{sorted(passed & fixed)[0]}` passed to `{name}`, which takes a reference"
        raise NestError(line_of(node), found, "a copy of it, in another variable")
    if name not in known.macros:
        return
    body = known.expanded(known.macros[name])
    if jump := _JUMP.search(body):
        found = f"the macro `{name}`, which contains `{jump[1]}`"
        raise NestError(line_of(node), found, "that every iteration runs")
    words = {*WORD.findall(body), *WORD.findall(text_of(arguments))}
    if _WRITE.search(body) and words & fixed:
        found = f"the macro `{name}`, which may change `{sorted(words & fixed)[0]}`"
        raise NestError(line_of(node), found, "variables and bounds that the loops alone set")


def _check_barriers(body: Node, known: Definitions) -> None:
    for node in walk(body):
        if node.type in ("identifier", "field_identifier"):
            text = text_of(node)
            method = f".{text}" if node.type == "field_identifier" else known.reached(text)
            if barrier := _BARRIER.search(method):
                by = "" if barrier[1] == text else f", which reaches `{barrier[1]}`"
                expected = "no barrier: threads would wait at other iterations than before"
                raise NestError(line_of(node), f"`{text}`{by}", expected)
