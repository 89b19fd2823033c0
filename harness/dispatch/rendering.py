"""Parts of both languages' code: the comment at the top, names of variables, templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jinja2

from harness.core.records import shown
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.nodes import Node, Split
from harness.dispatch.spelling import c_string
from harness.models.encoding.columns import Column, ColumnKind, TunedRange

MAX_NESTED = 40
"""Nested conditions; a deeper tree becomes a table. C guarantees 127 nested blocks, Python allows
100 levels of indentation."""

_templates = jinja2.Environment(
    loader=jinja2.PackageLoader("harness.dispatch"),
    undefined=jinja2.StrictUndefined,
    autoescape=False,  # not HTML; harness.dispatch.spelling escapes
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_templates.filters |= {"ascii": ascii, "c_string": c_string}


def rendered(template: str, **values: Any) -> str:
    """Fill a template of this package."""
    return _templates.get_template(template).render(**values)


def comment_lines(dispatcher: Dispatcher) -> Iterator[str]:
    """Render the comment at the top: what the code is, where it comes from, and the verdict."""
    provenance, environment = dispatcher.provenance, dispatcher.provenance.environment
    title = f": {dispatcher.title}" if dispatcher.title else ""
    yield f"Chooses the configuration of {dispatcher.name} for an input{title}."
    yield ""
    yield f"Choice: {provenance.choice}."
    yield f"Written by harness {provenance.harness_version} on {provenance.date}; do not edit."
    yield f"    device:   {environment.device}"
    yield f"    platform: {environment.platform}, driver {environment.driver}"
    yield f"    compiler: {environment.compiler}"
    if environment.caches:
        yield f"    caches:   {environment.cache} when a time was taken"
    yield f"    kernel:   sha256 {provenance.program_sha256}"
    yield f"    data:     {', '.join(provenance.databases)}; {provenance.inputs} inputs"
    yield "    tuned:    " + "; ".join(map(_range, dispatcher.program.tuned))
    if dispatcher.flag_files:
        yield f"Files that options name, in {dispatcher.name}/flag_files, each with its sha256:"
    for file in dispatcher.flag_files:
        yield f"    {file.value}: {file.sha256}"
    yield ""
    yield from provenance.verdict


def _range(tuned: TunedRange) -> str:
    if tuned.words:
        return f"{tuned.feature} in {{{', '.join(map(shown, tuned.words))}}}"
    return f"{tuned.feature} from {tuned.low:g} to {tuned.high:g}"


def nested(node: Node) -> int:
    """Compute how deeply conditions nest when each high side follows its low side."""
    deepest = 0
    waiting = [(node, 0)]
    while waiting:
        one, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(one, Split):
            waiting += [(one.low, depth + 1), (one.high, depth)]
    return deepest


def real_names(dispatcher: Dispatcher) -> dict[str, str]:
    """Name a variable for each feature as a double; no feature's own variable has the same name."""
    taken = {feature.variable for feature in dispatcher.features}
    names = {}
    for feature in dispatcher.features:
        name = f"real_{feature.name}"
        while name in taken:
            name += "_"
        names[feature.name] = name
        taken.add(name)
    return names


def column_names(dispatcher: Dispatcher) -> dict[int, str]:
    """Name a variable for each column, by its index."""
    reals = real_names(dispatcher)
    taken = {feature.variable for feature in dispatcher.features} | set(reals.values())
    names: dict[int, str] = {}
    for index, column in enumerate(dispatcher.program.columns):
        if column.kind is ColumnKind.RAW:
            names[index] = reals[column.features[0]]
            continue
        name = _column_name(column)
        names[index] = f"{name}_{index}" if name in taken else name
        taken.add(names[index])
    return names


def _column_name(column: Column) -> str:
    if column.kind is ColumnKind.EQUALS:
        word = "".join(c if c.isascii() and c.isalnum() else "_" for c in shown(column.word))
        return f"{column.features[0]}_is_{word}"
    if column.kind is ColumnKind.TWOS:
        return f"twos_of_{column.features[0]}"
    if column.kind is ColumnKind.LINEAR:
        return f"linear_in_{'_'.join(column.features)}"
    return ("_over_" if column.kind is ColumnKind.RATIO else "_times_").join(column.features)


def in_lines(items: Sequence[str], width: int = 96) -> list[str]:
    """Join items, each with a comma behind it, into lines."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) + 2 <= width:
            lines[-1] += f" {item},"
        else:
            lines.append(f"{item},")
    return lines
