"""Suggest parameters for the constants that have no pragma."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

from harness.discover.binding import constants_of, guessed_role
from harness.discover.scope import KernelScope
from harness.discover.syntax import KernelSignature, unroll_factors
from harness.discover.types import numpy_type
from harness.source.pragmas import number
from harness.source.preprocessor import WORD, Scan
from harness.source.syntax_tree import CUDA, ParserText, captured, parsed, text_of

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
    factors = unroll_factors(prepared)
    tested = {text_of(node) for _, node in captured(_TESTED, parsed(prepared))}
    conditions = (d.text for d in prepared.scan.directives if d.name in ("if", "elif"))
    tested.update(word for text in conditions for word in WORD.findall(text))
    tested.update(p.name for p in kernel.template if p.type_name == "bool")
    for named in _names(prepared.scan, kernel, scope):
        name, default = named.name, named.default
        if name in taken:
            continue
        is_size = name in kernel.sizes or guessed_role(name) == "launch"
        if default is None and is_size:
            default = _THREADS.get(name[-1], _SIDES[kernel.dimensions])
        elif default is None:
            default = int(name not in tested or name in factors)
        kind, role = _around(name, default, is_size, name in factors, name in tested)
        named = replace(named, default=default, kind=kind, role=role)
        if named.is_open and named.is_of_the_problem:
            named = replace(named, kind=f"values: [{default}]")
        yield named


def is_number_type(type_name: str) -> bool:
    """Return whether a template's parameter of this type is a whole number."""
    known = numpy_type(type_name, {}, CUDA)
    return type_name == "auto" or (known is not None and known.is_integer and known.width == 1)


def _names(scan: Scan, kernel: KernelSignature, scope: KernelScope) -> Iterator[Suggestion]:
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
    constants = constants_of(scan.directives)
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
