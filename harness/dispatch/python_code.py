"""Write a dispatcher as a Python module that needs nothing but Python."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from harness.core.records import ENVIRONMENT_FIELDS
from harness.core.text import counted
from harness.dispatch import python_tables
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.formulas import TRUE, Formula, Type, is_guarded
from harness.dispatch.nodes import Node, Split
from harness.dispatch.program import WORTH_A_TRY, EnsembleChoice, ForestChoice, TreeChoice
from harness.dispatch.rendering import (
    MAX_NESTED,
    column_names,
    comment_lines,
    nested,
    real_names,
    rendered,
)
from harness.dispatch.spelling import bare, docstring, plain, wrapped
from harness.dispatch.tree_text import comment_on
from harness.models.encoding.columns import LOG2_DIGITS, Column, ColumnKind, LinearTerm, TunedRange
from harness.space_file.workload import CALLS, CHOICE, TITLE

_PROVENANCE = ("databases", "inputs", "choice", "harness_version", "date")

_RATIO = '''

def _ratio(dividend, divisor):
    """Divide as C does; Python raises an error for a division by zero."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or dividend != dividend:
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)
'''


_LOG2 = f'''

def _log2(size):
    """Compute a logarithm to {LOG2_DIGITS} binary digits, as C does."""
    mantissa, exponent = math.frexp(size)
    square, log, digit = 2 * mantissa, exponent - 1.0, 1.0
    for _ in range({LOG2_DIGITS}):
        digit /= 2
        square *= square
        if square >= 2:
            log += digit
            square /= 2
    return log
'''


_DIVISION = '''

def {0}(dividend, divisor):
    """Divide; NaN for a division by zero."""
    return dividend {1} divisor if divisor != 0 else math.nan
'''

_EXTREME = '''

def _{0}(*numbers):
    """Return the {1} number; NaN if one is NaN."""
    return math.nan if any(number != number for number in numbers) else {0}(numbers)
'''

_FLOOR = '''

def _floor(number):
    """Round down; NaN and infinity stay."""
    return math.floor(number) if math.isfinite(number) else number
'''

_SQRT = '''

def _sqrt(number):
    """Return the square root; NaN of a negative number."""
    return math.sqrt(number) if number >= 0 else math.nan
'''

_FUNCTIONS = {
    "_ratio": _RATIO,
    "_log2": _LOG2,
    "_divided": _DIVISION.format("_divided", "/"),
    "_floor_divided": _DIVISION.format("_floor_divided", "//"),
    "_modulo": _DIVISION.format("_modulo", "%"),
    "_min": _EXTREME.format("min", "least"),
    "_max": _EXTREME.format("max", "greatest"),
    "_floor": _FLOOR,
    "_sqrt": _SQRT,
}
"""Helpers of columns, conditions and sizes; the module has only those that it calls."""


def python_module(dispatcher: Dispatcher) -> str:
    """Write the module; `docs/dispatch.md` describes its contents."""
    writer = _PythonWriter(dispatcher)
    provenance, program = dispatcher.provenance, dispatcher.program
    environment = provenance.environment
    tables, choice = writer.tables_and_choice()
    columns = [] if isinstance(program.choice, TreeChoice) else list(writer.columns())
    computed = "\n".join([*columns, *choice])
    sizes = [s.python for plan in dispatcher.sizes for part in plan for s in part]
    called = "\n".join([computed, *(guard.python for guard in dispatcher.guards), *sizes])
    functions = [text for name, text in _FUNCTIONS.items() if re.search(rf"\b{name}\(", called)]
    helpers = [*functions, *tables]
    texts = "\n".join([called, *helpers])
    return rendered(
        "module.py.j2",
        code=writer,
        program=program,
        comment="\n".join(wrapped(map(docstring, comment_lines(dispatcher)))),
        imports=writer.imports(texts),
        name=ascii(dispatcher.name),
        tuned=[f"{t.feature!a}: {_tuned_value(t)}" for t in program.tuned],
        provenance={
            **{name: getattr(environment, name) for name in ENVIRONMENT_FIELDS},
            "kernel_sha256": provenance.program_sha256,
            **{name: getattr(provenance, name) for name in _PROVENANCE},
        },
        functions=ascii(dispatcher.functions),
        symbols=dispatcher.symbols,
        kernels=[f"({k.name!a}, {k.options!a})" for k in dispatcher.kernels],
        is_cached=not isinstance(program.choice, TreeChoice),
        reals=list(writer.conversions(Type.REAL)),
        numbers=list(writer.conversions(Type.WHOLE, Type.REAL)),
        columns=columns,
        choice=choice,
        shortlist=writer.shortlist(),
        worth=repr(WORTH_A_TRY),
        fallback=writer.first(dispatcher.fallback),
        guarded=[
            (index, guard.python)
            for index, guard in enumerate(dispatcher.guards)
            if guard.python != "True"
        ],
        launches=list(writer.launches()),
        shared=list(writer.of_memory(2)),
        carveout=list(writer.of_memory(3)),
        cooperative=dispatcher.is_cooperative,
        loader=f"_{environment.backend}",
        item=dispatcher.item,
        loaded="Kernel" if dispatcher.item == "kernel" else "LaunchedProgram",
        has_loader=dispatcher.has_loader,
        without="kernels" if dispatcher.item == "kernel" else "a launcher",
        helpers=helpers,
        workload_header=_workload_header(dispatcher),
        kinds={f.variable: f.type.name.lower() for f in dispatcher.features},
    )


def _workload_header(dispatcher: Dispatcher) -> str:
    """Return the lines that begin a file of counted calls."""
    columns = [*(feature.name for feature in dispatcher.features), CALLS, CHOICE]
    return f"{TITLE}{dispatcher.name}\n{','.join(columns)}\n"


class _PythonWriter:
    """Writes the parts of a module that depend on the program."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._names = column_names(dispatcher)
        self._reals = real_names(dispatcher)
        self.arguments = ", ".join(f.variable for f in dispatcher.features)

    def conversions(self, *types: Type) -> Iterator[str]:
        """Convert other numbers, such as NumPy's, which round and overflow, to Python's own; a
        fraction in place of a whole number raises TypeError."""
        for feature in self._dispatcher.features:
            if feature.type in types:
                kind = "operator.index" if feature.type is Type.WHOLE else "float"
                yield f"{feature.variable} = {kind}({feature.variable})"

    # ---------------------------------------------------------------------------- columns

    def columns(self) -> Iterator[str]:
        """Write a variable for each feature that is computed with, and for each used column."""
        computed = [self._computed(index) for index in self._names]
        yield from dict.fromkeys(itertools.chain.from_iterable(computed))

    def _computed(self, index: int) -> Iterator[str]:
        """Write the lines that compute one column."""
        column = self._dispatcher.program.columns[index]
        if column.kind not in (ColumnKind.EQUALS, ColumnKind.TWOS):
            for name in dict.fromkeys(column.features):
                yield f"{self._reals[name]} = float({self._dispatcher.feature(name).variable})"
        if column.kind is not ColumnKind.RAW:
            yield f"{self._names[index]} = {self._column(column)}"

    def _column(self, column: Column) -> str:
        if column.kind is ColumnKind.EQUALS:
            return f"{self._dispatcher.feature(column.features[0]).variable} == {column.word!a}"
        if column.kind is ColumnKind.TWOS:
            whole = f"int({self._dispatcher.feature(column.features[0]).variable})"
            return f"float({whole} & -{whole})"
        if column.kind is ColumnKind.LINEAR:
            return " + ".join([repr(column.constant), *map(self._term, column.terms)])
        reals = [self._reals[name] for name in column.features]
        if column.kind is not ColumnKind.RATIO:
            return " * ".join(reals)
        divisor = self._dispatcher.tuned_of(column.features[1])
        is_safe = divisor is not None and not divisor.words and not divisor.holds(0)
        if self._dispatcher.program.choice.predicts_times:
            is_safe = False  # candidates are also listed for inputs outside of the tuned range
        return " / ".join(reals) if is_safe else f"_ratio({', '.join(reals)})"

    def _term(self, term: LinearTerm) -> str:
        number = self._reals[term.feature]
        return f"{term.weight!r} * {f'_log2({number})' if term.is_log else number}"

    # ----------------------------------------------------------------------------- choice

    def tables_and_choice(self) -> tuple[list[str], list[str]]:
        """Write the tables that the choice needs, and the lines from the columns to the chosen
        index."""
        dispatcher = self._dispatcher
        choice = dispatcher.program.choice
        if isinstance(choice, EnsembleChoice):
            tables, lines = python_tables.ensemble(dispatcher, choice, self.arguments)
        elif isinstance(choice, ForestChoice):
            tables, lines = python_tables.forest(dispatcher, choice, self.arguments)
        elif nested(choice.root) > MAX_NESTED:
            tables, lines = python_tables.deep_tree(dispatcher, choice, self.arguments)
        else:
            return [], list(self._tree(choice.root))
        first = list(self.columns()) if isinstance(choice, TreeChoice) else []
        return tables, [*first, self._numbers(), *lines]

    def shortlist(self) -> list[str]:
        """Write the lines from the columns to the costs of the candidates that apply; none for a
        choice that predicts no times."""
        if not self._dispatcher.program.choice.predicts_times:
            return []
        guards = self._dispatcher.guards
        return [self._numbers(), *python_tables.costs_lines(guards, self.arguments)]

    def _numbers(self) -> str:
        return f"numbers = ({''.join(f'{name}, ' for name in self._names.values())})"

    def _tree(
        self, node: Node, indent: str = "", done: frozenset[str] = frozenset()
    ) -> Iterator[str]:
        """Write nested conditions; a column is computed where it is first needed, unless it is
        `done`, because most of many columns are not on the way to a leaf."""
        while isinstance(node, Split):
            lines = [line for line in self._computed(node.column) if line not in done]
            yield from (indent + line for line in lines)
            done |= set(lines)
            yield f"{indent}if {self._condition(node)}:{self._comment(node)}"
            yield from self._tree(node.low, indent + "    ", done)
            node = node.high
        comment = f"  # {counted(node.rows, 'input')}" if node.rows else ""
        order = self._dispatcher.orders(node.order)
        yield f"{indent}return {self.first(order)}{comment}"

    def _condition(self, split: Split) -> str:
        """Write what holds on the low side."""
        name, column = self._names[split.column], self._dispatcher.program.columns[split.column]
        if column.kind is ColumnKind.EQUALS and 0 <= split.threshold < 1:
            return f"not {name}"
        return f"{name} <= {float(split.threshold)!r}"

    def _comment(self, split: Split) -> str:
        comment = comment_on(self._dispatcher.program, split)
        return f"  # {plain(comment)}" if comment else ""

    def first(self, order: Sequence[int]) -> str:
        """Write the expression for the first candidate of an order that applies."""
        if order and self._dispatcher.guards[order[0]] == TRUE:
            return str(order[0])
        return f"_first({tuple(order)!r}, {self.arguments})"

    # ------------------------------------------------------------------ ranges and launches

    def tuned(self) -> Iterator[str]:
        """Write the conditions of the tuned range."""
        for tuned in self._dispatcher.program.tuned:
            name = self._dispatcher.feature(tuned.feature).variable
            if tuned.words:
                yield f"{name} in {tuned.words!a}"
            else:
                yield f"{_number(tuned.low)} <= {name} <= {_number(tuned.high)}"

    def launches(self) -> Iterator[str]:
        """Write the sizes of each candidate."""
        for index, (group, grid, *_) in enumerate(self._dispatcher.sizes):
            yield f"{'elif' if index else 'if'} index == {index}:"
            yield f"    group = ({_bare_list(group)})"
            yield f"    grid = ({_bare_list(grid)})"
        if self._dispatcher.sizes:
            yield "else:"
            yield '    raise ValueError(f"there is no configuration {index}")'

    def of_memory(self, place: int) -> Iterator[tuple[int, str]]:
        """Write a part of each candidate's sizes: 2, the bytes of dynamic shared memory, or 3, the
        preferred percentage of shared memory; nothing where there are none."""
        for index, parts in enumerate(self._dispatcher.sizes):
            yield from ((index, bare(size.python)) for size in parts[place])

    # ---------------------------------------------------------------------------- imports

    def imports(self, texts: str) -> list[str]:
        """List the standard-library modules that are needed."""
        is_cached = not isinstance(self._dispatcher.program.choice, TreeChoice)
        needs_math = "math." in texts
        has_numbers = bool(self._dispatcher.sizes) or is_guarded(self._dispatcher.guards)
        needs_index = has_numbers and any(f.type is Type.WHOLE for f in self._dispatcher.features)
        needs_sys = self._dispatcher.has_loader
        return (
            ["functools"] * is_cached
            + ["math"] * needs_math
            + ["operator"] * needs_index
            + ["os"]
            + ["sys"] * needs_sys
        )


def _bare_list(sizes: Sequence[Formula]) -> str:
    listed = ", ".join(bare(size.python) for size in sizes)
    return f"{listed}," if len(sizes) == 1 else listed


def _tuned_value(tuned: TunedRange) -> str:
    return ascii(tuned.words) if tuned.words else f"({_number(tuned.low)}, {_number(tuned.high)})"


def _number(bound: float) -> str:
    """Write a bound as short as possible: 16, which compares as 16.0 does."""
    return str(int(bound)) if bound == int(bound) and abs(bound) < 1e15 else repr(float(bound))
