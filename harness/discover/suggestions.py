"""Suggest parameters for the constants and loops that have no pragma."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from harness.discover.binding import constants_of, guessed_role
from harness.discover.scope import KernelScope
from harness.discover.syntax import SourceLoop
from harness.source.pragmas import UNROLLS, is_ours, number
from harness.source.preprocessor import Directive, Scan

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


@dataclass(frozen=True)
class Suggestion:
    """A `#define` that could be a parameter, with its line and the YAML of its values.

    `is_guarded` marks a `#define` inside an `#ifndef`, which is meant to be set from outside.
    """

    name: str
    line: int
    default: int
    kind: str
    role: str
    is_guarded: bool

    @property
    def is_of_the_problem(self) -> bool:
        """Whether, by its name, another value computes another result."""
        return self.role != "launch" and _PROBLEM.search(self.name) is not None


def suggest_constants(
    scan: Scan,
    scope: KernelScope,
    loops: Sequence[SourceLoop],
    sizes: Sequence[str],
    known: Set[str],
) -> Iterator[Suggestion]:
    """Suggest constants in scope, with values around the present one; skip `known` names."""
    constants = constants_of(scan.directives)
    factors = {loop.factor for loop in loops}
    conditions = set(_conditions(scan))
    for directive in scan.directives:
        name = directive.word
        if directive.is_constant and name in constants and name in scope.used and name not in known:
            default = constants[name]
            if default >= 0:
                is_size = name in sizes or guessed_role(name) == "launch"
                kind, role = _around(name, default, is_size, name in factors, name in conditions)
                yield Suggestion(
                    name, directive.line, default, kind, role, name in directive.undefined
                )


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
        least = min(1, default)  # of a loop, 0 means not to change it
        return f"type: integer, min: {least}, max: {max(MAX_FACTOR, 2 * default)}", "source"
    if default == 1 and _AMOUNT.search(name):
        return f"type: power_of_two, min: 1, max: {MAX_FACTOR}", "source"
    if default == 1 and not is_size and not is_condition:  # with 0 a loop may never end
        return f"type: power_of_two, min: 1, max: {MAX_FACTOR}", "source"
    if default in (0, 1) and not is_size:
        return "values: [0, 1]", "choice"
    role = "launch" if is_size else "source"
    is_power = default & (default - 1) == 0 and default > 0
    if is_power and (is_size or default >= MIN_SIZE):
        most = max(default, min(4 * default, MAX_GROUP))
        return f"type: power_of_two, min: {max(1, default // 4)}, max: {most}", role
    return f"type: integer, min: {min(1, default)}, max: {max(2, 2 * default)}", role


def suggest_loops(scan: Scan, loops: Sequence[SourceLoop]) -> Iterator[str]:
    """Suggest a pragma for each loop whose unrolling could be tuned."""
    ours = _below_pragmas(scan.directives)
    for loop in loops:
        if loop.start in ours:
            continue
        if loop.unrolled and not loop.factor.isidentifier():
            yield f"line {loop.line}, {loop.unrolled}: {_instead(loop)}"
        elif loop.trips and loop.trips > 1 and not loop.unrolled:
            yield f"line {loop.line}, {loop.trips} iterations: #pragma unroll_range 1,{_most(loop)}"


def _instead(loop: SourceLoop) -> str:
    """Write a pragma that has the loop's present factor as its default."""
    factor = number(loop.factor)
    if not isinstance(factor, int):
        return f"#pragma unroll_range 0,{_most(loop)} instead of it"
    instead = "" if loop.unrolled and loop.unrolled.startswith("#") else " instead of it"
    return f"#pragma unroll_range 1,{max(_most(loop), factor)}{instead}"


def _most(loop: SourceLoop) -> int:
    """Return the highest factor to try."""
    return min(loop.trips or MAX_FACTOR, MAX_FACTOR)


def _below_pragmas(directives: Sequence[Directive]) -> set[int]:
    """Return the offsets of the loops that have an unroll pragma of ours."""
    found: set[int] = set()
    is_open = False
    for directive in directives:
        is_open = (is_ours(directive) and directive.word in UNROLLS) or (
            is_open and directive.adjoins
        )
        if is_open and directive.next_code is not None:
            found.add(directive.next_code)
    return found
