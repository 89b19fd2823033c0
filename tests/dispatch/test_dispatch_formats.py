"""Dispatchers choose as their programs do, in every language; a new one is a FormatContract."""

import ctypes
import itertools
import math
import random
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import pytest

from harness.constraints.expression import Expression
from harness.core.records import Config, Value
from harness.dispatch.c_code import c_header
from harness.dispatch.choice import Choice, DispatchProgram, Leaf, Split
from harness.dispatch.dispatcher import Dispatcher
from harness.models.columns import Column, ColumnKind, LinearTerm
from tests.helpers.dispatch_examples import (
    SHAPES,
    STRICT,
    column_number,
    costs_of,
    dispatcher_of,
    drawn_input,
    drawn_program,
    mvmul_program,
    order_of,
    python_of,
)

Features = Mapping[str, Value]


@dataclass(frozen=True)
class WrittenChoice:
    """A written dispatcher, as functions of the features of an input.

    `select` returns the index of the configuration, None where none applies; `applies` says whether
    a configuration does; `select_top` returns at most so many indices of the shortlist.
    """

    select: Callable[[Features], int | None]
    applies: Callable[[int, Features], bool]
    select_top: Callable[[int, Features], Sequence[int]]


Write = Callable[[Mapping[str, Dispatcher], Path], Mapping[str, WrittenChoice]]
"""Write dispatchers into a folder, and make them callable, by their names."""

UNDEFINED = (
    "m / (n - 5) < 1",
    "m // (n - 5) > -9 or n == 5",
    "m % (n - 5) == 0",
    "ceil_div(m, n - 5) != 3",
    "not m % (n - 5)",
    "m % (n - 5)",
    "min(m / (n - 5), 2) < 3",
    "max(3, m // (n - 5), m) >= 3",
    "not sqrt(m - 4) < A",
    "ceil(m / (n - 5)) - floor(m * 0.3) < 5",
    "abs(m // (n - 5)) >= 0 if n > 2 else m % n",
)
"""Guards with divisions by zero and roots of negative numbers."""


def selected(program, features):
    """The first of an input's order that applies, else the first of the portfolio that does; None
    if none does: what written code must return."""
    among = applying(program, features)
    return next((index for index in order_of(program, features) if index in among), None)


def listed(program, features, most, among):
    """The candidates that are worth a try, of those that apply: what written code must list."""
    costs = costs_of(program, features)
    least = min((costs[index] for index in among), default=0.0)
    worth = [i for i in sorted(among, key=costs.__getitem__) if costs[i] - least <= math.log(2.0)]
    if not all(tuned.holds(features[tuned.feature]) for tuned in program.tuned):
        worth = [*among[:1], *worth]
    return list(dict.fromkeys(worth))[:most]


def applying(program, features):
    """The candidates whose guards hold."""
    return [
        index
        for index, guards in enumerate(program.guards)
        if all(_parsed(guard).holds({**program.portfolio[index], **features}) for guard in guards)
    ]


@lru_cache(maxsize=1024)
def _parsed(guard):
    return Expression(guard)


@dataclass(frozen=True)
class Case:
    """What a dispatcher must select for an input, and list, where that is defined."""

    name: str
    values: Features
    selected: int | None
    listed: list[int] | None = None


@cache
def drawn_cases(seed):
    """Dispatchers of all shapes, and cases of each: slow, and the same for all languages."""
    rng = random.Random(seed)
    inputs = [drawn_input(rng) for _ in range(60)]
    made, cases = {}, []
    for shape in SHAPES:
        name = f"p{len(made)}"
        program = drawn_program(rng, inputs, *shape)
        made[name] = dispatcher_of(program, name)
        for values in inputs:
            index, worth = selected(program, values), None
            if program.choice.predicts_times and index is not None:
                worth = listed(program, values, 3, applying(program, values))
                assert worth[0] == index
            cases.append(Case(name, values, index, worth))
    return made, cases


class FormatContract:
    """Tests of a language: a subclass, or its module, has the fixture `write`."""

    @pytest.mark.parametrize(
        "seed",
        [
            2221176272,  # a logarithm of a size below 0, which once never ended in C
            pytest.param(1, marks=pytest.mark.slow),
        ],
    )
    def test_code_agrees_with_its_program_on_and_beside_thresholds(self, write, tmp_path, seed):
        made, cases = drawn_cases(seed)
        choices = write(made, tmp_path)
        for case in cases:
            choice = choices[case.name]
            assert choice.select(case.values) == case.selected, case
            if case.listed is not None:
                assert list(choice.select_top(3, case.values)) == case.listed, case
                assert list(choice.select_top(-2, case.values)) == []

    def test_logarithms_have_the_same_bits(self, write, tmp_path):
        """A threshold at the number of an input, and the double below it."""
        terms = (LinearTerm("m", -0.1), LinearTerm("m", 0.7, is_log=True))
        column = Column(ColumnKind.LINEAR, ("m",), constant=0.3, terms=terms)
        configs = (Config({"A": 1}), Config({"A": 2}))
        made, cases = {}, []
        for m in (3, 7, 1000, 4321):
            values = {"m": m, "n": 9, "s": 0.5, "t": "half"}
            number = column_number(column, values)
            assert number == pytest.approx(0.3 - 0.1 * m + 0.7 * math.log2(m), rel=1e-7)
            for side, threshold in enumerate((number, math.nextafter(number, -math.inf))):
                split = Split(0, threshold, Leaf((0.0, 1.0)), Leaf((1.0, 0.0)))
                tree = Choice.of_trees([split], predicts_times=False)
                name = f"at_{m}_{side}"
                program = DispatchProgram((column,), (), configs, tree, ((), ()))
                made[name] = dispatcher_of(program, name)
                cases.append(Case(name, values, side))
        choices = write(made, tmp_path)
        for case in cases:
            assert choices[case.name].select(case.values) == case.selected, case

    def test_a_number_without_a_value_is_none(self, write, tmp_path):
        count = len(UNDEFINED)
        configs = tuple(Config({"A": 2, "B": k}) for k in range(count))
        guards = tuple((guard,) for guard in UNDEFINED)
        program = DispatchProgram((), (), configs, Choice.in_order(count), guards)
        choice = write({"p": dispatcher_of(program, "p")}, tmp_path)["p"]
        for m, n in itertools.product(range(-2, 9), range(8)):
            values = {"m": m, "n": n, "s": 0.5, "t": "half"}
            applied = [index for index in range(count) if choice.applies(index, values)]
            assert applied == applying(program, values), values


class TestPython(FormatContract):
    @pytest.fixture(scope="class")
    @classmethod
    def write(cls):
        return lambda made, _: {name: _of_module(python_of(d)) for name, d in made.items()}

    def test_a_choice_without_times_has_no_shortlist(self):
        with pytest.raises(ValueError, match="no times"):
            python_of(dispatcher_of(mvmul_program(), "p")).select_top(3, m=4, n=4, s=0.5, t="half")


def _of_module(module):
    def select(values):
        try:
            index = module.select_index(**values)
        except LookupError:
            return None
        assert module.select(**values) == module.PORTFOLIO[index]
        return int(index)

    return WrittenChoice(
        select,
        lambda index, values: module.applies(index, **values),
        lambda most, values: module.select_top(most, **values),
    )


class TestC(FormatContract):
    compiler = ("cc", "-std=c99")

    @pytest.fixture(scope="class")
    @classmethod
    def write(cls):
        def write_headers(made, folder):
            headers = {name: c_header(dispatcher) for name, dispatcher in made.items()}
            library = compiled(folder, headers, cls.compiler)
            return {name: _of_library(library, dispatcher) for name, dispatcher in made.items()}

        return write_headers


class TestCpp(TestC):
    compiler = ("c++", "-std=c++11", "-x", "c++")


# A function of each dispatcher that ctypes calls.
EXPORTED = """
#include "NAME.h"
EXPORT int select_NAME(GIVEN) { return NAME_select(m, n, s, t); }
EXPORT int applies_NAME(int index, GIVEN) { return NAME_applies(index, m, n, s, t); }
"""
EXPORTED_TOP = """
EXPORT int top_NAME(int *top, int most, GIVEN) { return NAME_select_top(top, most, m, n, s, t); }
"""
GIVEN = "int64_t m, int64_t n, double s, enum NAME_t t"
EXPORT = """\
#ifdef __cplusplus
#define EXPORT extern "C"
#else
#define EXPORT
#endif
"""


def compiled(folder, headers, compiler):
    """Compile a library with the functions of the headers' dispatchers."""
    source = EXPORT
    for name, text in headers.items():
        (folder / f"{name}.h").write_text(text)
        source += EXPORTED.replace("GIVEN", GIVEN).replace("NAME", name)
        if f"{name}_select_top(" in text:
            source += EXPORTED_TOP.replace("GIVEN", GIVEN).replace("NAME", name)
    (folder / "all.c").write_text(source)
    command = [*compiler, *STRICT, "-shared", "-fPIC", "all.c", "-o", "all.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "all.so"))


def _of_library(library, dispatcher):
    select, applies, top = (f"{what}_{dispatcher.name}" for what in ("select", "applies", "top"))
    words = dispatcher.feature("t").words

    def call(function, values, *first):
        """Call a function of an input: a word is its index, that of others behind them."""
        word = words.index(values["t"]) if values["t"] in words else len(words)
        sizes = (ctypes.c_int64(values[name]) for name in "mn")
        return getattr(library, function)(*first, *sizes, ctypes.c_double(values["s"]), word)

    def selected_by(values):
        index = call(select, values)
        return None if index < 0 else index

    def top_by(most, values):
        found = (ctypes.c_int * most)() if most > 0 else None
        count = call(top, values, found, most)
        return list(found[:count]) if found else []

    return WrittenChoice(
        selected_by, lambda index, values: bool(call(applies, values, index)), top_by
    )
