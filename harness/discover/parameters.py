"""Kernel source -> parameters: those that pragmas declare, each bound to the `#define` or the loop
below it, and suggestions for the constants that have no pragma."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from harness.core.errors import Fault, SpecError
from harness.core.records import Value
from harness.core.text import escaped
from harness.discover.scope import KernelScope
from harness.discover.syntax import KernelSignature, NumpyType
from harness.source.kernel_source import Source
from harness.source.pragmas import (
    TILE,
    UNROLLS,
    Pragma,
    is_ours,
    is_unroll,
    number,
    read_pragma,
    tile_sizes,
    unroll_factor,
    unroll_names,
)
from harness.source.preprocessor import WORD, Directive, Scan, macros_of, spaced
from harness.source.syntax_tree import CUDA, ParserText, captured, text_of

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


def read_pragmas(source: Source, scan: Scan, scope: KernelScope) -> Declared:
    """Read and bind every pragma of ours; raise SpecError with all faults of the file."""
    reader = _PragmaReader(str(source.path), scan)
    for index, directive in enumerate(scan.directives):
        if is_ours(directive) and directive.word != TILE:
            reader.read(index, directive)
    if faults := [*source.pragma_faults(), *reader.faults]:
        raise SpecError(sorted(faults, key=lambda fault: fault.line or 0))
    tuned: dict[str, DeclaredParameter] = {}
    for offset, pragma in reader.bound:
        is_loop = pragma.pragma.kind in UNROLLS
        if scope.holds(offset) if is_loop else pragma.name not in scope.foreign:
            tuned.setdefault(pragma.name, pragma)
    left_out = (t for name, t in reader.tuned.items() if name not in tuned)
    return Declared(tuple(tuned.values()), tuple(reader.constraints), tuple(left_out))


def _guessed_role(name: str) -> str:
    """Guess a role from a name: sizes of blocks and tiles are launch, all others source."""
    parts = [p.lower().rstrip("0123456789") for p in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)]
    is_size = parts[-1] in ("x", "y", "z") or any(
        part in _LAUNCH_PARTS or part.endswith(("block", "threads")) for part in parts
    )
    return "launch" if is_size else "source"


def _constants_of(directives: Sequence[Directive]) -> dict[str, int]:
    """Return the macros that are defined exactly once, as an integer."""
    once = {name: number(t[0]) for name, t in macros_of(directives).items() if len(t) == 1}
    return {name: value for name, value in once.items() if isinstance(value, int)}


class _PragmaReader:
    """Collect the parameters, constraints and faults of all pragmas."""

    def __init__(self, path: str, scan: Scan) -> None:
        self.tuned: dict[str, DeclaredParameter] = {}
        self.bound: list[tuple[int, DeclaredParameter]] = []
        self.constraints: list[Pragma] = []
        self.faults: list[Fault] = []
        self._path = path
        self._directives = scan.directives
        self._code = {token.start: token.text for token in scan.code}
        self._words = {token.text for token in scan.code}
        self._constants = _constants_of(scan.directives)
        self._unrolls = unroll_names(scan.directives)
        self._sizes = frozenset[str]().union(*map(tile_sizes, scan.directives))

    def read(self, index: int, directive: Directive) -> None:
        """Read a pragma of ours that declares something."""
        try:
            pragma = read_pragma(directive)
            if pragma.kind == "constraint":
                self.constraints.append(pragma)
            elif pragma.kind in UNROLLS:
                self._add(directive.start, self._above_loop(index, pragma))
            else:
                self._add(directive.start, self._above_define(index, pragma))
        except ValueError as error:
            text = f"`#pragma {directive.text}`: {error}"
            self.faults.append(Fault(self._path, directive.line, escaped(text)))

    def _add(self, offset: int, tuned: DeclaredParameter) -> None:
        self.bound.append((offset, tuned))
        other = self.tuned.setdefault(tuned.name, tuned)
        are_loops = {tuned.pragma.kind, other.pragma.kind}.issubset(UNROLLS)
        is_same = (other.default, other.pragma.values) == (tuned.default, tuned.pragma.values)
        if other is not tuned and not (are_loops and is_same):
            raise ValueError(
                f"`{tuned.name}` already has a pragma, on line {other.pragma.line}; "
                "keep one for each parameter"
            )

    def _above_define(self, index: int, pragma: Pragma) -> DeclaredParameter:
        below = self._adjoining(index)
        lower = next(below, None)
        guard = lower if lower and lower.name in ("ifndef", "if") else None
        lower = next(below, None) if guard else lower
        if not lower or not lower.is_constant or (guard and lower.word not in lower.undefined):
            name = guard.word if guard and guard.name == "ifndef" else "NAME"
            raise ValueError(
                f"expected `#define {name} VALUE` below it, found {self._below(index)}"
            )
        shown = spaced(lower.operands[1:])
        default: Value = number(shown)
        if default is None and pragma.kind == "select":
            default = shown
        plain = "; write it without a suffix" if default is None and shown[:1].isdigit() else ""
        where = f", `{shown}` in `#define {lower.word}` on line {lower.line},"
        _check_default(default, pragma, where, plain)
        kind = "choice" if pragma.kind == "select" else _guessed_role(lower.word)
        kind = "source" if lower.word in self._sizes else kind
        return DeclaredParameter(lower.word, pragma, default, pragma.role or kind)

    def _above_loop(self, index: int, pragma: Pragma) -> DeclaredParameter:
        above, default = self._directives[index], pragma.values[0]
        if 0 in pragma.values:
            default = 0
        below = next(self._adjoining(index), None)
        if below is not None and is_unroll(below):
            above, default = below, self._factor(below, pragma)
        if self._code.get(above.next_code or -1) not in ("for", "while", "do"):
            raise ValueError(f"expected a loop below it, found {self._below(index)}")
        name = self._unrolls[self._directives[index].start]
        if pragma.name is None and name in self._words | self._constants.keys():
            raise ValueError(
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
        raise ValueError(f"the default{where} is not one of its values: {listed}{hint}")


# ------------------------------------------------------------------------- suggestions

MAX_GROUP = 1024
MAX_FACTOR = 8
_AMOUNT = re.compile(
    r"UNROLL|TILE|ITEMS|PER_|COARSE|VEC|WIDTH|STRIPE|ILP|BATCH|FACTOR", re.IGNORECASE
)
"""In the names of macros that say how much of something: 1 is the least, and 0 has no meaning."""

_PROBLEM = re.compile(
    r"(?:^|_)(?:RADIUS|ORDER|DEGREE|CHANNELS?|BINS?|STEPS?|ITERATIONS?|DIMS?|SEED|EPS|EPSILON|SIGMA"
    r"|HALO|TAPS|[NMK])(?:_|$)",
    re.IGNORECASE,
)
"""In the names of macros that say which result is computed."""

_TESTED = """
(if_statement condition: (condition_clause value: (identifier) @tested))
(unary_expression operator: "!" argument: (identifier) @tested)
(binary_expression left: (identifier) @tested operator: ["&&" "||"])
(binary_expression operator: ["&&" "||"] right: (identifier) @tested)
(conditional_expression condition: (identifier) @tested)
"""
"""The names that code tests for truth, not compared."""

MIN_SIZE = 64  # powers of two from here on count as sizes, whatever their name


_THREADS = {"X": 32, "Y": 4, "Z": 2}
_SIDES = {1: 64, 2: 16, 3: 8}
"""The guessed sizes of groups: by the last letter of the name, or by the group's dimensions."""


@dataclass(frozen=True)
class Suggestion:
    """A name in the source that could be a parameter, with its line and the YAML of its values.

    `origin` is what stands there. `is_guarded` marks a `#define` inside an `#ifndef`, which is
    meant to be set from outside. `is_open` marks a name without a value: the space must give one.
    """

    name: str
    line: int
    origin: str
    default: int | None
    kind: str = ""
    role: str = ""
    is_guarded: bool = False
    is_open: bool = False

    @property
    def is_of_the_problem(self) -> bool:
        """Whether, by its name, another value computes another result."""
        return self.role != "launch" and _PROBLEM.search(self.name) is not None


def suggest(
    prepared: ParserText, kernel: KernelSignature, scope: KernelScope, taken: Set[str]
) -> Iterator[Suggestion]:
    """Suggest names in a kernel's scope, without `taken` ones, with values and a role.

    They are the numbers of its template, the macros that nothing defines, and constants.
    """
    factors = _unroll_factors(prepared)
    tested = {text_of(node) for _, node in captured(_TESTED, prepared.parsed())}
    conditions = (d.text for d in prepared.scan.directives if d.name in ("if", "elif"))
    tested.update(word for text in conditions for word in WORD.findall(text))
    tested.update(p.name for p in kernel.template if p.type_name == "bool")
    for named in _candidates(prepared.scan, kernel, scope):
        name, default = named.name, named.default
        if name in taken:
            continue
        is_size = name in kernel.sizes or _guessed_role(name) == "launch"
        if default is None and is_size:
            default = _THREADS.get(name[-1], _SIDES[kernel.dimensions])
        elif default is None:
            default = int(name not in tested or name in factors)
        kind, role = _around(name, default, is_size, name in factors, name in tested)
        named = replace(named, default=default, kind=kind, role=role)
        if named.is_open and named.is_of_the_problem:
            named = replace(named, kind=f"values: [{default}]")
        yield named


def _unroll_factors(prepared: ParserText) -> frozenset[str]:
    """Find the texts of the factors of `#pragma unroll`, of UNROLL and of _Pragma("unroll ..")."""
    pragmas = [d.text for d in prepared.scan.directives if d.name == "pragma"]
    factors = {unroll_factor(text) for text in pragmas if text.startswith("unroll")}
    for item in prepared.blanked:
        argument = "".join(token.text for token in item.arguments)
        if item.word == "UNROLL":
            factors.add(argument)
        if item.word == "_Pragma" and argument.strip('"').startswith("unroll"):
            factors.add(unroll_factor(argument.strip('"')))
    return frozenset(factors)


def is_number_type(type_name: str) -> bool:
    """Return whether a template's parameter of this type is a whole number."""
    known = NumpyType.of(type_name, {}, CUDA)
    return type_name == "auto" or (known is not None and known.is_integer and known.width == 1)


def _candidates(scan: Scan, kernel: KernelSignature, scope: KernelScope) -> Iterator[Suggestion]:
    """Yield the names that could be parameters, with their values in the source."""
    for parameter in kernel.template:
        default = number(parameter.default)
        if parameter.type_name == "bool":
            default = int(parameter.default == "true")
        elif not is_number_type(parameter.type_name):
            continue
        origin = f"a parameter of the template, {parameter.type_name} {parameter.name}"
        default = default if isinstance(default, int) and default >= 0 else None
        yield Suggestion(parameter.name, parameter.line, origin, default, is_open=True)
    for name, line in scope.free.items():
        yield Suggestion(name, line, f"nothing defines {name}", None, is_open=True)
    constants = _constants_of(scan.directives)
    for directive in scan.directives:
        name = directive.word
        if directive.name == "define" and name in scope.used and constants.get(name, -1) >= 0:
            is_guarded, origin = name in directive.undefined, f"#define {name} {constants[name]}"
            yield Suggestion(name, directive.line, origin, constants[name], is_guarded=is_guarded)


def _around(
    name: str, default: int, is_size: bool, is_factor: bool, is_condition: bool
) -> tuple[str, str]:
    """Choose values around a default, as YAML, and a role."""
    if is_factor:
        least = min(1, default)
        return f"type: integer, min: {least}, max: {max(MAX_FACTOR, 2 * default)}", "source"
    if default == 1 and _AMOUNT.search(name):
        return f"type: power_of_two, min: 1, max: {MAX_FACTOR}", "source"
    if default == 1 and not is_size and not is_condition:  # with 0 a loop may never end
        return f"type: power_of_two, min: 1, max: {MAX_FACTOR}", "source"
    if default in (0, 1) and not is_size:
        return "values: [0, 1]", "choice"
    if default == 0:  # it switches something off, so it is no size of a group
        return "values: [0, 8, 16, 32]", "source"
    role = "launch" if is_size else "source"
    is_power = default & (default - 1) == 0 and default > 0
    if is_power and (is_size or default >= MIN_SIZE):
        most = max(default, min(4 * default, MAX_GROUP))
        return f"type: power_of_two, min: {max(1, default // 4)}, max: {most}", role
    return f"type: integer, min: 1, max: {max(2, 2 * default)}", role
