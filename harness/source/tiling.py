"""Tile the loops below `#pragma tile`: run a nest tile by tile, so that data stay in a cache.

    #pragma tile i:TI, j:TJ
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) ...

becomes loops over the tiles, in the order of the pragma, around the same nest for one tile
(M. Wolfe, "More iteration space tiling", 1989). A loop whose size is 0 or 1 is not tiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import Fault, SpecError
from harness.core.records import Value
from harness.core.text import escaped
from harness.source.loop_nest import (
    LOOP,
    CountingLoop,
    NestError,
    Span,
    check_body,
    check_bounds,
    perfect_nest,
)
from harness.source.parser_text import prepare
from harness.source.pragmas import TILE, is_ours, read_pragma
from harness.source.preprocessor import WORD, Directive, macros_of
from harness.source.syntax_tree import Node, ancestors, line_of, parsed, text_of, walk


@dataclass(frozen=True)
class TiledLoop:
    """A loop to be tiled: `size` is the parameter, `tile` the name of the variable over tiles."""

    loop: CountingLoop
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
    loops: tuple[TiledLoop, ...]

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
    for pragma in reader.directives:
        if not (is_ours(pragma) and pragma.word == TILE):
            continue
        try:
            nests.append(reader.read(pragma))
        except NestError as error:
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
        texts = [prepare(source, path.suffix) for source in (text, *includes)]
        self._text, self._scan = texts[0].text, texts[0].scan
        self.directives = self._scan.directives
        self._trees = list(map(parsed, texts))
        self._macros = macros_of(d for prepared in texts for d in prepared.scan.directives)
        self._names = {word for source in (text, *includes) for word in WORD.findall(source)}
        self._tiled: dict[Span, int] = {}  # the lines of pragmas by the conditions of their loops

    def read(self, pragma: Directive) -> TiledNest:
        """Read the nest of a pragma.

        Raises ValueError for its operands, NestError for the loops below it.
        """
        sizes = dict(read_pragma(pragma).tiles)
        top = self._loop_below(pragma)
        loops, body = perfect_nest(top, sizes.keys(), self._scan, self._macros)
        self._check_directives(pragma, top, body)
        functions = (n for n in ancestors(top) if n.type == "function_definition")
        fixed = check_bounds(loops, sizes.keys(), text_of(next(functions, None)), self._macros)
        check_body(body, fixed, self._macros, self._trees)
        by_variable = {loop.variable: loop for loop in loops}
        for span in (by_variable[variable].condition_span for variable in sizes):
            if (line := self._tiled.setdefault(span, pragma.line)) != pragma.line:
                raise NestError(
                    pragma.line, f"a loop that line {line} tiles", "each loop in one pragma"
                )
        tiled = (TiledLoop(by_variable[v], size, self._free(v)) for v, size in sizes.items())
        return TiledNest(pragma.line, pragma.start, top.end_byte, tuple(tiled))

    def _loop_below(self, pragma: Directive) -> Node:
        after = self._text[pragma.end :]
        start = pragma.end + len(after) - len(after.lstrip())
        word = self._trees[0].descendant_for_byte_range(start, start + 1)
        if word is None or word.parent is None or word.parent.type != "for_statement":
            first = after.split(maxsplit=1)[:1]
            line = self._text.count(b"\n", 0, start) + 1
            raise NestError(line, f"`{first[0].decode()}`" if first else "nothing", f"{LOOP} below")
        for node in walk(word.parent):
            if node.is_error or node.is_missing:
                raise NestError(line_of(node), "text that is not read as C or C++", LOOP)
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
            raise NestError(wrong[0].line, f"`#{wrong[0].name} {wrong[0].text}`", expected)

    def _free(self, variable: str) -> str:
        """Return a name for a loop over tiles that the source does not have."""
        tile = f"harness_{variable}"
        while {tile, f"{tile}_end"} & self._names:
            tile += "_"
        return tile
