"""Ensembles, forests, and trees too deep for nested conditions, as tables of a C header."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from harness.dispatching.dispatcher import Dispatcher, roots, used_columns
from harness.dispatching.program import EnsembleChoice, ForestChoice, Leaf, TreeChoice
from harness.dispatching.rendering import in_lines
from harness.dispatching.spelling import c_real
from harness.dispatching.tables import Flat, Masks, flat, masks, renumbered

# The product of a single bit and this number has another value in its top bits for every bit
# (Leiserson, Prokop, Randall: Using de Bruijn sequences to index a 1 in a computer word, 1998).
_DE_BRUIJN = {32: (0x077CB531, 27), 64: (0x03F79D71B4CB0A89, 58)}


def deep_tree(
    dispatcher: Dispatcher, choice: TreeChoice, arguments: str
) -> tuple[list[str], list[str]]:
    """Tables of one tree, whose leaves name a row of candidates; and how they are used."""
    name = dispatcher.name
    orders: dict[tuple[int, ...], int] = {}
    root = renumbered(choice.root, _places(dispatcher))
    table = flat([root], lambda leaf: orders.setdefault(dispatcher.orders(leaf.order), len(orders)))
    lines = _walk(name, table)
    row = f"const int row = {name}_nodes[{name}_leaf(0, numbers)].high;"
    if not dispatcher.is_guarded:
        lines += _array("int", f"{name}_places", [str(order[0]) for order in orders])
        return lines, [row, f"return {name}_places[row];"]
    most = max(1, *map(len, orders))
    lines += [
        "",
        f"static const struct {{ int count, order[{most}]; }} {name}_orders[] = {{",
        *(f"    {{{len(o)}, {{{', '.join(map(str, o or (-1,)))}}}}}," for o in orders),
        "};",
    ]
    told = f"{name}_orders[row].order, {name}_orders[row].count"
    return lines, [row, f"return {name}_first({told}, {arguments});"]


def ensemble(
    dispatcher: Dispatcher, choice: EnsembleChoice, arguments: str
) -> tuple[list[str], list[str]]:
    """Tables of all candidates' trees, and how the least cost among those that apply is found."""
    name, upper, places = dispatcher.name, dispatcher.name.upper(), _places(dispatcher)
    trees = [renumbered(tree, places) for tree in roots(dispatcher.program)]
    found = masks(trees, range(len(places))) if places else None
    ends = [0, *itertools.accumulate(len(own) for own in choice.trees)]
    lines = _array("double", f"{name}_offsets", map(c_real, choice.offsets))
    lines += ["", "/* Where the trees of each configuration begin, and the end of all. */"]
    lines += _array("int", f"{name}_trees", map(str, ends))
    if found is None:
        lines += _walked(name, upper, flat(trees, lambda leaf: 0))
    else:
        lines += _masked(name, upper, found)
    return lines, _least(dispatcher, arguments)


def forest(
    dispatcher: Dispatcher, choice: ForestChoice, arguments: str
) -> tuple[list[str], list[str]]:
    """Tables of trees that all candidates share, and how the least cost is found."""
    name, upper = dispatcher.name, dispatcher.name.upper()
    rows: list[tuple[float, ...]] = []

    def row(leaf: Leaf) -> int:
        rows.append(leaf.costs)
        return len(rows) - 1

    table = flat([renumbered(tree, _places(dispatcher)) for tree in choice.trees], row)
    leaf = f"{name}_leaf({name}_roots[tree], numbers)"
    return [
        *_walk(name, table),
        *_array("int", f"{name}_roots", map(str, table.roots)),
        "",
        "/* Of each leaf what it adds to the cost of each configuration. */",
        *_rows("double", f"{name}_leaf_costs[][{upper}_COUNT]", (map(c_real, r) for r in rows)),
        *_opening(name, upper),
        f"    for (int place = 0; place < {upper}_COUNT; place++) costs[place] = 0.0;",
        f"    for (int tree = 0; tree < {len(choice.trees)}; tree++) {{",
        f"        const double *more = {name}_leaf_costs[{name}_nodes[{leaf}].high];",
        f"        for (int place = 0; place < {upper}_COUNT; place++) costs[place] += more[place];",
        "    }",
        "}",
    ], _least(dispatcher, arguments)


def _least(dispatcher: Dispatcher, arguments: str) -> list[str]:
    name, upper = dispatcher.name, dispatcher.name.upper()
    skip = [f"    if (!{name}_applies(place, {arguments})) continue;"] * dispatcher.is_guarded
    return [
        f"double costs[{upper}_COUNT];",
        "int best = -1;",
        f"{name}_costs(numbers, costs);",
        f"for (int place = 0; place < {upper}_COUNT; place++) {{",
        *skip,
        "    if (best < 0 || costs[place] < costs[best]) best = place;",
        "}",
        "return best;",
    ]


def _places(dispatcher: Dispatcher) -> dict[int, int]:
    return {column: place for place, column in enumerate(used_columns(dispatcher.program))}


# ------------------------------------------------------------------------------ walked trees


def _walk(name: str, table: Flat) -> list[str]:
    nodes = [
        f"{{{c_real(number)}, {column}, {high}}}"
        for column, number, high in zip(table.column, table.number, table.high, strict=True)
    ]
    return [
        "",
        "/* The low side of a split is the next node; a leaf has the column -1. */",
        f"static const struct {{ double number; int column, high; }} {name}_nodes[] = {{",
        *(f"    {line}" for line in in_lines(nodes)),
        "};",
        "",
        f"static inline int {name}_leaf(int node, const double *numbers) {{",
        f"    while ({name}_nodes[node].column >= 0)",
        f"        node = numbers[{name}_nodes[node].column] <= {name}_nodes[node].number",
        f"                   ? node + 1 : {name}_nodes[node].high;",
        "    return node;",
        "}",
    ]


def _walked(name: str, upper: str, table: Flat) -> list[str]:
    value = f"{name}_nodes[{name}_leaf({name}_roots[tree], numbers)].number"
    return [
        *_walk(name, table),
        *_array("int", f"{name}_roots", map(str, table.roots)),
        *_opening(name, upper),
        *_sums(name, upper, value),
        "}",
    ]


# ------------------------------------------------------------------------------ masked leaves


def _masked(name: str, upper: str, found: Masks) -> list[str]:
    kind, (factor, shift) = f"uint{found.bits}_t", _DE_BRUIJN[found.bits]
    starts = [0, *itertools.accumulate(map(len, found.thresholds))]
    stretches = [f"{{{s.row}, {s.begin}, {s.end}}}" for own in found.stretches for s in own]
    literal = "{:#x}u" if found.bits == 32 else "UINT64_C({:#x})"
    everything, factor_literal = literal.format((1 << found.bits) - 1), literal.format(factor)
    lowest = "word & (~word + 1u)"
    return [
        "",
        "/* QuickScorer (Lucchese and others, SIGIR 2015). Each tree has a word of one bit a leaf.",
        " * A split whose threshold is exceeded clears the leaves of its low side; the lowest bit",
        " * that stays is the leaf that is reached. Splits are sorted by column and threshold:",
        " * how many thresholds of its column a number exceeds says which stretch to apply, and",
        " * from which row of words, which has all splits before it, to begin (-1: none). */",
        f"enum {{ {upper}_TREES = {len(found.values)}, {upper}_COLUMNS = {len(starts) - 1} }};",
        *_array("double", f"{name}_thresholds", _reals(found.thresholds)),
        *_array("int", f"{name}_starts", map(str, starts)),
        *_array("struct { int row, begin, end; }", f"{name}_stretches", stretches),
        *_array(_index_type(found), f"{name}_split_trees", (str(t) for t, _ in found.events)),
        *_array(kind, f"{name}_split_masks", (literal.format(mask) for _, mask in found.events)),
        *_rows(
            kind, f"{name}_rows[][{upper}_TREES]", (map(literal.format, row) for row in found.rows)
        ),
        "",
        "/* The values of the leaves, by tree; in the order of what their bits are hashed to. */",
        *_leaf_values(f"{name}_values", found),
        "",
        "/* How many of some thresholds, which ascend, a number exceeds. */",
        f"static inline int {name}_rank(const double *first, int count, double number) {{",
        "    const double *threshold = first;",
        "    while (count > 1) {",
        "        const int half = count / 2;",
        "        threshold += half * !(number <= threshold[half - 1]);",
        "        count -= half;",
        "    }",
        "    return (int)(threshold - first) + !(number <= *threshold);",
        "}",
        *_opening(name, upper),
        f"    {kind} words[{upper}_TREES];",
        f"    for (int tree = 0; tree < {upper}_TREES; tree++) words[tree] = {everything};",
        f"    for (int column = 0; column < {upper}_COLUMNS; column++) {{",
        f"        const int start = {name}_starts[column];",
        f"        const int count = {name}_starts[column + 1] - start;",
        f"        const int rank = {name}_rank({name}_thresholds + start, count, numbers[column]);",
        "        const int stretch = start + column + rank;",
        f"        const int end = {name}_stretches[stretch].end;",
        *_begin_from_row(name, upper, found),
        f"        for (int split = {name}_stretches[stretch].begin; split < end; split++)",
        f"            words[{name}_split_trees[split]] &= {name}_split_masks[split];",
        "    }",
        f"    for (int tree = 0; tree < {upper}_TREES; tree++) {{",
        f"        const {kind} word = words[tree];",
        f"        words[tree] = ({kind})(({lowest}) * {factor_literal}) >> {shift};",
        "    }",
        *_sums(name, upper, f"{name}_values[tree][words[tree]]"),
        "}",
    ]


def _index_type(found: Masks) -> str:
    """The smaller the tables are, the more of them stays in the caches."""
    return "uint16_t" if len(found.values) < 2**16 else "uint32_t"


def _begin_from_row(name: str, upper: str, found: Masks) -> list[str]:
    if not found.rows:
        return []
    return [
        f"        if ({name}_stretches[stretch].row >= 0)",
        f"            for (int tree = 0; tree < {upper}_TREES; tree++)",
        f"                words[tree] &= {name}_rows[{name}_stretches[stretch].row][tree];",
    ]


def _reals(thresholds: Iterable[Iterable[float]]) -> Iterable[str]:
    return (c_real(threshold) for column in thresholds for threshold in column)


def _rows(kind: str, name: str, rows: Iterable[Iterable[str]]) -> list[str]:
    lines = [f"    {{{', '.join(row)}}}," for row in rows]
    return [f"static const {kind} {name} = {{", *lines, "};"] if lines else []


def _leaf_values(name: str, found: Masks) -> list[str]:
    factor, shift = _DE_BRUIJN[found.bits]
    slots = [(((1 << bit) * factor) % (1 << found.bits)) >> shift for bit in range(found.bits)]
    lines = []
    for values in found.values:
        row = ["0.0"] * found.bits
        for slot, value in zip(slots, values, strict=False):
            row[slot] = c_real(value)
        lines.append(f"    {{{', '.join(row)}}},")
    return [f"static const double {name}[][{found.bits}] = {{", *lines, "};"]


# ------------------------------------------------------------------------------ what both share


def _opening(name: str, upper: str) -> list[str]:
    return [
        "",
        "/* The expected cost of each configuration. */",
        f"static inline void {name}_costs(const double *numbers, double costs[{upper}_COUNT]) {{",
    ]


def _sums(name: str, upper: str, value: str) -> list[str]:
    """The sums of the trees' values, in their order: doubles depend on it."""
    return [
        f"    for (int place = 0; place < {upper}_COUNT; place++) {{",
        f"        double cost = {name}_offsets[place];",
        f"        for (int tree = {name}_trees[place]; tree < {name}_trees[place + 1]; tree++)",
        f"            cost += {value};",
        "        costs[place] = cost;",
        "    }",
    ]


def _array(kind: str, name: str, items: Iterable[str]) -> list[str]:
    lines = [f"    {line}" for line in in_lines(list(items))]
    return [f"static const {kind} {name}[] = {{", *lines, "};"]
