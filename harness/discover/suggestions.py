"""Suggest parameters for the constants that have no pragma."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from harness.discover.binding import constants_of, guessed_role
from harness.discover.scope import KernelScope
from harness.discover.syntax import KernelSignature
from harness.discover.types import numpy_type
from harness.source.parser_text import CUDA
from harness.source.pragmas import number
from harness.source.preprocessor import Scan

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

_TESTED = re.compile(
    r"\bif \( (\w+) \)"
    r"|! (\w+)"
    r"|(?:& ?& |\| ?\| )(\w+)(?= [);?]| & ?&| \| ?\|)"
    r"|(?:\( |(?<![<>=!] )= |\breturn |, )(\w+)(?= \?| & ?&| \| ?\|)"
)
"""In tokens with spaces between them: names that are tested for truth, not compared."""

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
    default: int
    kind: str
    role: str
    is_guarded: bool = False
    is_open: bool = False

    @property
    def is_of_the_problem(self) -> bool:
        """Whether, by its name, another value computes another result."""
        return self.role != "launch" and _PROBLEM.search(self.name) is not None


def suggest_constants(
    scan: Scan,
    scope: KernelScope,
    factors: Set[str],
    sizes: Sequence[str],
    known: Set[str],
) -> Iterator[Suggestion]:
    """Suggest constants in scope, with values around the present one; skip `known` names."""
    constants = constants_of(scan.directives)
    conditions = set(_conditions(scan))
    for directive in scan.directives:
        name = directive.word
        if directive.is_constant and name in constants and name in scope.used and name not in known:
            default = constants[name]
            if default >= 0:
                is_size = name in sizes or guessed_role(name) == "launch"
                kind, role = _around(name, default, is_size, name in factors, name in conditions)
                origin = f"#define {name} {default}"
                is_guarded = name in directive.undefined
                yield Suggestion(name, directive.line, origin, default, kind, role, is_guarded)


def suggest_template(kernel: KernelSignature) -> Iterator[Suggestion]:
    """Suggest the numbers of a kernel's template."""
    for parameter in kernel.template:
        name, given = parameter.name, number(parameter.default)
        is_flag = parameter.type_name == "bool"
        if is_flag:
            given = 1 if parameter.default == "true" else 0
        if is_flag or is_number_type(parameter.type_name):
            origin = f"a parameter of the template, {parameter.type_name} {name}"
            default = given if isinstance(given, int) and given >= 0 else None
            yield _open(name, parameter.line, origin, default, kernel, is_condition=is_flag)


def suggest_free(
    free: Mapping[str, int], scan: Scan, factors: Set[str], kernel: KernelSignature
) -> Iterator[Suggestion]:
    """Suggest the macros that nothing defines, each with its line."""
    conditions = set(_conditions(scan))
    for name, line in free.items():
        origin = f"nothing defines {name}"
        is_condition = name in conditions and name not in factors
        yield _open(name, line, origin, None, kernel, is_condition=is_condition)


def is_number_type(type_name: str) -> bool:
    """Return whether a template's parameter of this type is a whole number."""
    known = numpy_type(type_name, {}, CUDA)
    return type_name == "auto" or (known is not None and known.is_integer and known.width == 1)


def _open(
    name: str,
    line: int,
    origin: str,
    default: int | None,
    kernel: KernelSignature,
    *,
    is_condition: bool,
) -> Suggestion:
    """Suggest values for a name without a value; those of the problem have one for a person."""
    is_size = name in kernel.sizes or guessed_role(name) == "launch"
    if default is None and is_size:
        default = _THREADS.get(name[-1], _SIDES[kernel.dimensions])
    if default is None:
        default = 0 if is_condition else 1
    kind, role = _around(name, default, is_size, False, is_condition)
    found = Suggestion(name, line, origin, default, kind, role, is_open=True)
    return replace(found, kind=f"values: [{default}]") if found.is_of_the_problem else found


def _conditions(scan: Scan) -> Iterator[str]:
    """Yield the names that are tested for truth, in the preprocessor or in the code."""
    for directive in scan.directives:
        if directive.name in ("if", "elif"):
            yield from re.findall(r"[A-Za-z_]\w*", directive.text)
    for found in _TESTED.finditer(" ".join(token.text for token in scan.code)):
        yield from filter(None, found.groups())


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
