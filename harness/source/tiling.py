"""Tile the loops below `#pragma tile`: run a nest tile by tile, so that data stay in a cache.

    #pragma tile i:TI, j:TJ
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) ...

becomes loops over the tiles, in the order of the pragma, around the same nest for one tile
(M. Wolfe, "More iteration space tiling", 1989). A loop whose size is 0 or 1 is not tiled.

Each loop counts up by a fixed step; nothing leaves the nest or moves its bounds. Whether the
iterations depend on one another is not decided here: every result is verified.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import Fault, SpecError
from harness.core.records import Value
from harness.core.text import escaped
from harness.source.pragmas import TILE, is_ours, read_pragma
from harness.source.preprocessor import WORD, Directive, expanded, macros_of, scan, spaced
from harness.source.syntax_tree import Node, ancestors, captured, line_of, matches, prepare, text_of

_LOOP = "a loop such as `for (int i = 0; i < n; i++)`"
_INTEGERS = frozenset((
    "int", "short", "long", "char", "signed", "unsigned", "uint", "ulong", "ushort", "uchar",
    "size_t", "ptrdiff_t", "ssize_t", "intptr_t", "uintptr_t",
    *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
))  # fmt: skip
_Span = tuple[int, int]
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

_UNREADABLE = "[(ERROR) (MISSING)] @unreadable"
_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop", "switch_statement")
_CHANGES = """
[(return_statement) (goto_statement) (co_return_statement) (throw_statement)] @leaves
(break_statement) @breaks
(identifier) @named
[(assignment_expression left: (_) @written)
 (update_expression argument: (_) @written)
 (pointer_expression operator: "&" argument: (_) @written)
 (init_declarator declarator: (reference_declarator) value: (_) @written)
 (gnu_asm_output_operand value: (_) @written)]
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
_JUMP = re.compile(r"\b(break|goto|return)\b")
_EVERY = "that every iteration runs: nothing leaves a tiled loop"


class _NestError(Exception):
    """The loops below a pragma cannot be tiled; `line` is the line of what was found there."""

    def __init__(self, place: Node | int, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.line = place if isinstance(place, int) else line_of(place)


@dataclass(frozen=True)
class _CountingLoop:
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
    first_span: _Span
    condition_span: _Span


@dataclass(frozen=True)
class _TiledLoop:
    """A loop to be tiled: `size` is the parameter, `tile` the name of the variable over tiles."""

    loop: _CountingLoop
    size: str
    tile: str

    def head(self, iterations: int) -> str:
        """Return the loop over tiles of so many iterations, up to its body.

        The end of a tile is computed from what is left, so that nothing overflows. `iterations`
        must be at least 2.
        """
        loop, tile, end, last = self.loop, self.tile, f"{self.tile}_end", self.loop.last
        is_number = loop.step.isdecimal()
        span = f"{iterations * int(loop.step)}" if is_number else f"({iterations} * {loop.step})"
        more, rest = (">=", f"{last} + 1") if loop.sign == "<=" else (">", last)
        return (
            f"for ({loop.type_name} {tile} = {loop.first}, {end}; {tile} {loop.sign} {last}; "
            f"{tile} = {end}) {{ {end} = {last} - {tile} {more} {span} ? {tile} + {span} : {rest}; "
        )


@dataclass(frozen=True)
class TiledNest:
    """The nest below a pragma: the loops to be tiled, in the pragma's order, and where it ends."""

    line: int
    start: int
    end: int
    loops: tuple[_TiledLoop, ...]

    def head(self, macros: Mapping[str, Value]) -> str:
        """Return the loops over tiles, which stand where the pragma was."""
        return "".join(loop.head(size) for loop, size in self._tiled(macros)).rstrip()

    def edits(self, text: str, macros: Mapping[str, Value]) -> Iterator[tuple[int, int, str]]:
        """Yield the changes below the pragma; each keeps the number of its lines."""
        for tiled, _ in self._tiled(macros):
            condition = f"{tiled.loop.variable} < {tiled.tile}_end"
            spans = (tiled.loop.first_span, tiled.loop.condition_span)
            for span, new in zip(spans, (tiled.tile, condition), strict=True):
                yield *span, new + "\n" * text.count("\n", *span)
            yield self.end, self.end, " }"

    def _tiled(self, macros: Mapping[str, Value]) -> Iterator[tuple[_TiledLoop, int]]:
        for loop in self.loops:
            size = macros.get(loop.size)
            if isinstance(size, int) and size > 1:
                yield loop, size


def read_nests(path: Path, text: str, includes: Iterable[str]) -> tuple[TiledNest, ...]:
    """Read the nest below each `tile` pragma of a source; raise SpecError with every fault."""
    reader = _NestReader(path, text, includes)
    nests: list[TiledNest] = []
    faults: list[Fault] = []
    for pragma in reader.directives:
        if not (is_ours(pragma) and pragma.word == TILE):
            continue
        try:
            nests.append(reader.read(pragma))
        except _NestError as error:
            where = f"`#pragma {pragma.text}` on line {pragma.line} cannot be carried out"
            faults.append(Fault(str(path), error.line, escaped(f"{where}: {error}")))
        except ValueError as error:
            faults.append(
                Fault(str(path), pragma.line, escaped(f"`#pragma {pragma.text}`: {error}"))
            )
    if faults:
        raise SpecError(faults)
    return tuple(nests)


class _NestReader:
    """Reads the nests of one source."""

    def __init__(self, path: Path, text: str, includes: Iterable[str]) -> None:
        prepared, included = prepare(text, path.suffix), list(map(scan, includes))
        self._text, self._scan, self._tree = prepared.text, prepared.scan, prepared.parsed()
        self.directives = self._scan.directives
        self._macros = macros_of(d for s in (self._scan, *included) for d in s.directives)
        self._names = {word for source in (text, *includes) for word in WORD.findall(source)}
        self._tiled: dict[_Span, int] = {}  # the lines of pragmas by the conditions of their loops

    def read(self, pragma: Directive) -> TiledNest:
        """Read the nest of a pragma.

        Raises ValueError for its operands, _NestError for the loops below it.
        """
        sizes = dict(read_pragma(pragma).tiles)
        top = self._loop_below(pragma)
        loops, body = self._perfect_nest(top, sizes.keys())
        self._check_directives(pragma, top, body)
        functions = (n for n in ancestors(top) if n.type == "function_definition")
        fixed = self._check_bounds(loops, sizes.keys(), text_of(next(functions, None)))
        self._check_body(body, fixed)
        by_variable = {loop.variable: loop for loop in loops}
        for span in (by_variable[variable].condition_span for variable in sizes):
            if (line := self._tiled.setdefault(span, pragma.line)) != pragma.line:
                bad = f"a loop that line {line} tiles"
                raise _NestError(pragma.line, bad, "each loop in one pragma")
        tiled = (_TiledLoop(by_variable[v], size, self._free(v)) for v, size in sizes.items())
        return TiledNest(pragma.line, pragma.start, top.end_byte, tuple(tiled))

    def _loop_below(self, pragma: Directive) -> Node:
        after = self._text[pragma.end :]
        start = pragma.end + len(after) - len(after.lstrip())
        word = self._tree.descendant_for_byte_range(start, start + 1)
        if word is None or word.parent is None or word.parent.type != "for_statement":
            first = after.split(maxsplit=1)[:1]
            line = self._text.count(b"\n", 0, start) + 1
            found = f"`{first[0].decode()}`" if first else "nothing"
            raise _NestError(line, found, f"{_LOOP} below")
        for _, node in captured(_UNREADABLE, word.parent):
            raise _NestError(node, "text that is not read as C or C++", _LOOP)
        return word.parent

    def _check_directives(self, pragma: Directive, top: Node, body: Node) -> None:
        """Check that the heads are compiled in every case, and that the body ends in every case."""
        inside = [d for d in self.directives if pragma.start < d.start < top.end_byte]
        heads = [d for d in inside if d.start < body.start_byte and d.name != "pragma"]
        conditions = [d for d in inside if d.name in ("if", "ifdef", "ifndef", "endif")]
        is_open = len(conditions) != 2 * sum(d.name == "endif" for d in conditions)
        if wrong := heads or conditions * is_open:
            expected = "no preprocessor line but pragmas up to the body of the innermost loop, "
            expected += "and the `#endif` of each `#if` in the same body, which braces may surround"
            raise _NestError(wrong[0].line, f"`#{wrong[0].name} {wrong[0].text}`", expected)

    def _free(self, variable: str) -> str:
        """Return a name for a loop over tiles that the source does not have."""
        tile = f"harness_{variable}"
        while {tile, f"{tile}_end"} & self._names:
            tile += "_"
        return tile

    def _perfect_nest(
        self, top: Node, variables: Set[str]
    ) -> tuple[tuple[_CountingLoop, ...], Node]:
        """Read the loops from this one to the innermost over one of the variables, and its body.

        Raises _NestError for a loop that does not count up by a fixed step, and where anything but
        the next loop is in a loop's body.
        """
        loops: dict[str, _CountingLoop] = {}
        body = top
        while missing := sorted(variables - loops.keys()):
            inside = [body]
            while len(inside) == 1 and inside[0].type == "compound_statement":
                inside = inside[0].named_children
            counting = self._counting_loop(inside[0]) if len(inside) == 1 else None
            if counting is None or counting[0].variable in loops:
                wrong = next((s for s in inside if s.type != "for_statement"), [body, *inside][-1])
                expected = f"only {_LOOP} up to the loop over `{missing[0]}`, each with an integer "
                expected += "type and a name of its own, `<` or `<=`, and a positive number as step"
                raise _NestError(wrong, _quoted(wrong), expected)
            loops[counting[0].variable], body = counting
        return tuple(loops.values()), body

    def _counting_loop(self, node: Node) -> tuple[_CountingLoop, Node] | None:
        """Return a loop and its body; None for any other statement."""
        parts = next(iter(matches(_COUNTING, node, only_root=True)), None)
        if parts is None:
            return None
        text = {name: text_of(part) for name, part in parts.items()}
        step, variable = text.get("step", "1"), text["variable"]
        steps = self._macros.get(step, [step])
        is_step = all(re.fullmatch("[1-9][0-9]*", value) for value in steps)
        is_whole = _INTEGERS.issuperset(text["type"].split())
        if not (is_step and is_whole and text.get("added", variable) == variable):
            return None
        first, last = (self._bound(parts[name]) for name in ("first", "last"))
        spans = [(parts[name].start_byte, parts[name].end_byte) for name in ("first", "condition")]
        loop = _CountingLoop(
            line_of(node), text["type"], variable, first, text["sign"], last, step, *spans
        )
        return loop, parts["body"]

    def _bound(self, node: Node) -> str:
        """Return a bound as one line without comments, in brackets unless it is one word that is no
        macro."""
        tokens = [t for t in self._scan.code if node.start_byte <= t.start < node.end_byte]
        is_plain = len(tokens) == 1 and tokens[0].text not in self._macros
        return tokens[0].text if is_plain else f"({spaced(tokens)})"

    def _check_bounds(
        self, loops: Sequence[_CountingLoop], tiled: Set[str], around: str
    ) -> set[str]:
        """Check the bounds of a nest, and return the names that they depend on.

        `tiled` are the variables of its tiled loops, `around` the text of the function around it.
        Raises _NestError with the first obstacle, as `_check_body` does.
        """
        variables = {loop.variable for loop in loops}
        names = set(variables)
        bounds = [(loop, bound) for loop in loops for bound in (loop.first, loop.last)]
        for loop, bound in bounds:
            text = expanded(bound, self._macros)
            words = set(WORD.findall(text))
            called = {*_CALLED.findall(text)} - self._macros.keys() - _PURE_FUNCTIONS - _INTEGERS
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
                raise _NestError(loop.line, bad, expected)
            names |= words
        return names

    def _check_body(self, body: Node, fixed: Set[str]) -> None:
        """Check that nothing in a nest's body leaves the loops or writes to `fixed` names."""
        for kind, node in captured(_CHANGES, body):
            text = text_of(node)
            left = next((n for n in ancestors(node) if n.type in _LOOPS), body)
            if kind == "leaves" or (kind == "breaks" and left.start_byte < body.start_byte):
                raise _NestError(node, _quoted(node), _EVERY)
            if kind == "written" and _base(node) in fixed:
                bad = f"{_quoted(node.parent or node)}, which may change `{_base(node)}`"
                raise _NestError(node, bad, "variables and bounds that the loops alone set")
            if text in self._macros and (jump := _JUMP.search(expanded(text, self._macros))):
                bad = f"the macro `{text}`, which contains `{jump[1]}`"
                raise _NestError(node, bad, _EVERY)


def _quoted(node: Node) -> str:
    """Quote the text of a node, cut where it is long."""
    text = text_of(node)
    return f"`{text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + ' ...'}`"


def _base(target: Node) -> str:
    """Return the variable that is written to, and nothing for an element of an array."""
    while target.type in ("parenthesized_expression", "field_expression"):
        target = target.named_children[0]
    return text_of(target) if target.type == "identifier" else ""
