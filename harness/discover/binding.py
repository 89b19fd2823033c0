"""Pragmas -> parameters: bind each pragma to the `#define` or the loop below it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.core.errors import Fault, SpecError
from harness.core.records import Value
from harness.core.text import escaped
from harness.discover.scope import KernelScope
from harness.source.pragmas import (
    TILE,
    UNROLLS,
    Pragma,
    is_ours,
    is_unroll,
    number,
    read_pragma,
    tile_sizes,
    typing_error,
    unroll_factor,
    unroll_names,
)
from harness.source.preprocessor import Directive, Scan, macros_of, spaced

_SHOWN_VALUES = 8
_LAUNCH_PARTS = {
    "block", "blk", "blksz", "blocksize", "blockdim", "bdim", "thread", "threads", "thrd",
    "nthreads", "tile", "group", "workgroup", "wg", "wgs", "lws",
}  # fmt: skip


@dataclass(frozen=True)
class DeclaredParameter:
    """A parameter that a pragma declares, with the source's default and a role."""

    name: str
    pragma: Pragma
    default: Value
    role: str

    @property
    def role_is_guess(self) -> bool:
        """Return whether the role was guessed from the name."""
        return self.pragma.role is None and self.pragma.kind not in ("select", *UNROLLS)


@dataclass(frozen=True)
class Declared:
    """The parameters and constraints in a source's pragmas.

    `left_out` are the parameters of other kernels in the file.
    """

    tuned: tuple[DeclaredParameter, ...]
    constraints: tuple[Pragma, ...]
    left_out: tuple[DeclaredParameter, ...]


def read_pragmas(path: str, scan: Scan, scope: KernelScope) -> Declared:
    """Read and bind every pragma of ours; raise SpecError with all faults of the file."""
    reader = _PragmaReader(path, scan)
    for index, directive in enumerate(scan.directives):
        reader.read(index, directive)
    reader.check_tiles()
    if reader.faults:
        raise SpecError(reader.faults)
    tuned: dict[str, DeclaredParameter] = {}
    for offset, found in reader.bound:
        is_loop = found.pragma.kind in UNROLLS
        if scope.holds(offset) if is_loop else found.name not in scope.foreign:
            tuned.setdefault(found.name, found)
    left_out = (t for name, t in reader.tuned.items() if name not in tuned)
    return Declared(tuple(tuned.values()), tuple(reader.constraints), tuple(left_out))


def guessed_role(name: str) -> str:
    """Guess a role from a name: sizes of blocks and tiles are launch, all others source."""
    parts = [p.lower().rstrip("0123456789") for p in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)]
    is_size = parts[-1] in ("x", "y", "z") or any(
        part in _LAUNCH_PARTS or part.endswith(("block", "threads")) for part in parts
    )
    return "launch" if is_size else "source"


def constants_of(directives: Sequence[Directive]) -> dict[str, int]:
    """Return the macros that are defined exactly once, as an integer."""
    once = {name: number(t[0]) for name, t in macros_of(directives).items() if len(t) == 1}
    return {name: value for name, value in once.items() if isinstance(value, int)}


class _PragmaError(Exception):
    """The fault of the pragma that is being read."""


class _PragmaReader:
    """Collect the parameters, constraints and faults of all pragmas."""

    def __init__(self, path: str, scan: Scan) -> None:
        self.tuned: dict[str, DeclaredParameter] = {}
        self.bound: list[tuple[int, DeclaredParameter]] = []
        self.constraints: list[Pragma] = []
        self.faults: list[Fault] = []
        self._tiles: list[Pragma] = []
        self._path = path
        self._directives = scan.directives
        self._code = {token.start: token.text for token in scan.code}
        self._words = {token.text for token in scan.code}
        self._constants = constants_of(scan.directives)
        self._unrolls = unroll_names(scan.directives)
        self._sizes = frozenset[str]().union(*map(tile_sizes, scan.directives))

    def read(self, index: int, directive: Directive) -> None:
        """Read one preprocessor line; ignore it unless it is a pragma of ours."""
        if text := typing_error(directive):
            self._fault(directive.line, text)
        if not is_ours(directive):
            return
        try:
            pragma = read_pragma(directive)
            if pragma.kind == "constraint":
                self.constraints.append(pragma)
            elif pragma.kind == TILE:
                self._tiles.append(pragma)
            elif pragma.kind in UNROLLS:
                self._add(directive.start, self._above_loop(index, pragma))
            else:
                self._add(directive.start, self._above_define(index, pragma))
        except (ValueError, _PragmaError) as error:
            self._fault(directive.line, f"`#pragma {escaped(directive.text)}`: {error}")

    def check_tiles(self) -> None:
        """Check that each size of a tile is a parameter with whole values from 0."""
        for pragma in self._tiles:
            for size in sorted({size for _, size in pragma.tiles}):
                values = self.tuned[size].pragma.values[:1000] if size in self.tuned else ()
                wrong = [v for v in values if type(v) is not int or v < 0]
                if wrong or not values:
                    found = f"the value {wrong[0]} of" if wrong else "no values of"
                    text = (
                        f"`{pragma}`: found {found} `{size}`, expected sizes from 0 (not tiled), "
                        f"such as `#pragma values 0,8,16,32` above `#define {size} 0`"
                    )
                    self._fault(pragma.line, text)

    def _fault(self, line: int, text: str) -> None:
        self.faults.append(Fault(self._path, line, escaped(text)))

    def _add(self, offset: int, tuned: DeclaredParameter) -> None:
        self.bound.append((offset, tuned))
        other = self.tuned.setdefault(tuned.name, tuned)
        are_loops = {tuned.pragma.kind, other.pragma.kind}.issubset(UNROLLS)
        is_same = (other.default, other.pragma.values) == (tuned.default, tuned.pragma.values)
        if other is not tuned and not (are_loops and is_same):
            raise _PragmaError(
                f"`{tuned.name}` already has a pragma, on line {other.pragma.line}; "
                "keep one for each parameter"
            )

    def _above_define(self, index: int, pragma: Pragma) -> DeclaredParameter:
        below = self._adjoining(index)
        found = next(below, None)
        guard = found if found and found.name in ("ifndef", "if") else None
        found = next(below, None) if guard else found
        if not found or not found.is_constant or (guard and found.word not in found.undefined):
            name = guard.word if guard and guard.name == "ifndef" else "NAME"
            raise _PragmaError(
                f"expected `#define {name} VALUE` below it, found {self._below(index)}"
            )
        shown = spaced(found.operands[1:])
        default: Value = number(shown)
        if default is None and pragma.kind == "select":
            default = shown
        plain = "; write it without a suffix" if default is None and shown[:1].isdigit() else ""
        where = f", `{shown}` in `#define {found.word}` on line {found.line},"
        _check_default(default, pragma, where, plain)
        kind = "choice" if pragma.kind == "select" else guessed_role(found.word)
        kind = "source" if found.word in self._sizes else kind
        return DeclaredParameter(found.word, pragma, default, pragma.role or kind)

    def _above_loop(self, index: int, pragma: Pragma) -> DeclaredParameter:
        above, default = self._directives[index], pragma.values[0]
        if 0 in pragma.values:
            default = 0
        below = next(self._adjoining(index), None)
        if below is not None and is_unroll(below):
            above, default = below, self._factor(below, pragma)
        if self._code.get(above.next_code or -1) not in ("for", "while", "do"):
            raise _PragmaError(f"expected a loop below it, found {self._below(index)}")
        name = self._unrolls[self._directives[index].start]
        if pragma.name is None and name in self._words | self._constants.keys():
            raise _PragmaError(
                f"its parameter would be {name}, but the file already uses that name; choose "
                f"another: `#pragma {pragma.kind} NAME {pragma.operands}`"
            )
        return DeclaredParameter(name, pragma, default, "source")

    def _factor(self, directive: Directive, pragma: Pragma) -> Value:
        """Return the default: the factor of the `#pragma unroll` above the loop."""
        text = unroll_factor(directive.text)
        factor = 1 if directive.word == "nounroll" else self._constants.get(text, number(text))
        where = f", from `#pragma {directive.text}` on line {directive.line},"
        _check_default(factor, pragma, where)
        return factor

    def _adjoining(self, index: int) -> Iterator[Directive]:
        """Yield the preprocessor lines below up to the first code, without constraints."""
        for directive in self._directives[index + 1 :]:
            if not directive.adjoins:
                return
            if not (is_ours(directive) and directive.word == "constraint"):
                yield directive

    def _below(self, index: int) -> str:
        """Describe what is below a pragma."""
        directive = self._directives[index]
        if directive.next_code is not None:
            return f"code that begins with `{self._code[directive.next_code]}`"
        for below in self._adjoining(index):
            if not (below.name in ("ifndef", "if") or is_unroll(below)):
                return f"`#{below.name} {below.text}` on line {below.line}"
            if below.next_code is not None:
                return f"code that begins with `{self._code[below.next_code]}`"
        return "nothing"


def _check_default(default: Value, pragma: Pragma, where: str, hint: str = "") -> None:
    """Check that a default is a value of the same type: 1.0 is not 1."""
    values = pragma.values
    if not (default in values and type(values[values.index(default)]) is type(default)):
        listed = ", ".join(map(str, values[:_SHOWN_VALUES]))
        if len(values) > _SHOWN_VALUES:
            listed = f"{values[0]}, {values[1]}, ..., {values[-1]}"
        raise _PragmaError(f"the default{where} is not one of its values: {listed}{hint}")
