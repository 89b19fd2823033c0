"""Write a dispatcher as a header for C99 and C++11 that needs nothing but a compiler."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jinja2

from harness.core.records import Value, shown
from harness.core.text import counted
from harness.dispatch.choice import WORTH_A_TRY, CostTree, Leaf, Node, Split
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.features import INT64_MAX, Feature, Type, c_real, member
from harness.dispatch.guards import TRUE
from harness.dispatch.text import conditions
from harness.models.columns import LOG2_DIGITS, Column, ColumnKind, LinearTerm, TunedRange

_MAX_NESTED = 40  # conditions; C guarantees 127 blocks. A deeper tree becomes a table.
_INT32 = range(-(2**31) + 1, 2**31)
_WIDTH = 96

# ------------------------------------------------------------------- texts and numbers
#
# Device names, titles and words come from outside: whatever they hold, they stay inside the comment
# or literal that they are written into.


def _c_string(text: str) -> str:
    """Make a literal of the text's UTF-8 bytes, in octal where they are not plain ASCII."""
    return '"' + "".join(_c_byte(byte) for byte in text.encode()) + '"'


def _c_byte(byte: int) -> str:
    character = chr(byte)
    return character if " " <= character <= "~" and character not in '"\\?' else f"\\{byte:03o}"


def _c_whole(number: int) -> str:
    """Make a literal of a 64-bit integer."""
    if abs(number) > INT64_MAX:
        raise ValueError(f"{number} is not a 64-bit integer")
    text = str(number) if number in _INT32 else f"INT64_C({number})"
    return f"({text})" if number < 0 else text


def _c_comment(text: str) -> str:
    """Make one line of printable ASCII for a C comment: it neither ends the comment nor begins
    another, and has no trigraph, which could hide a backslash at its end."""
    escaped = text.encode("unicode_escape").decode().replace("\\\\", "\\x5c")
    escaped = escaped.replace("*/", "*\\x2f").replace("/*", "/\\x2a")
    return escaped.replace("??", "?\\x3f")


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    """Break long lines at spaces; indents and tables stay."""
    wrapper = textwrap.TextWrapper(
        _WIDTH, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )
    for line in lines:
        wrapper.subsequent_indent = " " * (len(line) - len(line.lstrip()))
        yield from (part.rstrip() for part in wrapper.wrap(line) or [""])


# ------------------------------------------------------------------------- the header

_templates, _comments = (
    jinja2.Environment(
        loader=jinja2.PackageLoader("harness.dispatch"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # not HTML; the filters escape
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for finalize in (None, lambda value: _c_comment(str(value)))
)
_templates.filters |= {"c_comment": _c_comment, "c_string": _c_string, "member": member}


def c_header(dispatcher: Dispatcher) -> str:
    """Write the header; `docs/reference/dispatcher.md` describes its contents."""
    writer, program = _CWriter(dispatcher), dispatcher.program
    choice, portfolio = program.choice, program.portfolio
    is_nested = choice.tree is not None and _nested(choice.tree) <= _MAX_NESTED
    return _templates.get_template("header.h.j2").render(
        code=writer,
        dispatcher=dispatcher,
        program=program,
        Type=Type,
        features=dispatcher.features,
        members={n: _member_type([config[n] for config in portfolio]) for n in portfolio[0]},
        writers=_WRITERS,
        worth=c_real(WORTH_A_TRY) if choice.predicts_times else "",
        environment=dispatcher.provenance.environment,
        name=dispatcher.name,
        upper=dispatcher.name.upper(),
        comment=_comment(dispatcher),
        join=shlex.join,
        helpers=partial(_helpers, dispatcher.name),
        guarded=[(place, g.c) for place, g in enumerate(dispatcher.guards) if g != TRUE],
        tables={} if is_nested else _tables(choice.trees, len(writer.columns)),
        tree=list(writer.tree(choice.tree, "")) if choice.tree is not None and is_nested else [],
    )


def _comment(dispatcher: Dispatcher) -> str:
    """Render the comment at the top: what the code is, where it comes from, and the verdict."""
    text = _comments.get_template("comment.j2").render(
        dispatcher=dispatcher,
        provenance=dispatcher.provenance,
        environment=dispatcher.provenance.environment,
        tuned="; ".join(map(_range, dispatcher.program.tuned)),
    )
    return "\n".join(f" * {line}".rstrip() for line in _wrapped(text.splitlines()))[3:]


def _range(tuned: TunedRange) -> str:
    if tuned.words:
        return f"{tuned.feature} in {{{', '.join(map(shown, tuned.words))}}}"
    return f"{tuned.feature} from {tuned.low:g} to {tuned.high:g}"


def _nested(node: Node) -> int:
    """Compute how deeply conditions nest when each high side follows its low side."""
    deepest = 0
    waiting = [(node, 0)]
    while waiting:
        one, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(one, Split):
            waiting += [(one.low, depth + 1), (one.high, depth)]
    return deepest


def _tables(trees: Sequence[CostTree], columns: int) -> dict[str, Any]:
    """Write trees as tables. A split's low side is the node `low`, its high side the next one. A
    leaf leads to itself, by a column behind all others: so all trees are walked in step, without a
    branch (Asadi, Lin, de Vries, IEEE TKDE 2014)."""
    nodes, costs, roots, deepest = list[str](), list[float](), list[str](), 0
    for tree in trees:
        root, depth, level = len(nodes), -1, [tree.root]
        while level:
            below, after = list[Node](), len(nodes) + len(level)
            for node in level:
                if isinstance(node, Leaf):
                    nodes.append(f"{{{c_real(len(costs))}, {len(nodes)}, {columns}}}")
                    costs += node.costs
                else:
                    place = after + len(below)
                    nodes.append(f"{{{c_real(node.threshold)}, {place}, {node.column}}}")
                    below += [node.low, node.high]
            level, depth = below, depth + 1
        deepest = max(deepest, depth)
        count = len(next(tree.root.leaves()).costs)
        roots.append(f"{{{root}, {tree.candidate or 0}, {count}}}")
    listed = {"nodes": nodes, "costs": map(c_real, costs), "trees": roots}
    lines = {name: _in_lines(items) for name, items in listed.items()}
    return {**lines, "depth": deepest, "count": len(trees)}


def _in_lines(items: Iterable[str]) -> list[str]:
    """Join items, each with a comma behind it, into lines."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) + 2 <= _WIDTH:
            lines[-1] += f" {item},"
        else:
            lines.append(f"{item},")
    return lines


def _helpers(name: str, body: str) -> str:
    """Return the helpers that a text calls, and those that these call."""
    text = _templates.get_template("helpers.h.j2").render(name=name, digits=LOG2_DIGITS)
    called, wanted = body, ""
    for helper in reversed(text.split("\n\n")):  # one may call those before it
        if helper.partition("(")[0].split()[-1] + "(" in called:
            called += helper
            wanted = f"\n{helper.rstrip()}\n{wanted}"
    return wanted


class _CWriter:
    """Writes the parts of a header that depend on the program."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.arguments = ", ".join(f.variable for f in dispatcher.features)
        self.signature = ", ".join(f"{self._type(f)} {f.variable}" for f in dispatcher.features)
        self.offsets = ", ".join(map(c_real, dispatcher.program.choice.offsets))
        self.columns = list(map(self._column, dispatcher.program.columns))

    def _type(self, feature: Feature) -> str:
        if feature.type is Type.WORD:
            return f"enum {self._dispatcher.name}_{feature.name}"
        return str(feature.type.value)

    # ---------------------------------------------------------------------------- columns

    def numbers(self) -> Iterator[str]:
        """Write the columns as an array, with one below all thresholds behind them."""
        for column, text in zip(self._dispatcher.program.columns, self.columns, strict=True):
            yield f"{text}, /* {_c_comment(str(column))} */"
        yield "-DBL_MAX"

    def _column(self, column: Column) -> str:
        features = [self._dispatcher.feature(name) for name in column.features]
        if column.kind is ColumnKind.EQUALS:
            return f"({self._equals(features[0], column.word)} ? 1.0 : 0.0)"
        if column.kind is ColumnKind.TWOS:
            whole = f"(uint64_t){features[0].variable}"
            return f"(double)({whole} & (0 - {whole}))"
        if column.kind is ColumnKind.LINEAR:
            return " + ".join([c_real(column.constant), *map(self._term, column.terms)])
        reals = [f"(double){f.variable}" for f in features]
        return (" / " if column.kind is ColumnKind.RATIO else " * ").join(reals)

    def _term(self, term: LinearTerm) -> str:
        """Multiply a weight; without `rounded`, compilers may fuse the product with the sum."""
        name, number = self._dispatcher.name, self._dispatcher.feature(term.feature).variable
        factor = f"{name}_log2((double){number})" if term.is_log else f"(double){number}"
        return f"{name}_rounded({c_real(term.weight)} * {factor})"

    def _equals(self, feature: Feature, word: Value) -> str:
        """Compare a feature with a value by the rules of Python's ==."""
        name = feature.variable
        if feature.type is Type.WORD:
            known = isinstance(word, str)
            return f"{name} == {feature.c_word(self._dispatcher.name, str(word))}" if known else "0"
        if isinstance(word, (int, float)):
            if feature.type is Type.REAL:
                return f"{name} == {c_real(word)}"
            if word == int(word):
                return f"{name} == {_c_whole(int(word))}"
        return "0"

    # ----------------------------------------------------------------------------- choice

    def tree(self, node: Node, indent: str) -> Iterator[str]:
        """Write a tree as nested conditions."""
        while isinstance(node, Split):
            column = self._dispatcher.program.columns[node.column]
            is_plain = column.kind is not ColumnKind.TWOS  # the code shows what holds
            comment = "" if is_plain else conditions(self._dispatcher.program, node)[0]
            said = f" /* {_c_comment(comment)} */" if comment else ""
            yield f"{indent}if ({self._condition(node)}) {{{said}"
            yield from self.tree(node.low, indent + "    ")
            yield f"{indent}}}"
            node = node.high
        lines = list(self.first(self._dispatcher.order(node.costs)))
        comment = f" /* {counted(node.rows, 'input')} */" if node.rows else ""
        yield from (indent + line for line in lines[:-1])
        yield f"{indent}{lines[-1]}{comment}"

    def _condition(self, split: Split) -> str:
        """Write what holds on the low side."""
        column = self._dispatcher.program.columns[split.column]
        if column.kind is ColumnKind.EQUALS and 0 <= split.threshold < 1:
            feature = self._dispatcher.feature(column.features[0])
            return f"!({self._equals(feature, column.word)})"
        return f"{self.columns[split.column]} <= {c_real(split.threshold)}"

    def first(self, order: Sequence[int]) -> Iterator[str]:
        """Write the lines that return the first candidate of an order that applies."""
        if not order or self._dispatcher.guards[order[0]] == TRUE:
            yield f"return {order[0] if order else -1};"
            return
        name = self._dispatcher.name
        yield f"static const int order[] = {{{', '.join(map(str, order))}}};"
        yield f"return {name}_first(order, {len(order)}, {self.arguments});"

    # ------------------------------------------------------------------ ranges and launches

    def tuned(self) -> Iterator[str]:
        """Write the conditions of the tuned range."""
        for tuned in self._dispatcher.program.tuned:
            feature = self._dispatcher.feature(tuned.feature)
            if tuned.words:
                yield f"({' || '.join(self._equals(feature, word) for word in tuned.words)})"
            else:
                is_real = feature.type is Type.REAL
                low = c_real(tuned.low) if is_real else _c_whole(math.ceil(tuned.low))
                high = c_real(tuned.high) if is_real else _c_whole(math.floor(tuned.high))
                yield f"{feature.variable} >= {low} && {feature.variable} <= {high}"


def _member_type(values: Sequence[Value]) -> str:
    """Choose a C type: a number if all values are numbers, else text."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        wide = any(value not in _INT32 for value in values)
        return "int64_t" if wide else "int"
    return "double" if kinds <= {int, float} else "const char *"


_WRITERS: Mapping[str, Callable[[Any], str]] = {
    "bool": lambda value: "true" if value else "false",
    "int": _c_whole,
    "int64_t": _c_whole,
    "double": c_real,
    "const char *": lambda value: "NULL" if value is None else _c_string(shown(value)),
}
"""What writes a value of a member, by the member's type."""
