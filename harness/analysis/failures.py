"""Group failures by their reason, and say why something failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from harness.core.config_diff import difference, differing
from harness.core.records import Config, Input, Measurement
from harness.core.text import counted

MAX_REASONS = 5
MAX_HEADLINE = 300
"""The most characters of a message that are shown."""

_ERRORS = ("error", "fatal")
_LATER = " in interleaved measurements"
_NUMBER = re.compile(r"0x[0-9a-f]+|\d[\d.,e+-]*")

T = TypeVar("T")


def suspects(is_program: bool) -> str:
    """Say what may be wrong where even the default is wrong on every input."""
    if is_program:
        return "the reference may be wrong, or `verify` too strict"
    return (
        "the reference may be wrong, `verify` too strict, the arguments in another order than the "
        "kernel's parameters, or INOUT of the host module lacks an array that the kernel also reads"
    )


@dataclass(frozen=True)
class _FailureGroup(Generic[T]):
    """Failures of one kind whose messages are the same but for numbers."""

    kind: Hashable
    headline: str
    """The headline of the first of them."""
    members: tuple[T, ...]


def group_failures(
    failed: Iterable[T],
    message: Callable[[T], str],
    kind: Callable[[T], Hashable] = lambda failure: None,
) -> list[_FailureGroup[T]]:
    """Group failures by their kind and the reason in their message, the largest group first."""
    groups: dict[Hashable, list[T]] = {}
    for failure in failed:
        reason = _NUMBER.sub("#", headline(message(failure)))
        groups.setdefault((kind(failure), reason), []).append(failure)
    result = [
        _FailureGroup(kind(members[0]), headline(message(members[0])), tuple(members))
        for members in groups.values()
    ]
    return sorted(result, key=lambda group: -len(group.members))


def headline(message: str, words: Iterable[str] = _ERRORS) -> str:
    """Return the most informative line of a message, cut to MAX_HEADLINE characters."""
    line = informative_line(message, words)
    return line if len(line) <= MAX_HEADLINE else f"{line[:MAX_HEADLINE]} ..."


def informative_line(message: str, words: Iterable[str] = _ERRORS) -> str:
    """Return the most informative line of a message: the first that has one of the words, of which
    earlier ones take precedence, else the first line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    hits = (line for word in words for line in lines if word in line.lower())
    return next(hits, lines[0] if lines else "")


def describe_failures(
    measured: Mapping[Input, Mapping[Config, Measurement]],
    default: Config,
    later: Iterable[Measurement] = (),
) -> Iterator[str]:
    """List the reasons of failed configurations with their counts, the most frequent first.

    `later` are failures in the interleaved measurements; those are listed of configurations that
    did not fail in the search. The example of each is the configuration that differs least from
    the default, so that it names little besides the cause.
    """
    from harness.results.measured import MeasuredConfigs  # here: it loads SQLAlchemy

    failed = [m for row in measured.values() for m in MeasuredConfigs.of(row).failures()]
    searched = {(m.input, m.config) for m in failed}
    only_later = {(m.input, m.config): m for m in later if (m.input, m.config) not in searched}
    marked = [*((m, "") for m in failed), *((m, _LATER) for m in only_later.values())]
    groups = group_failures(marked, lambda at: at[0].message, lambda at: (at[0].outcome, at[1]))
    if not groups:
        return
    yield "Failed configurations, by reason:"
    for group in groups[:MAX_REASONS]:
        members = group.members
        example, where = min(members, key=lambda at: len(differing(at[0].config, default)))
        yield f"    {len(members)} {example.outcome}{where}: {headline(example.message)}"
        yield f"        for example {difference(example.config, default)} on ({example.input})"
    if len(groups) > MAX_REASONS:
        yield f"    and {counted(len(groups) - MAX_REASONS, 'other reason')}"
    yield "The database has all messages, in measurements.message."
