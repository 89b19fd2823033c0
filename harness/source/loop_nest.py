"""Read the loops of a perfect nest, and check that the order of their iterations can change.

Each loop counts up by a fixed step; nothing leaves the nest or moves its bounds. Whether the
iterations depend on one another is not decided here: every result is verified.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass

from harness.source.preprocessor import WORD, Scan, expanded, spaced
from harness.source.syntax_tree import Node, ancestors, captured, line_of, matches, text_of

LOOP = "a loop such as `for (int i = 0; i < n; i++)`"
INTEGERS = frozenset((
    "int", "short", "long", "char", "signed", "unsigned", "uint", "ulong", "ushort", "uchar",
    "size_t", "ptrdiff_t", "ssize_t", "intptr_t", "uintptr_t",
    *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
))  # fmt: skip
Span = tuple[int, int]
"""The offsets where a part of the source begins and ends."""

_SHOWN_CHARACTERS = 60
_COUNTING = """
(for_statement
  initializer: (declaration . type: (_) @type . declarator: (init_declarator
    declarator: (identifier) @variable value: (_) @first) .)
  condition: (binary_expression left: (identifier) @tested operator: ["<" "<="] @sign
    right: (_) @last) @condition
  update: [
    (update_expression argument: (identifier) @stepped operator: "++")
    (update_expression operator: "++" argument: (identifier) @stepped)
    (assignment_expression left: (identifier) @stepped operator: "+=" right: (_) @step)
    (assignment_expression left: (identifier) @stepped operator: "="
      right: (binary_expression left: (identifier) @added operator: "+" right: (_) @step))]
  body: (_) @body
  (#eq? @tested @variable) (#eq? @stepped @variable))
"""

_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop", "switch_statement")
_CHANGES = """
[(return_statement) (goto_statement) (co_return_statement) (throw_statement)] @leaves
(break_statement) @breaks
[(identifier) (field_identifier)] @named
[(assignment_expression left: (_) @written)
 (update_expression argument: (_) @written)
 (pointer_expression operator: "&" argument: (_) @written)
 (init_declarator declarator: (reference_declarator) value: (_) @written)
 (gnu_asm_output_operand value: (_) @written)]
"""
_FUNCTIONS = """
(function_definition declarator: (function_declarator declarator: (identifier) @name)
  body: (_) @body)
"""
_PURE_FUNCTIONS = frozenset((
    "min", "max", "get_global_id", "get_local_id", "get_group_id", "get_global_size",
    "get_local_size", "get_num_groups", "get_global_offset", "sizeof", "defined",
))  # fmt: skip
_CALLED = re.compile(r"\b([A-Za-z_]\w*) ?\(")
_IMPURE = re.compile(r"->|\[|\+ ?\+|- ?-|(?<![=!<>])=(?! ?=)|(?:^|[-+*/%<>=&|!~?:(,]) ?\*")
_REAL = re.compile(
    r"(?<![\w.])(?!0[xX])(?:\d+\.\d*|\.\d+|\d+[eE][-+]?\d+|\d+[fF]\b)|\b(?:float|double|half)\b"
)
_BARRIER = re.compile(
    r"\b(barrier|work_group_barrier|sub_group_barrier|wait_group_events|__sync\w+|__barrier_sync\w*"
    r"|(?<=\.)sync|(?<=\.)arrive_and_wait)\b"
)
_JUMP = re.compile(r"\b(break|goto|return)\b")
_EVERY = "that every iteration runs: nothing leaves a tiled loop"


class NestError(Exception):
    """The loops below a pragma cannot be tiled; `line` is the line of what was found there."""

    def __init__(self, line: int, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.line = line


@dataclass(frozen=True)
class CountingLoop:
    """A loop `for (TYPE_NAME VARIABLE = FIRST; VARIABLE SIGN LAST; VARIABLE += STEP)`.

    `sign` is `<` or `<=`, `step` a positive number or the name of a macro.
    """

    line: int
    type_name: str
    variable: str
    first: str
    sign: str
    last: str
    step: str
    first_span: Span
    condition_span: Span


def quoted(node: Node) -> str:
    """Quote the text of a node, cut where it is long."""
    text = text_of(node)
    return f"`{text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + ' ...'}`"


def perfect_nest(
    top: Node, variables: Set[str], scan: Scan, macros: Mapping[str, Sequence[str]]
) -> tuple[tuple[CountingLoop, ...], Node]:
    """Read the loops from this one to the innermost over one of the variables, and its body.

    Raises NestError for a loop that does not count up by a fixed step, and where anything but the
    next loop is in a loop's body.
    """
    loops: dict[str, CountingLoop] = {}
    body = top
    while missing := sorted(variables - loops.keys()):
        inside = [body]
        while len(inside) == 1 and inside[0].type == "compound_statement":
            inside = inside[0].named_children
        counting = _counting_loop(inside[0], scan, macros) if len(inside) == 1 else None
        if counting is None or counting[0].variable in loops:
            wrong = next((s for s in inside if s.type != "for_statement"), [body, *inside][-1])
            expected = f"only {LOOP} up to the loop over `{missing[0]}`, each with an integer type "
            expected += "and a name of its own, `<` or `<=`, and a positive number as the step"
            raise NestError(line_of(wrong), quoted(wrong), expected)
        loops[counting[0].variable], body = counting
    return tuple(loops.values()), body


def _counting_loop(
    node: Node, scan: Scan, macros: Mapping[str, Sequence[str]]
) -> tuple[CountingLoop, Node] | None:
    """Return a loop and its body; None for any other statement."""
    parts = next(iter(matches(_COUNTING, node, only_root=True)), None)
    if parts is None:
        return None
    text = {name: text_of(part) for name, part in parts.items()}
    step, variable = text.get("step", "1"), text["variable"]
    is_step = all(re.fullmatch("[1-9][0-9]*", value) for value in macros.get(step, [step]))
    is_whole = INTEGERS.issuperset(text["type"].split())
    if not (is_step and is_whole and text.get("added", variable) == variable):
        return None
    first, last = (_bound(parts[name], scan, macros) for name in ("first", "last"))
    spans = [(parts[name].start_byte, parts[name].end_byte) for name in ("first", "condition")]
    loop = CountingLoop(
        line_of(node), text["type"], variable, first, text["sign"], last, step, *spans
    )
    return loop, parts["body"]


def _bound(node: Node, scan: Scan, macros: Container[str]) -> str:
    """Return a bound as one line without comments, in brackets unless it is one word that is no
    macro."""
    tokens = [t for t in scan.code if node.start_byte <= t.start < node.end_byte]
    is_plain = len(tokens) == 1 and tokens[0].text not in macros
    return tokens[0].text if is_plain else f"({spaced(tokens)})"


def check_bounds(
    loops: Sequence[CountingLoop], tiled: Set[str], around: str, macros: Mapping[str, Sequence[str]]
) -> set[str]:
    """Check the bounds of a nest, and return the names that they depend on.

    `tiled` are the variables of its tiled loops, `around` the text of the function around it.
    Raises NestError with the first obstacle, as `check_body` does.
    """
    variables = {loop.variable for loop in loops}
    names = set(variables)
    bounds = [(loop, bound) for loop in loops for bound in (loop.first, loop.last)]
    for loop, bound in bounds:
        text = expanded(bound, macros)
        words = set(WORD.findall(text))
        called = {*_CALLED.findall(text)} - macros.keys() - _PURE_FUNCTIONS - INTEGERS
        expected = ""
        if _IMPURE.search(text) or called:
            expected = "names, numbers and arithmetic; copy other values to a variable before"
        elif _REAL.search(text) or any(
            re.search(rf"\b(?:float|double|half) {word}\b", around) for word in words
        ):
            expected = "a whole number"
        elif loop.variable in tiled and words & variables:
            expected = f"a bound that does not depend on `{min(words & variables)}` of the nest"
        if expected:
            bad = f"the bound `{bound}` of the loop over `{loop.variable}`"
            raise NestError(loop.line, bad, expected)
        names |= words
    return names


def check_body(
    body: Node, fixed: Set[str], macros: Mapping[str, Sequence[str]], trees: Sequence[Node]
) -> None:
    """Check that nothing in a nest's body leaves the loops, writes to `fixed` names or waits.

    `trees` are those of the source and its included files, in which functions are defined.
    """
    reached = dict(macros)
    for parts in (p for root in trees for p in matches(_FUNCTIONS, root)):
        name = text_of(parts["name"])
        reached[name] = [*reached.get(name, ()), text_of(parts["body"])]
    for kind, node in captured(_CHANGES, body):
        text = text_of(node)
        left = next((n for n in ancestors(node) if n.type in _LOOPS), body)
        if kind == "leaves" or (kind == "breaks" and left.start_byte < body.start_byte):
            raise NestError(line_of(node), quoted(node), _EVERY)
        if kind == "written" and _base(node) in fixed:
            bad = f"{quoted(node.parent or node)}, which may change `{_base(node)}`"
            raise NestError(line_of(node), bad, "variables and bounds that the loops alone set")
        if kind != "named":
            continue
        if text in macros and (jump := _JUMP.search(expanded(text, macros))):
            raise NestError(
                line_of(node), f"the macro `{text}`, which contains `{jump[1]}`", _EVERY
            )
        method = f".{text}" if node.type == "field_identifier" else expanded(text, reached)
        if barrier := _BARRIER.search(method):
            by = "" if barrier[1] == text else f", which reaches `{barrier[1]}`"
            expected = "no barrier: threads would wait at other iterations than before"
            raise NestError(line_of(node), f"`{text}`{by}", expected)


def _base(target: Node) -> str:
    """Return the variable that is written to, and nothing for an element of an array."""
    while target.type in ("parenthesized_expression", "field_expression"):
        target = target.named_children[0]
    return text_of(target) if target.type == "identifier" else ""
