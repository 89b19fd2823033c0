"""A file of several kernels -> the parts that matter to one of them.

All kernels share macros, helper functions and included files. The definitions of other kernels,
and the macros that only those use, do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.discover.syntax import KernelSignature
from harness.source.pragmas import is_ours, tile_sizes
from harness.source.preprocessor import Directive, Scan

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# An #if tests with these whether a macro is defined, without using its value.
_GUARD = re.compile(r"\bdefined\s*\(?\s*\w+")
_Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class KernelScope:
    """The parts of a file that belong to one kernel.

    `others` are the definitions of the other kernels, as spans of offsets. `foreign` are the macros
    that only those use; `used` are all other macros in use.
    """

    others: tuple[tuple[int, int], ...]
    foreign: frozenset[str]
    used: frozenset[str]

    def holds(self, offset: int) -> bool:
        """Return whether an offset is outside all other kernels."""
        return not _is_within(offset, self.others)


def scope_of(
    kernel: KernelSignature,
    kernels: Sequence[KernelSignature],
    hosts: _Spans,
    scan: Scan,
    includes: Iterable[Scan],
) -> KernelScope:
    """Find the scope of one of a file's kernels; `hosts` are the functions that launch kernels."""
    others = tuple(k.span for k in kernels if k.name != kernel.name)
    here, there, hosted = set[str](), set[str](), set[str]()
    for offset, words in _uses(scan):
        device = there if _is_within(offset, others) else here
        (hosted if _is_within(offset, hosts) else device).update(words)
    macros = _macros(scan.directives)
    for included in includes:
        here.update(word for _, words in _uses(included) for word in words)
        macros |= _macros(included.directives)
    own, all_ = _expanded(here, macros), _expanded(here | there | hosted, macros)
    foreign = _expanded(there, macros) - own
    return KernelScope(others, frozenset(foreign), frozenset(all_ - foreign))


def _is_within(offset: int, spans: _Spans) -> bool:
    return any(start <= offset < end for start, end in spans)


def _uses(scan: Scan) -> Iterable[tuple[int, Iterable[str]]]:
    """Yield the words that macro expansion would look at, with their offsets."""
    for token in scan.code:
        yield token.start, (token.text,)
    for directive in scan.directives:
        # Our other pragmas mention macros without using them.
        if sizes := tile_sizes(directive):
            yield directive.start, sizes
        elif directive.name in ("if", "elif", "include") or _is_others_pragma(directive):
            yield directive.start, _WORD.findall(_GUARD.sub("", directive.text))


def _is_others_pragma(directive: Directive) -> bool:
    return directive.name == "pragma" and not is_ours(directive)


def _macros(directives: Sequence[Directive]) -> dict[str, set[str]]:
    """Collect the words that each macro stands for, in any of its definitions."""
    found: dict[str, set[str]] = {}
    for directive in directives:
        if directive.name == "define":
            found.setdefault(directive.word, set()).update(t.text for t in directive.operands[1:])
    return found


def _expanded(words: Iterable[str], macros: Mapping[str, set[str]]) -> set[str]:
    """Expand words as macros, transitively."""
    found: set[str] = set()
    waiting = list(words)
    while waiting:
        word = waiting.pop()
        if word not in found:
            found.add(word)
            waiting.extend(macros.get(word, ()))
    return found
