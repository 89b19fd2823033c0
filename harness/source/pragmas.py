"""The pragmas with which a kernel's source describes its own space, after G-ADAPT.

    #pragma erange lo,hi[,base] [role]    lo, lo * base, ... up to hi: the base is 2
    #pragma range lo,hi[,step] [role]     lo, lo + step, ... up to hi: the step is 1
    #pragma values a,b,c [role]           the listed numbers
    #pragma select a,b,c [role]           one of several implementations, by name or number
    #pragma unroll_range [NAME] lo,hi[,step]
    #pragma unroll_values [NAME] a,b,c    the factors of the loop below; 0 leaves the compiler free
    #pragma tile VARIABLE:NAME, ...       the sizes of the tiles of the loops below; 0 and 1: none
    #pragma constraint EXPRESSION         what every legal configuration satisfies

The first four belong above the `#define` of the parameter. `tile` names parameters that these
declare. Compilers know none of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.constraints.arithmetic import MAX_EXACT
from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.records import Value
from harness.core.text import counted, nearest
from harness.source.preprocessor import Directive

EXAMPLES = {
    "erange": "64,512,2",
    "range": "1,8",
    "values": "1,2,4",
    "select": "tiled,plain",
    "unroll_range": "1,8",
    "unroll_values": "1,2,4",
    "tile": "i:TILE_I, k:TILE_K",
    "constraint": "TILE <= BLOCK",
}
TILE = "tile"
UNROLLS = ("unroll_range", "unroll_values")
ROLES = ("launch", "source", "choice")
MAX_DIGITS = 20
MAX_LISTED = 1000

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_REAL = re.compile(r"-?[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Pragmas that compilers know, and others that resemble ours only by chance.
_OTHERS = ("unroll", "nounroll", "unroll_and_jam", "region", "message", "select_any")


@dataclass(frozen=True)
class Pragma:
    """One of our pragmas. `values` are in the order of the source; empty for a constraint.

    `name` and `role` are the parameter's where the pragma itself gives them. `tiles` are the loop
    variables of a `tile` in its order, each with the parameter that is the size of its tiles.
    """

    kind: str
    operands: str
    line: int
    values: Sequence[Value] = ()
    role: str | None = None
    name: str | None = None
    tiles: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"#pragma {self.kind} {self.operands}"


def is_ours(directive: Directive) -> bool:
    """Whether a preprocessor line is one of these pragmas, well formed or not."""
    return directive.name == "pragma" and directive.word in EXAMPLES


def is_unroll(directive: Directive) -> bool:
    """Whether a preprocessor line is a pragma of compilers: `unroll`, `unroll 4`, `nounroll`."""
    return directive.name == "pragma" and directive.word in ("unroll", "nounroll")


def unroll_factor(text: str) -> str:
    """Return the factor of `unroll 4` or `unroll(N)` as text; empty where there is none."""
    return text.removeprefix("unroll").strip(" ()")


def unroll_names(directives: Sequence[Directive]) -> dict[int, str]:
    """Return the parameter of each unroll pragma, by the pragma's offset.

    Pragmas without a name are UNROLL_1, UNROLL_2, ...; the number counts all unroll pragmas of the
    file, so that naming one renames no other.
    """
    ours = [d for d in directives if is_ours(d) and d.word in UNROLLS]
    return {d.start: _own_name(d) or f"UNROLL_{index}" for index, d in enumerate(ours, start=1)}


def _own_name(directive: Directive) -> str | None:
    operands = directive.operands[1:]
    return operands[0].text if operands and operands[0].kind == "word" else None


def tile_sizes(directive: Directive) -> frozenset[str]:
    """Return the parameters that a `tile` names; none for what is not one."""
    if not (is_ours(directive) and directive.word == TILE):
        return frozenset()
    pairs = zip(directive.operands, directive.operands[1:], strict=False)
    return frozenset(size.text for colon, size in pairs if colon.text == ":")


def typing_error(directive: Directive) -> str | None:
    """Say which pragma of ours an unknown one resembles; None where it resembles none."""
    word = directive.word
    if directive.name != "pragma" or word in (*EXAMPLES, *_OTHERS, ""):
        return None
    near = nearest(word, EXAMPLES, cutoff=0.75)
    return f"`#pragma {word}` is unknown; did you mean `#pragma {near}`?" if near else None


def read_pragma(directive: Directive) -> Pragma:
    """Read one of our pragmas; raises ValueError with what was found and expected."""
    kind = directive.word
    operands = directive.text[len(kind) :].strip()
    if kind == "constraint":
        return _constraint(directive, operands)
    if kind == TILE:
        return Pragma(kind, operands, directive.line, tiles=_tiles(operands))
    name = _own_name(directive) if kind in UNROLLS else None
    listed, role = _listed(kind, operands if name is None else operands[len(name) :])
    is_range = kind.endswith("range")
    values = _range(kind, listed) if is_range else _distinct(kind, listed)
    if kind in UNROLLS and (role or any(type(v) is not int or v < 0 for v in values[:MAX_LISTED])):
        found = f"the role {role}" if role else ",".join(listed)
        raise _unexpected(kind, found, "whole factors from 0 (the compiler's choice) and no role")
    return Pragma(kind, operands, directive.line, values, role, name)


def _unexpected(kind: str, found: str, expected: str) -> ValueError:
    example = f"#pragma {kind} {EXAMPLES[kind]}"
    return ValueError(f"found {found}, expected {expected}, such as `{example}`")


def _constraint(directive: Directive, operands: str) -> Pragma:
    if directive.has_line_comment:
        # `A // B` is a quotient to a person, but only `A` to the preprocessor.
        raise ValueError("// begins a comment here; write floor(a / b), and comments as /* */")
    try:
        return Pragma("constraint", Expression(operands).text, directive.line)
    except ExpressionError as error:
        raise ValueError(str(error)) from None


def _tiles(operands: str) -> tuple[tuple[str, str], ...]:
    tiles: dict[str, str] = {}
    for part in operands.split(","):
        variable, colon, size = (text.strip() for text in part.partition(":"))
        if not (colon and _NAME.fullmatch(variable) and _NAME.fullmatch(size)):
            shown = f"`{part.strip()}`" if part.strip() else "nothing"
            raise _unexpected(TILE, shown, "VARIABLE:NAME of each loop, between commas")
        if variable in tiles:
            raise ValueError(f"the loop over `{variable}` is there twice; give each loop once")
        tiles[variable] = size
    return tuple(tiles.items())


def _listed(kind: str, operands: str) -> tuple[list[str], str | None]:
    """Return the operands between commas, and the role if one follows the last."""
    *most, last = (part.strip() for part in operands.split(","))
    words = last.split()
    if len(words) == 2:
        if words[1] not in ROLES:
            near = nearest(words[1], ROLES)
            hint = f" (did you mean `{near}`?)" if near else ""
            roles = f"one of the roles {', '.join(ROLES)}"
            raise _unexpected(kind, f"`{words[1]}`{hint}", f"{roles}, or a comma before it")
        return [*most, words[0]], words[1]
    return [*most, last], None


def _range(kind: str, listed: list[str]) -> Sequence[Value]:
    """Read lo,hi and a step, which is a factor (the base) of `erange`."""
    third = "base" if kind == "erange" else "step"
    if len(listed) not in (2, 3):
        found = counted(len(listed), "operand") if listed[0] else "nothing"
        raise _unexpected(kind, found, f"lo,hi[,{third}]")
    numbers = [value for text in listed if isinstance(value := number(text), int)]
    if len(numbers) < len(listed):
        wrong = next(text for text in listed if not isinstance(number(text), int))
        raise _unexpected(kind, f"`{wrong}`" if wrong else "nothing", "a decimal whole number")
    lo, hi, step = (*numbers, 2 if kind == "erange" else 1)[:3]
    if lo > hi:
        raise _unexpected(kind, f"lo={lo} above hi={hi}", "lo <= hi")
    if kind != "erange":
        if step < 1:
            raise _unexpected(kind, f"step={step}", "a step from 1")
        return range(lo, hi + 1, step)
    if lo < 1 or step < 2:
        raise _unexpected("erange", f"lo={lo}, base={step}", "lo from 1 and a base from 2")
    values = [lo]
    while values[-1] * step <= hi:
        values.append(values[-1] * step)
    return tuple(values)


def _distinct(kind: str, listed: list[str]) -> Sequence[Value]:
    is_select = kind == "select"
    values = [t if is_select and _NAME.fullmatch(t) else _number(kind, t) for t in listed]
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ValueError(f"{value} is there twice; give each value once")
    if len(values) > MAX_LISTED:
        raise ValueError(f"{len(values):,} values are listed, at most {MAX_LISTED:,} may be")
    return tuple(values)


def _number(kind: str, text: str) -> int | float:
    value = number(text)
    if value is None:
        expected = "names or decimal numbers" if kind == "select" else "decimal numbers"
        raise _unexpected(kind, f"`{text}`" if text else "an empty operand", expected)
    return value


def number(text: str) -> int | float | None:
    """Read a decimal C constant without suffix, brackets allowed; None for anything else."""
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    if _WHOLE.fullmatch(text):
        return int(text) if len(text) <= MAX_DIGITS and abs(int(text)) <= MAX_EXACT else None
    real = float(text) if _REAL.fullmatch(text) else math.inf
    return real if math.isfinite(real) else None
