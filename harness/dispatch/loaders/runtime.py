"""Choose a configuration for an input, as the JSON file beside this module says.

All functions take the features of an input in the file's order, or by name.
"""

from __future__ import annotations

import functools
import importlib
import json
import keyword
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.dispatch.loaders.expressions import compiled, in_order

_FILES = list(Path(__file__).resolve().parent.glob("*.json"))
if len(_FILES) != 1:
    raise ImportError(f"{__file__} needs one JSON file beside it, but there are {len(_FILES)}")

_FORMAT = 2

try:
    DATA: dict[str, Any] = json.loads(_FILES[0].read_text(encoding="utf-8"))
    """The file; docs/reference/dispatcher.md of harness describes it."""
except ValueError as error:
    raise ImportError(f"{_FILES[0]} is damaged: {error}; write it again") from None
if not isinstance(DATA, dict) or DATA.get("format") != _FORMAT:
    raise ImportError(f"{_FILES[0]} has not the format {_FORMAT}, which this module reads")

NAME: str = DATA["name"]

PORTFOLIO: tuple[dict[str, Any], ...] = tuple(c["parameters"] for c in DATA["configurations"])
"""The configurations to choose from."""

STATIC = 0
"""The index of the best single one, used for inputs outside of the tuned range."""

FEATURES: tuple[str, ...] = tuple(feature["name"] for feature in DATA["features"])

PROVENANCE: dict[str, Any] = {**DATA["provenance"], "harness_version": DATA["harness"]}


@functools.cache
def _of_configuration(index: int, text: str) -> Callable[..., Any]:
    if not 0 <= index < len(PORTFOLIO):
        raise ValueError(f"there is no configuration {index}")
    try:
        return compiled(text, FEATURES, {**DATA["constants"], **PORTFOLIO[index]})
    except (SyntaxError, TypeError, ValueError, RecursionError) as error:
        where = f"{_FILES[0]}, configuration {index}"
        raise ValueError(f"{where}: `{text!s:.60}` cannot be used: {error}") from None


def _own(text: str) -> Callable[..., Any]:
    """Make a function from an expression that this module wrote, in which f0 is a feature."""
    return compiled(text, [f"f{index}" for index in range(len(FEATURES))], None)


# -------------------------------------------------------------------- columns, trees, ranges


def _range_text(index: int, feature: Mapping[str, Any]) -> str:
    if feature["words"] is not None:
        return f"f{index} in {feature['words']!r}"
    if feature["tuned"] is None:
        return "true"
    if feature["type"] == "whole":
        low, high = math.ceil(feature["tuned"][0]), math.floor(feature["tuned"][1])
        return f"{low} <= f{index} <= {high}"
    low, high = map(float, feature["tuned"])
    return f"{low!r} <= f{index} <= {high!r}"


def _column_text(column: Mapping[str, Any], is_tuned: bool) -> str:
    """Write a column as an expression, in which `1.0` makes whole numbers real ones; `is_tuned` if
    only inputs in the tuned range come to it."""
    first, *others = [f"f{FEATURES.index(name)}" for name in column["features"]]
    if column["kind"] == "equals":
        return f"({first} == {column['word']!r})"
    if column["kind"] == "twos":
        return f"twos({first})"
    if column["kind"] == "ratio":
        divisor = DATA["features"][FEATURES.index(column["features"][1])]["tuned"]
        if is_tuned and divisor and not divisor[0] <= 0 <= divisor[1]:
            return f"1.0 * {first} / {others[0]}"
        return f"ratio(1.0 * {first}, 1.0 * {others[0]})"
    if column["kind"] == "linear":
        numbers = [f"f{FEATURES.index(term['feature'])}" for term in column["terms"]]
        factors = [
            f"{t['weight']!r} * {f'log2({number})' if t['is_log'] else number}"
            for t, number in zip(column["terms"], numbers, strict=True)
        ]
        return " + ".join([repr(column["constant"]), *factors])
    return " * ".join(["1.0", first, *others])


def _tree_text(nodes: Sequence[Any], index: int, columns: Sequence[str]) -> str:
    """Write the tree below a node as an expression, which gives an index of `_ORDERS`."""
    node = nodes[index]
    if isinstance(node, list):
        low, high = (_tree_text(nodes, side, columns) for side in node[2:])
        column = DATA["columns"][node[0]]
        if column["kind"] == "equals" and 0 <= node[1] < 1:
            return f"({high} if {columns[node[0]]} else {low})"
        return f"({low} if {columns[node[0]]} <= {node[1]!r} else {high})"
    _ORDERS.append(tuple(sorted(range(len(PORTFOLIO)), key=node["costs"].__getitem__)))
    return str(len(_ORDERS) - 1)


def _depth(nodes: Sequence[Any]) -> int:
    depths = [0] * len(nodes)
    for index, node in enumerate(nodes):  # sides come behind their splits
        for side in node[2:] if isinstance(node, list) else ():
            depths[side] = depths[index] + 1
    return max(depths)


_MAX_NESTED = 40  # conditions of a tree that is compiled: Python's parser has a limit
_OFFSETS: list[float] = DATA["choice"]["offsets"]
_WORTH: float | None = DATA["choice"]["worth_a_try"]
_TREES = [(tree["configuration"], tree["nodes"]) for tree in DATA["choice"]["trees"]]
_SORTS = len(_TREES) == 1 and _TREES[0][0] is None and _WORTH is None and not any(_OFFSETS)
_IS_TREE = _SORTS and _depth(_TREES[0][1]) <= _MAX_NESTED
_ORDERS: list[tuple[int, ...]] = []
_ranges = " and ".join(_range_text(i, f) for i, f in enumerate(DATA["features"])) or "true"
_texts = [_column_text(column, _IS_TREE) for column in DATA["columns"]]
_tree = _tree_text(_TREES[0][1], 0, _texts) if _IS_TREE else "0"
_ORDERS.append(tuple(range(len(PORTFOLIO))))  # outside of the tuned range
_row = _own(f"{_tree} if {_ranges} else -1")
_columns = _own(f"[{', '.join(_texts)}]")
_GUARDS = [
    _of_configuration(index, f"true and ({') and ('.join(c['guards'])})") if c["guards"] else None
    for index, c in enumerate(DATA["configurations"])
]


def _costs(values: tuple[Any, ...]) -> dict[int, float]:
    """Return the cost of each configuration that applies."""
    numbers, costs = _columns(*values), list(_OFFSETS)
    for place, nodes in _TREES:
        node = nodes[0]
        while type(node) is list:
            node = nodes[node[2] if numbers[node[0]] <= node[1] else node[3]]
        if place is None:
            costs = [cost + more for cost, more in zip(costs, node["costs"], strict=True)]
        else:
            costs[place] += node["costs"][0]
    return {index: cost for index, cost in enumerate(costs) if _first([index], values) == index}


# ------------------------------------------------------------------------------- one input


_NAMED = [f"{name}_" if keyword.iskeyword(name) else name for name in FEATURES]
_PLAIN = [{"whole": int, "real": float, "word": str}[f["type"]] for f in DATA["features"]]
_in_order = in_order(_NAMED)


def _input(arguments: tuple[Any, ...], features: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the features of an input in order, as Python's own numbers and words; raises
    TypeError."""
    values = arguments
    try:
        if features or len(values) != len(_NAMED):  # else there is nothing to sort
            values = _in_order(*arguments, **features)
    except TypeError:
        raise TypeError(f"the features of {NAME} are {', '.join(_NAMED)}") from None
    if [*map(type, values)] == _PLAIN:
        return values
    return tuple(map(_converted, _NAMED, _PLAIN, values))


def _converted(name: str, plain: type, value: Any) -> Any:
    """Convert a value of another type, such as NumPy's numbers, which round and overflow."""
    try:
        number = plain(value)
        if plain is str or (number == value or (plain is float and not isinstance(value, str))):
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    kind = "whole number" if plain is int else "number"
    raise TypeError(f"the feature {name} of {NAME} is {value!r:.60}, but must be a {kind}")


def _first(order: Sequence[int], values: tuple[Any, ...]) -> int:
    """Return the first configuration of an order that applies; -1 if none does."""
    for index in order:
        guard = _GUARDS[index]
        if guard is None or guard(*values):
            return index
    return -1


@functools.lru_cache(maxsize=4096)
def _least(values: tuple[Any, ...]) -> int:
    costs = _costs(values)
    return min(costs, key=costs.__getitem__, default=-1)


def _choose(values: tuple[Any, ...]) -> int:
    row = _row(*values)
    return _first(_ORDERS[row], values) if _IS_TREE or row < 0 else _least(values)


def _found(values: tuple[Any, ...], index: int) -> int:
    """Count a choice; raises LookupError for none."""
    if _counter is not None:
        _counter.add(values, index)
    if index < 0:
        raise LookupError(
            f"no configuration of {NAME} applies to this input: constraints or limits of the "
            "device rule out all of them"
        )
    return index


# ------------------------------------------------------------------------------- functions


def select(*arguments: Any, **features: Any) -> dict[str, Any]:
    """Return the configuration for an input; raises LookupError if none applies."""
    return dict(PORTFOLIO[select_index(*arguments, **features)])


def select_index(*arguments: Any, **features: Any) -> int:
    """Return the index in PORTFOLIO of the configuration for an input; raises LookupError if none
    applies."""
    values = _input(arguments, features)
    return _found(values, _choose(values))


def select_top(most: int, /, *arguments: Any, **features: Any) -> tuple[int, ...]:
    """Return up to `most` indices in PORTFOLIO that are worth a try on an input, likeliest first.

    The first is what select_index returns. Others are predicted to take at most twice the least
    time, so more than one means that the choice is unsure; none if `most` is below 1. Raises
    LookupError if none applies, and ValueError for a choice that predicts no times.
    """
    if _WORTH is None:
        raise ValueError(
            f"{NAME} predicts no times, so there is no shortlist to try; write it with "
            "harness.dispatch --choice ensemble"
        )
    values = _input(arguments, features)
    costs, first = _costs(values), _choose(values)
    if first < 0:
        _found(values, first)
    most_cost = min(costs.values()) + _WORTH
    order = [index for index in sorted(costs, key=costs.__getitem__) if costs[index] <= most_cost]
    return tuple(dict.fromkeys((first, *order)))[: max(most, 0)]


def fallback_index(*arguments: Any, **features: Any) -> int:
    """Return the index of the best single configuration or, where it does not apply, of another;
    raises LookupError if none applies."""
    values = _input(arguments, features)
    return _found(values, _first(_ORDERS[-1], values))


def leaf_index(*arguments: Any, **features: Any) -> int:
    """Return which leaf of the tree an input is in: 0 for all inputs where the choice is no tree,
    and -1 outside of the tuned range."""
    return int(_row(*_input(arguments, features)))


def is_tuned(*arguments: Any, **features: Any) -> bool:
    """Say whether an input lies in the tuned range."""
    return leaf_index(*arguments, **features) >= 0


def serves(device: str, platform: str) -> bool:
    """Say whether to use select_index on a device that was not tuned, rather than fallback_index:
    if the tuned device has its vendor, which is the first word of the platform."""
    return str(PROVENANCE["platform"]).split(" ")[0] == platform.split(" ")[0]


def applies(index: int, /, *arguments: Any, **features: Any) -> bool:
    """Say whether a configuration may be launched for an input: the space's constraints hold, and
    the tuned device's limits on launches."""
    return index >= 0 and _first([index], _input(arguments, features)) == index


def launch_size(
    index: int, /, *arguments: Any, **features: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the work-items (threads) of a group and the groups of the grid, by dimension, of a
    configuration for an input; raises ValueError if it cannot be launched."""
    values = _input(arguments, features)
    return _launch_part(index, "group", values, 1), _launch_part(index, "grid", values, 1)


def shared_bytes(index: int, /, *arguments: Any, **features: Any) -> int:
    """Return the bytes of dynamic shared memory of a group, in OpenCL of the local pointer, of a
    configuration for an input; raises ValueError if it cannot be launched."""
    return _launch_part(index, "shared", _input(arguments, features), 0)[0]


def carveout(index: int, /, *arguments: Any, **features: Any) -> int:
    """Return the preferred percentage of shared memory (CUDA's carve-out, -1 for the driver's
    choice) of a configuration for an input; raises ValueError if it cannot be launched."""
    return _launch_part(index, "carveout", _input(arguments, features), -1, 100)[0]


def _launch_part(
    index: int, part: str, values: tuple[Any, ...], least: int, most: float = math.inf
) -> tuple[int, ...]:
    texts = (DATA["launch"] or {}).get(part)
    if texts is None:
        raise ValueError(f"{NAME} has no {part} of its launches")
    listed = [texts] if isinstance(texts, str) else texts
    sizes = tuple(_of_configuration(index, text)(*values) for text in listed)
    if not all(least <= size <= most and size == size // 1 for size in sizes):
        limit = f"from {least}" if most == math.inf else f"from {least} to {most}"
        raise ValueError(f"{part} is {sizes}, but must be whole numbers {limit}")
    return tuple(map(int, sizes))


def load(context: Any = None, **options: Any) -> Any:
    """Return the kernel, ready to be called, on the devices of a context, or the program, ready to
    be run; the module beside this one has the options. Raises NotImplementedError for a dispatcher
    that was written without kernels."""
    if DATA["loader"] is None:
        raise NotImplementedError("this dispatcher was written without kernels or a launcher")
    loader = importlib.import_module(f"._{DATA['loader']}", __name__)
    name = "LaunchedProgram" if DATA["loader"] == "command" else "Kernel"
    return getattr(loader, name)(sys.modules[__name__], context, **options)


# ------------------------------------------------------------------------- counted calls

_counter: Any = None


def count_calls(file: str | os.PathLike[str] | None) -> None:
    """Append to a file from now on how often each input comes, and what is chosen; count no more if
    it is None."""
    global _counter
    flush_calls()
    _counter = None
    if file is not None:
        counting = importlib.import_module("._workload", __name__)
        types = {feature["name"]: feature["type"] for feature in DATA["features"]}
        _counter = counting.CallCounter(NAME, types, file)


def flush_calls() -> None:
    """Write what was counted; call it before `os.exec` or `os._exit`."""
    if _counter is not None:
        _counter.flush()


if os.environ.get("HARNESS_WORKLOAD"):
    count_calls(os.path.join(os.environ["HARNESS_WORKLOAD"], f"{NAME}.csv"))
