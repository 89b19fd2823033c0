"""A file of several kernels -> the parts that matter to one of them.

All kernels share macros, helper functions and included files. The definitions of other kernels,
and the macros that only those use, do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.discover.syntax import KernelSignature, find_host_functions
from harness.source.pragmas import is_ours, tile_sizes
from harness.source.preprocessor import WORD, Scan, Token, expanded, macros_of
from harness.source.syntax_tree import ParserText, captured, text_of

_UPPER_CASE = re.compile(r"[A-Z][A-Z0-9_]*")
_STANDARD = re.compile(
    r"(?:CL|CLK|CUDA|CUDART|FP|EXIT|M_(?:E|PI|LN|LOG|SQRT|\d))_?\w*|\w+_(?:MAX|MIN|EPSILON|DIG|BIT)"
    r"|NAN|INFINITY|HUGE_VALF?|MAXFLOAT|NULL|NDEBUG|TRUE|FALSE|FILE|EOF"
)
"""The macros of the compilers and of the standard headers."""

# A called name is no number.
_DECLARED = """
(_ declarator: (identifier) @declared)
(_ name: (identifier) @declared)
(call_expression function: (identifier) @declared)
(identifier) @value
(type_identifier) @type
"""


@dataclass(frozen=True)
class KernelScope:
    """The parts of a file that belong to one kernel.

    `others` are the definitions of the other kernels, as spans of offsets. `foreign` are the macros
    that only those use; `used` are all other macros in use. `free` are the upper-case names in use
    that nothing defines, each with its line.
    """

    others: tuple[tuple[int, int], ...]
    foreign: frozenset[str]
    used: frozenset[str]
    free: Mapping[str, int]

    def holds(self, offset: int) -> bool:
        """Return whether an offset is outside all other kernels."""
        return not _is_within(offset, self.others)


def scope_of(
    kernel: KernelSignature,
    kernels: Sequence[KernelSignature],
    prepared: ParserText,
    included: Mapping[str, ParserText],
) -> KernelScope:
    """Find the scope of one of a file's kernels; `included` are the included files by name."""
    others = tuple(k.span for k in kernels if k.name != kernel.name)
    hosts = find_host_functions(prepared)
    here, there, hosted = list[Token](), list[Token](), list[Token]()
    for token in _used(prepared.scan):
        place = there if _is_within(token.start, others) else here
        (hosted if _is_within(token.start, hosts) else place).append(token)
    texts = (prepared, *included.values())
    macros = macros_of(d for text in texts for d in text.scan.directives)
    shared = [token for text in included.values() for token in _used(text.scan)]
    own = _words([*here, *shared], macros)
    foreign = _words(there, macros) - own
    used = _words([*here, *shared, *there, *hosted], macros) - foreign
    free = dict[str, int]()
    if not _is_missing_one(texts, included):
        unknown = _words(here, macros).difference(macros, *map(_declared, texts))
        operands = (token for d in prepared.scan.directives for token in d.operands)
        for token in (*here, *operands):
            name = token.text
            if name in unknown and _UPPER_CASE.fullmatch(name) and not _STANDARD.fullmatch(name):
                free.setdefault(name, prepared.text.count(b"\n", 0, token.start) + 1)
    return KernelScope(others, foreign, used, free)


def _is_within(offset: int, spans: Iterable[tuple[int, int]]) -> bool:
    return any(start <= offset < end for start, end in spans)


def _used(scan: Scan) -> Iterator[Token]:
    """Yield the tokens that macro expansion looks at; a macro's own are there where it is used."""
    yield from scan.code
    for directive in scan.directives:
        if is_ours(directive):  # they mention macros without using them, but for sizes of tiles
            sizes = tile_sizes(directive)
            yield from (token for token in directive.operands if token.text in sizes)
        elif directive.name != "define":
            yield from directive.valued_operands


def _words(tokens: Iterable[Token], macros: Mapping[str, Sequence[str]]) -> frozenset[str]:
    return frozenset(WORD.findall(expanded(" ".join(t.text for t in tokens), macros)))


def _is_missing_one(texts: Iterable[ParserText], included: Iterable[str]) -> bool:
    """Return whether a file that is included in quotes was not found: it may define any name."""
    written = (d.text for t in texts for d in t.scan.directives if d.name == "include")
    quoted = {PurePosixPath(text.strip('"')).name for text in written if text.startswith('"')}
    return not quoted.issubset(included)


def _declared(prepared: ParserText) -> frozenset[str]:
    """Return the names that a text declares, calls, blanks, or uses as a type."""
    names: dict[str, set[str]] = {"declared": set(), "value": set(), "type": set()}
    for kind, node in captured(_DECLARED, prepared.parsed()):
        names[kind].add(text_of(node))
    blanked = (item.word for item in prepared.blanked)
    return frozenset(names["declared"]).union(blanked, names["type"] - names["value"])
