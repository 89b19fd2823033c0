"""Ensembles, forests, and trees too deep for nested conditions, as tables of a C header."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.formulas import is_guarded
from harness.dispatch.program import WORTH_A_TRY, EnsembleChoice, ForestChoice, TreeChoice
from harness.dispatch.rendering import in_lines
from harness.dispatch.spelling import c_real
from harness.dispatch.tables import Flat, Ranked, flat, ranked

_ABREAST = 8  # trees walked in step: as many as a processor has registers for their nodes


def deep_tree(
    dispatcher: Dispatcher, choice: TreeChoice, arguments: str
) -> tuple[list[str], list[str]]:
    """Write one tree as tables whose leaves name a row of candidates; also return the lines that
    use them."""
    name = dispatcher.name
    orders: dict[tuple[int, ...], int] = {}
    table = flat(
        choice.trees,
        lambda leaf: orders.setdefault(dispatcher.orders(leaf.order), len(orders)),
    )
    lines = _walk(name, table)
    row = f"const int row = {name}_nodes[{name}_leaf(0, numbers)].high;"
    if not is_guarded(dispatcher.guards):
        lines += _array("int", f"{name}_indices", [str(order[0]) for order in orders])
        return lines, [row, f"return {name}_indices[row];"]
    most = max(1, *map(len, orders))
    lines += [
        "",
        f"static const struct {{ int count, order[{most}]; }} {name}_orders[] = {{",
        *(f"    {{{len(o)}, {{{', '.join(map(str, o or (-1,)))}}}}}," for o in orders),
        "};",
    ]
    order = f"{name}_orders[row].order, {name}_orders[row].count"
    return lines, [row, f"return {name}_first({order}, {arguments});"]


def ensemble(
    dispatcher: Dispatcher, choice: EnsembleChoice, arguments: str
) -> tuple[list[str], list[str]]:
    """Write all candidates' trees as tables; also return the lines that find the least cost among
    the candidates that apply."""
    name, upper = dispatcher.name, dispatcher.name.upper()
    found = ranked(choice.trees, len(dispatcher.program.columns))
    ends = [0, *itertools.accumulate(len(own) for own in choice.by_candidate)]
    values = (c_real(leaf.value) if leaf else "0.0" for leaf in found.leaves)
    return [
        *_walk_abreast(name, upper, found),
        "",
        "/* For each configuration its offset and where its trees begin, then their end; for each",
        " * leaf its value. */",
        *_array("double", f"{name}_offsets", map(c_real, choice.offsets)),
        *_array("int", f"{name}_trees", map(str, ends)),
        *_array("double", f"{name}_values", values),
        *_opening(name, upper),
        f"    for (int index = 0; index < {upper}_COUNT; index++) {{",
        f"        double cost = {name}_offsets[index];",
        f"        for (int tree = {name}_trees[index]; tree < {name}_trees[index + 1]; tree++)",
        f"            cost += {name}_values[leaves[tree]];",
        "        costs[index] = cost;",
        "    }",
        "}",
    ], _least(dispatcher, arguments)


def forest(
    dispatcher: Dispatcher, choice: ForestChoice, arguments: str
) -> tuple[list[str], list[str]]:
    """Write the trees that all candidates share as tables; also return the lines that find the
    least cost."""
    name, upper = dispatcher.name, dispatcher.name.upper()
    found = ranked(choice.trees, len(dispatcher.program.columns))
    rows = list(itertools.accumulate((leaf is not None for leaf in found.leaves), initial=0))
    costs = (map(c_real, leaf.costs) for leaf in found.leaves if leaf)
    return [
        *_walk_abreast(name, upper, found),
        "",
        "/* For each leaf the row of costs that it adds. */",
        *_array(_unsigned(rows[-1]), f"{name}_leaf_rows", map(str, rows[:-1])),
        *_rows("double", f"{name}_leaf_costs[][{upper}_COUNT]", costs),
        *_opening(name, upper),
        f"    for (int index = 0; index < {upper}_COUNT; index++) costs[index] = 0.0;",
        f"    for (int tree = 0; tree < {len(choice.trees)}; tree++) {{",
        f"        const double *more = {name}_leaf_costs[{name}_leaf_rows[leaves[tree]]];",
        f"        for (int index = 0; index < {upper}_COUNT; index++) costs[index] += more[index];",
        "    }",
        "}",
    ], _least(dispatcher, arguments)


def _least(dispatcher: Dispatcher, arguments: str) -> list[str]:
    name, upper = dispatcher.name, dispatcher.name.upper()
    skip = [f"    if (!{name}_applies(index, {arguments})) continue;"]
    return [
        f"double costs[{upper}_COUNT];",
        "int best = -1;",
        f"{name}_costs(numbers, costs);",
        f"for (int index = 0; index < {upper}_COUNT; index++) {{",
        *skip * is_guarded(dispatcher.guards),
        "    if (best < 0 || costs[index] < costs[best]) best = index;",
        "}",
        "return best;",
    ]


def shortlist(dispatcher: Dispatcher, arguments: str) -> list[str]:
    """Write the lines from the numbers to the list of candidates that are worth a try."""
    name, upper = dispatcher.name, dispatcher.name.upper()
    guard = [f"    if (!{name}_applies(index, {arguments})) costs[index] = DBL_MAX;"]
    return [
        f"double costs[{upper}_COUNT], least = DBL_MAX;",
        "int count = 0;",
        f"{name}_costs(numbers, costs);",
        f"for (int index = 0; index < {upper}_COUNT; index++) {{",
        *guard * is_guarded(dispatcher.guards),
        "    if (costs[index] < least) least = costs[index];",
        "}",
        f"if (most > 0 && !{name}_is_tuned({arguments})) {{",
        f"    const int next = {name}_fallback_choice({arguments});",
        "    if (next < 0) return 0;",
        "    top[count++] = next;",
        "    costs[next] = DBL_MAX;",
        "}",
        "while (count < most) {",
        "    int next = -1;",
        f"    for (int index = 0; index < {upper}_COUNT; index++)",
        f"        if (costs[index] < DBL_MAX && costs[index] - least <= {c_real(WORTH_A_TRY)}",
        "            && (next < 0 || costs[index] < costs[next])) next = index;",
        "    if (next < 0) break;",
        "    top[count++] = next;",
        "    costs[next] = DBL_MAX;",
        "}",
        "return count;",
    ]


# ------------------------------------------------------------------------------ one deep tree


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


# ------------------------------------------------------------------------------ many trees


def _walk_abreast(name: str, upper: str, found: Ranked) -> list[str]:
    """Write the tables of trees, and the code that finds the leaf of each."""
    rank_type = _unsigned(max(1, *map(len, found.thresholds)))
    return [*_ranked_tables(name, upper, found, rank_type), *_walk_code(name, upper, rank_type)]


def _ranked_tables(name: str, upper: str, found: Ranked, rank_type: str) -> list[str]:
    thresholds = [own or (0.0,) for own in found.thresholds]
    starts = [0, *itertools.accumulate(map(len, thresholds))]
    missing = -len(found.roots) % _ABREAST
    deepest = [max(part) for part in _parts(found.depths)]
    members = (
        f"{_unsigned(len(thresholds) - 1)} column; {rank_type} rank; "
        f"{_unsigned(max(step for _, _, step in found.nodes))} step;"
    )
    nodes = (f"{{{column}, {rank}, {step}}}" for column, rank, step in found.nodes)
    return [
        "",
        "/* Trees over ranks: a number's rank counts the thresholds of its column that it exceeds.",
        " * A split's low side is `step` nodes on, its high side is next to that. A leaf, whose",
        " * rank is never exceeded, steps to itself, so that trees of different depths are walked",
        " * in step, without a branch (Asadi, Lin, de Vries, IEEE TKDE 2014). */",
        f"enum {{ {upper}_COLUMNS = {len(thresholds)}, {upper}_TREES = {len(found.roots)} }};",
        *_array("double", f"{name}_thresholds", (c_real(n) for own in thresholds for n in own)),
        *_array("int", f"{name}_starts", map(str, starts)),
        *_array(f"struct {{ {members} }}", f"{name}_nodes", nodes),
        *_array("int", f"{name}_roots", map(str, (*found.roots, *[0] * missing))),
        "",
        f"/* The depth of the deepest of each {_ABREAST} trees. */",
        *_array("int", f"{name}_depths", map(str, deepest)),
    ]


def _walk_code(name: str, upper: str, rank_type: str) -> list[str]:
    at = [f"at_{tree}" for tree in range(_ABREAST)]
    return [
        "",
        f"static inline int {name}_rank(const double *first, int count, double number) {{",
        "    const double *threshold = first;",
        "    while (count > 1) {",
        "        const int half = count / 2;",
        "        threshold += half * !(number <= threshold[half - 1]);",
        "        count -= half;",
        "    }",
        "    return (int)(threshold - first) + !(number <= *threshold);",
        "}",
        "",
        f"static inline int {name}_next(const {rank_type} *ranks, int node) {{",
        f"    const int is_high = ranks[{name}_nodes[node].column] > {name}_nodes[node].rank;",
        f"    return node + {name}_nodes[node].step + is_high;",
        "}",
        "",
        f"/* Find each tree's leaf; `leaves` has room for a multiple of {_ABREAST}. */",
        f"static inline void {name}_walk(const double *numbers, int *leaves) {{",
        f"    {rank_type} ranks[{upper}_COLUMNS];",
        f"    for (int column = 0; column < {upper}_COLUMNS; column++) {{",
        f"        const int start = {name}_starts[column];",
        f"        const int count = {name}_starts[column + 1] - start;",
        f"        const double *first = {name}_thresholds + start;",
        f"        ranks[column] = ({rank_type}){name}_rank(first, count, numbers[column]);",
        "    }",
        f"    for (int tree = 0; tree < {upper}_TREES; tree += {_ABREAST}) {{",
        *(f"        int {a} = {name}_roots[tree + {index}];" for index, a in enumerate(at)),
        f"        for (int depth = {name}_depths[tree / {_ABREAST}]; depth > 0; depth--) {{",
        *(f"            {a} = {name}_next(ranks, {a});" for a in at),
        "        }",
        *(f"        leaves[tree + {index}] = {a};" for index, a in enumerate(at)),
        "    }",
        "}",
    ]


def _parts(depths: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(depths), _ABREAST):
        yield depths[first : first + _ABREAST]


def _unsigned(most: int) -> str:
    """Choose the smallest type: the smaller the tables, the more of them stays in the caches."""
    return next(f"uint{bits}_t" for bits in (8, 16, 32) if most < 2**bits)


def _opening(name: str, upper: str) -> list[str]:
    return [
        "",
        "/* The expected cost of each configuration. */",
        f"static inline void {name}_costs(const double *numbers, double costs[{upper}_COUNT]) {{",
        f"    int leaves[({upper}_TREES + {_ABREAST - 1}) / {_ABREAST} * {_ABREAST}];",
        f"    {name}_walk(numbers, leaves);",
    ]


# ------------------------------------------------------------------------------ arrays


def _rows(kind: str, name: str, rows: Iterable[Iterable[str]]) -> list[str]:
    lines = [f"    {{{', '.join(row)}}}," for row in rows]
    return [f"static const {kind} {name} = {{", *lines, "};"] if lines else []


def _array(kind: str, name: str, items: Iterable[str]) -> list[str]:
    lines = [f"    {line}" for line in in_lines(list(items))]
    return [f"static const {kind} {name}[] = {{", *lines, "};"]
