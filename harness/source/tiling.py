"""Tile the loops below `#pragma tile`: run a nest tile by tile, so that data stay in a cache.

    #pragma tile i:TI, j:TJ
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) ...

becomes loops over the tiles, in the order of the pragma, around the same nest for one tile
(M. Wolfe, "More iteration space tiling", 1989). A loop whose size is 0 or 1 is not tiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import Fault, SpecError
from harness.core.records import Value
from harness.core.text import escaped
from harness.source.definitions import WORD, definitions_of
from harness.source.loop_nest import CANONICAL, CountingLoop, NestError, perfect_nest
from harness.source.nest_order import check_order
from harness.source.parser_text import prepare
from harness.source.pragmas import TILE, UNROLLS, Pragma, is_ours, is_unroll, number, read_pragma
from harness.source.preprocessor import Directive, spaced
from harness.source.syntax_tree import Node, line_of, parsed, walk

_IFS = ("if", "ifdef", "ifndef")
Edit = tuple[int, int, str]
"""Where the replaced text begins and ends, and the new text."""


@dataclass(frozen=True)
class TiledLoop:
    """A loop to be tiled: `size` is the parameter, `tile` the name of the variable over tiles.

    `first_span` and `condition_span` are the offsets of its first value and of its condition.
    """

    size: str
    variable: str
    tile: str
    kind: str
    first: str
    last: str
    is_inclusive: bool
    step: str
    first_span: tuple[int, int]
    condition_span: tuple[int, int]

    def head(self, iterations: int) -> str:
        """Return the loop over tiles of so many iterations, up to its body.

        The end of a tile is computed from what is left, so that nothing overflows. `iterations`
        must be at least 2.
        """
        tile, end, last = self.tile, f"{self.tile}_end", self.last
        is_number = self.step.isdecimal()
        span = f"{iterations * int(self.step)}" if is_number else f"({iterations} * {self.step})"
        sign, more, rest = ("<=", ">=", f"{last} + 1") if self.is_inclusive else ("<", ">", last)
        return (
            f"for ({self.kind} {tile} = {self.first}, {end}; {tile} {sign} {last}; {tile} = {end}) "
            f"{{ {end} = {last} - {tile} {more} {span} ? {tile} + {span} : {rest}; "
        )


@dataclass(frozen=True)
class TiledNest:
    """The nest below a pragma: the loops to be tiled, in the pragma's order, and where it ends."""

    line: int
    start: int
    end: int
    loops: tuple[TiledLoop, ...]

    def head(self, macros: Mapping[str, Value]) -> str:
        """Return the loops over tiles, which stand where the pragma was."""
        return "".join(loop.head(size) for loop, size in self._tiled(macros)).rstrip()

    def edits(self, text: str, macros: Mapping[str, Value]) -> Iterator[Edit]:
        """Yield the changes below the pragma; each keeps the number of its lines."""
        for loop, _ in self._tiled(macros):
            condition = f"{loop.variable} < {loop.tile}_end"
            for span, new in ((loop.first_span, loop.tile), (loop.condition_span, condition)):
                yield *span, new + "\n" * text.count("\n", *span)
            yield self.end, self.end, " }"

    def _tiled(self, macros: Mapping[str, Value]) -> Iterator[tuple[TiledLoop, int]]:
        for loop in self.loops:
            size = macros.get(loop.size)
            if isinstance(size, int) and size > 1:
                yield loop, size


def read_nests(path: Path, text: str, includes: Iterable[str]) -> tuple[TiledNest, ...]:
    """Read the nest below each `tile` pragma of a source; raise SpecError with every fault."""
    reader = _NestReader(path, text, includes)
    nests: list[TiledNest] = []
    faults: list[Fault] = []
    for index in range(len(reader.directives)):
        try:
            nests += reader.read(index)
        except NestError as error:
            pragma = reader.directives[index]
            where = f"`#pragma {pragma.text}` on line {pragma.line} cannot be carried out"
            faults.append(Fault(str(path), error.line, escaped(f"{where}: {error}")))
        except ValueError as error:
            pragma = reader.directives[index]
            text = f"`#pragma {pragma.text}`: {error}"
            faults.append(Fault(str(path), pragma.line, escaped(text)))
    if faults:
        raise SpecError(faults)
    return tuple(nests)


class _NestReader:
    """Reads the nests of one source."""

    def __init__(self, path: Path, text: str, includes: Iterable[str]) -> None:
        self._prepared = prepare(text, path.suffix)
        self.directives = self._prepared.scan.directives
        self._root = parsed(self._prepared)
        included = [prepare(other, path.suffix) for other in includes]
        self._known = definitions_of([self._prepared, *included])
        self._constants = {name for name, value in self._known.macros.items() if _is_step(value)}
        self._names = {w for t in (text, *includes) for w in WORD.findall(t)}
        self._tiled: dict[int, int] = {}  # the lines of pragmas by the offsets of their loops

    def read(self, index: int) -> Iterator[TiledNest]:
        """Yield the nest of a directive, if it is a `tile`.

        Raises ValueError for its operands, NestError for the loops below it.
        """
        directive = self.directives[index]
        if not (is_ours(directive) and directive.word == TILE):
            return
        pragma = read_pragma(directive)
        self._check_above(index)
        top = self._loop_below(directive)
        if top.has_error:
            bad = next(n for n in walk(top) if n.is_error or n.is_missing)
            raise NestError(line_of(bad), "text that is not read as C or C++", CANONICAL)
        loops = perfect_nest(top, {name for name, _ in pragma.tiles}, self._constants)
        self._check_directives(directive, loops)
        check_order(loops, {name for name, _ in pragma.tiles}, self._known)
        by_variable = {loop.variable: loop for loop in loops}
        tiled = tuple(self._tiled_loop(by_variable[v], size, pragma) for v, size in pragma.tiles)
        yield TiledNest(directive.line, directive.start, top.end_byte, tiled)

    def _loop_below(self, directive: Directive) -> Node:
        after = self._prepared.text[directive.end :]
        start = directive.end + len(after) - len(after.lstrip())
        # The outermost of the nodes that begin here.
        for node in walk(self._root):
            if node.start_byte == start and node.type.endswith(("_statement", "_loop")):
                if node.type != "for_statement":
                    break
                return node
        line = self._prepared.text.count(b"\n", 0, start) + 1
        words = self._prepared.text[start : start + 30].decode().split()
        raise NestError(line, f"`{words[0]}`" if words else "nothing", f"{CANONICAL} below it")

    def _check_above(self, index: int) -> None:
        """Check that no pragma for the loop stands above this one: the loop over tiles is first."""
        while self.directives[index].adjoins and index > 0:
            index -= 1
            above = self.directives[index]
            is_loops = is_unroll(above) or above.word in UNROLLS or not is_ours(above)
            if above.name == "pragma" and is_loops:
                expected = "the pragmas of the loop itself below `#pragma tile`"
                raise NestError(above.line, f"{_shown(above)} above it", expected)

    def _check_directives(self, pragma: Directive, loops: Sequence[CountingLoop]) -> None:
        """Check that the heads are compiled in every case, and that the body ends in every case."""
        opened: list[Directive] = []
        for directive in self.directives:
            if not pragma.start < directive.start < loops[0].node.end_byte:
                continue
            if directive.start < loops[-1].body.start_byte and directive.name != "pragma":
                expected = "no preprocessor line but pragmas up to the body of the innermost loop"
                raise NestError(directive.line, _shown(directive), expected)
            if directive.name in _IFS:
                opened.append(directive)
            elif directive.name == "endif" and opened:
                opened.pop()
        if opened:
            expected = "its `#endif` in the same body, which braces may surround"
            raise NestError(opened[0].line, _shown(opened[0]), expected)

    def _tiled_loop(self, loop: CountingLoop, size: str, pragma: Pragma) -> TiledLoop:
        start = loop.node.start_byte
        if start in self._tiled:
            found = f"the loop over `{loop.variable}`, which line {self._tiled[start]} tiles"
            raise NestError(pragma.line, found, "each loop in one pragma")
        self._tiled[start] = pragma.line
        tile = f"harness_{loop.variable}"
        while {tile, f"{tile}_end"} & self._names:
            tile += "_"
        return TiledLoop(
            size,
            loop.variable,
            tile,
            loop.kind,
            self._text(loop.first),
            self._text(loop.last),
            loop.is_inclusive,
            loop.step,
            (loop.first.start_byte, loop.first.end_byte),
            (loop.condition.start_byte, loop.condition.end_byte),
        )

    def _text(self, bound: Node) -> str:
        """Return a bound as one line without comments, in brackets unless it is one word that is
        no macro."""
        inside = range(bound.start_byte, bound.end_byte)
        tokens = [t for t in self._prepared.scan.code if t.start in inside]
        is_plain = len(tokens) == 1 and tokens[0].text not in self._known.macros
        return tokens[0].text if is_plain else f"({spaced(tokens)})"


def _shown(directive: Directive) -> str:
    return f"`#{directive.name} {directive.text}`"


def _is_step(text: str) -> bool:
    """Whether a macro is a positive whole number, in each of its definitions."""
    values = [number(line) for line in text.split("\n")]
    return all(isinstance(value, int) and value > 0 for value in values)
