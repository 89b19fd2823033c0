"""Write a dispatcher as a header for C99 and C++11 that needs nothing but a compiler."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jinja2

from harness.core.records import Value, shown
from harness.core.text import counted
from harness.dispatch.choice import WORTH_A_TRY, CostTree, Leaf, Node, Split
from harness.dispatch.dispatcher import Dispatcher, ends
from harness.dispatch.features import Feature, Type
from harness.dispatch.guards import TRUE
from harness.dispatch.spelling import c_comment, c_real, c_string, c_whole, member, wrapped
from harness.dispatch.text import comment_on
from harness.models.encoding.columns import LOG2_DIGITS, Column, ColumnKind, LinearTerm, TunedRange

_MAX_NESTED = 40  # conditions; C guarantees 127 blocks. A deeper tree becomes a table.
_INT32 = range(-(2**31) + 1, 2**31)

_HELPERS = {
    "divided": "double {0}_divided(double a, double b) {{ /* NaN for a division by zero */\n"
    "    return b < 0 || b > 0 ? a / b : 0 * (a / b);\n}}",
    "floor": "double {0}_floor(double a) {{\n"
    "    if (!(a > -9007199254740992.0 && a < 9007199254740992.0)) return a;\n"
    "    return (double)((int64_t)a - ((double)(int64_t)a > a));\n}}",
    "ceil": "double {0}_ceil(double a) {{ return -{0}_floor(-a); }}",
    "modulo": "double {0}_modulo(double a, double b) {{\n"
    "    return a - b * {0}_floor({0}_divided(a, b));\n}}",
    "min": "double {0}_min(double a, double b) {{ return a != a || a < b ? a : b; }}",
    "max": "double {0}_max(double a, double b) {{ return a != a || a > b ? a : b; }}",
    "abs": "double {0}_abs(double a) {{ return a < 0 ? -a : a; }}",
    "rounded": "double {0}_rounded(double a) {{ /* prevents fusing a product with a sum */\n"
    "    volatile double b = a;\n    return b;\n}}",
    "log2": "double {0}_log2(double size) {{ /* to DIGITS binary digits, as Python does */\n"
    "    double log = 0.0, digit = 1.0;\n"
    "    while (size >= 2) {{ size /= 2; log += 1; }}\n"
    "    while (size < 1) {{ size *= 2; log -= 1; }}\n"
    "    for (int i = 0; i < DIGITS; i++) {{\n"
    "        digit /= 2;\n"
    "        size *= size;\n"
    "        if (size >= 2) {{ size /= 2; log += digit; }}\n"
    "    }}\n"
    "    return log;\n}}".replace("DIGITS", str(LOG2_DIGITS)),
    "whole": "int64_t {0}_whole(double a) {{ /* -1, which cannot be launched, for a fraction */\n"
    "    return a >= 0 && a < 9007199254740992.0 && (double)(int64_t)a == a ? (int64_t)a : -1;\n}}",
}
"""Helpers of conditions, sizes and columns; the header has only those that it calls."""

_templates = jinja2.Environment(
    loader=jinja2.PackageLoader("harness.dispatch"),
    undefined=jinja2.StrictUndefined,
    autoescape=False,  # not HTML; harness.dispatch.spelling escapes
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_templates.filters["c_string"] = c_string


def c_header(dispatcher: Dispatcher) -> str:
    """Write the header; `docs/dispatch.md` describes its contents."""
    writer, tree = _CWriter(dispatcher), dispatcher.program.choice.tree
    launches = [(index, list(writer.sizes(index))) for index in range(len(dispatcher.sizes))]
    shared, carveout = list(writer.of_memory(2)), list(writer.of_memory(3))
    guarded = [(p, g.c) for p, g in enumerate(dispatcher.guards) if g != TRUE]
    exact = [*(c for _, c in guarded), *(line for _, lines in launches for line in lines)]
    exact += [text for _, text in (*shared, *carveout)]
    is_nested = tree is not None and _nested(tree) <= _MAX_NESTED
    tables = {} if is_nested else _tables(dispatcher.program.choice.trees, len(writer.columns))
    values: dict[str, Any] = {
        "code": writer,
        "features": dispatcher.features,
        "program": dispatcher.program,
        "worth": c_real(WORTH_A_TRY) if dispatcher.program.choice.predicts_times else "",
        "environment": dispatcher.provenance.environment,
        "name": dispatcher.name,
        "upper": dispatcher.name.upper(),
        "comment": "\n * ".join(wrapped(map(c_comment, _comment_lines(dispatcher)))).replace(
            " * \n", " *\n"
        ),
        "needs_sqrt": any("sqrt(" in text for text in exact),
        "kernels": [
            f"{{{c_string(writer.file(k.name))}, {c_string(shlex.join(k.options))}}}"
            for k in dispatcher.kernels
        ],
        "item": dispatcher.item,
        "symbols": [", ".join(map(c_string, names)) for names in dispatcher.symbols],
        "functions": dispatcher.functions,
        "helpers": list(_helpers(dispatcher.name, [*exact, *writer.columns])),
        "guarded": guarded,
        "fallback": list(writer.first(dispatcher.fallback)),
        "tables": tables,
        "tree": list(writer.tree(tree, "")) if tree is not None and is_nested else [],
        "launches": launches,
        "shared": shared,
        "carveout": carveout,
        "cooperative": dispatcher.is_cooperative,
        "dimensions": len(dispatcher.sizes[0][0]) if launches else 0,
    }
    return _templates.get_template("header.h.j2").render(**values)


def _comment_lines(dispatcher: Dispatcher) -> Iterator[str]:
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
        yield f"    {file.mark}: {file.sha256}"
    yield ""
    yield from provenance.verdict


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


def _in_lines(items: Iterable[str], width: int = 96) -> list[str]:
    """Join items, each with a comma behind it, into lines."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) + 2 <= width:
            lines[-1] += f" {item},"
        else:
            lines.append(f"{item},")
    return lines


def _helpers(name: str, texts: Sequence[str]) -> Iterator[str]:
    called, wanted = "\n".join(texts), list[str]()
    for helper, text in reversed(_HELPERS.items()):  # one may call those before it
        if f"{name}_{helper}(" in called:
            wanted.append(text.format(name))
            called += wanted[-1]
    for text in reversed(wanted):
        yield ""
        yield f"static inline {text}"


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

    def file(self, name: str) -> str:
        """Return the path of a kernel's file, relative to the header."""
        return f"{self._dispatcher.name}/{self._dispatcher.item}s/{name}"

    def words(self) -> Iterator[str]:
        """Write an enumeration for each feature that is a word."""
        for feature in self._dispatcher.features:
            if feature.type is Type.WORD:
                other = f"{self._dispatcher.name.upper()}_{feature.name.upper()}_OTHER"
                yield f"/* {c_comment(feature.name)}; OTHER stands for all other words. */"
                yield f"enum {self._dispatcher.name}_{feature.name} {{"
                for word in feature.words:
                    constant = feature.c_word(self._dispatcher.name, word)
                    yield f"    {constant}, /* {c_comment(word)} */"
                yield f"    {other}"
                yield "};"
                yield ""

    # -------------------------------------------------------------------------- portfolio

    def members(self) -> Iterator[str]:
        """Write the members of the configuration."""
        for name in self._dispatcher.program.portfolio[0]:
            kind = _member_type(self._values(name))
            yield f"{kind}{'' if kind.endswith('*') else ' '}{member(name)}"

    def portfolio(self) -> Iterator[str]:
        """Write the configurations, members in order."""
        names = list(self._dispatcher.program.portfolio[0])
        types = {name: _member_type(self._values(name)) for name in names}
        for index, config in enumerate(self._dispatcher.program.portfolio):
            values = [_member(config[name], types[name]) for name in names]
            yield f"{{{', '.join(values)}}}, /* {index}: {c_comment(str(config))} */"

    def _values(self, name: str) -> list[Value]:
        return [config[name] for config in self._dispatcher.program.portfolio]

    # ---------------------------------------------------------------------------- columns

    def numbers(self) -> Iterator[str]:
        """Write the columns as an array, with one below all thresholds behind them."""
        for column, text in zip(self._dispatcher.program.columns, self.columns, strict=True):
            yield f"{text}, /* {c_comment(str(column))} */"
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
                return f"{name} == {c_whole(int(word))}"
        return "0"

    # ----------------------------------------------------------------------------- choice

    def tree(self, node: Node, indent: str) -> Iterator[str]:
        """Write a tree as _nested conditions."""
        while isinstance(node, Split):
            comment = comment_on(self._dispatcher.program, node)
            said = f" /* {c_comment(comment)} */" if comment else ""
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
                yield from _within(feature, *ends(tuned, feature))

    def sizes(self, index: int) -> Iterator[str]:
        """Write the sizes of a candidate: the group's, then the grid's."""
        group, grid, *_ = self._dispatcher.sizes[index]
        for number, size in enumerate((*group, *grid)):
            yield f"sizes[{number}] = {self._dispatcher.name}_whole({size.c});"

    def of_memory(self, place: int) -> Iterator[tuple[int, str]]:
        """Write a part of each candidate's sizes: 2, the bytes of dynamic shared memory, or 3, the
        preferred percentage of shared memory; nothing where there are none."""
        for index, parts in enumerate(self._dispatcher.sizes):
            for size in parts[place]:
                yield index, f"{self._dispatcher.name}_whole({size.c})"


def _within(feature: Feature, low: float, high: float) -> Iterator[str]:
    literal = c_real if feature.type is Type.REAL else lambda bound: c_whole(int(bound))
    yield f"{feature.variable} >= {literal(low)}"
    yield f"{feature.variable} <= {literal(high)}"


def _member_type(values: Sequence[Value]) -> str:
    """Choose a C type: a number if all values are numbers, else text."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        wide = any(value not in _INT32 for value in values)
        return "int64_t" if wide else "int"
    return "double" if kinds <= {int, float} else "const char *"


def _member(value: Value, kind: str) -> str:
    if kind == "bool":
        return "true" if value else "false"
    if kind in ("int", "int64_t"):
        assert isinstance(value, int)
        return c_whole(value)
    if kind == "double":
        assert isinstance(value, (int, float))
        return c_real(value)
    return "NULL" if value is None else c_string(shown(value))
