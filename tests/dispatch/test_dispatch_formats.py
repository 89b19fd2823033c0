"""Dispatchers choose as their programs do, in every language; a new one is a FormatContract."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from harness.core.records import Config, Value
from harness.dispatch.c_code import c_header
from harness.dispatch.choice import Choice, DispatchProgram, Leaf, Split
from harness.dispatch.dispatcher import Dispatcher
from harness.models.columns import Column, ColumnKind, LinearTerm, TunedRange
from tests.helpers.dispatch_examples import (
    SHAPES,
    applying,
    c_arguments,
    column_number,
    compiled,
    dispatcher_of,
    drawn_input,
    drawn_program,
    listed,
    python_of,
    selected,
    top_of,
)

Features: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True)
class WrittenChoice:
    """A written dispatcher, as functions of the features of an input.

    `select` returns the index of the configuration, None where none applies; `applies` says whether
    a configuration does; `select_top` returns at most so many indices of the shortlist.
    """

    select: Callable[[Features], int | None]
    applies: Callable[[int, Features], bool]
    select_top: Callable[[int, Features], Sequence[int]]


Write: TypeAlias = Callable[[Mapping[str, Dispatcher], Path], Mapping[str, WrittenChoice]]
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


class FormatContract:
    """Tests of a language: a subclass, or its module, has the fixture `write`."""

    @settings(
        max_examples=1,
        deadline=None,
        # Each example is compiled: there is no time to make one smaller.
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @example(number=2221176272)  # a logarithm of a size below 0, which once never ended in C
    @given(number=st.integers(0, 2**32))
    def test_code_agrees_with_its_program_on_and_beside_thresholds(
        self, write: Write, tmp_path_factory: pytest.TempPathFactory, number: int
    ) -> None:
        rng = random.Random(number)
        inputs = [drawn_input(rng) for _ in range(60)]
        made = {
            f"p{i}": dispatcher_of(drawn_program(rng, inputs, *shape), f"p{i}")
            for i, shape in enumerate(SHAPES)
        }
        for name, choice in write(made, tmp_path_factory.mktemp("written")).items():
            program = made[name].program
            for values in inputs:
                wanted, among = selected(program, values), applying(program, values)
                assert choice.select(values) == wanted, (name, values)
                if program.choice.predicts_times and wanted is not None:
                    worth = list(choice.select_top(3, values))
                    assert worth == listed(program, values, 3, among), (name, values)
                    assert worth[0] == wanted, "the first is what is selected"
                    assert list(choice.select_top(-2, values)) == []

    def test_logarithms_have_the_same_bits(self, write: Write, tmp_path: Path) -> None:
        """A threshold at the number of an input, and the double below it."""
        terms = (LinearTerm("m", -0.1), LinearTerm("m", 0.7, is_log=True))
        column = Column(ColumnKind.LINEAR, ("m",), constant=0.3, terms=terms)
        made, inputs = {}, {}
        for m in (3, 7, 1000, 4321):
            values: Features = {"m": m, "n": 9, "s": 0.5, "t": "half"}
            number = column_number(column, values)
            assert number == pytest.approx(0.3 - 0.1 * m + 0.7 * math.log2(m), rel=1e-7)
            for side, threshold in enumerate((number, math.nextafter(number, -math.inf))):
                split = Split(0, threshold, Leaf((0.0, 1.0)), Leaf((1.0, 0.0)))
                tree = Choice.of_trees([split], predicts_times=False)
                tuned = (TunedRange("m", 2, 4500), TunedRange("t", words=("half", "float")))
                configs = (Config({"A": 1}), Config({"A": 2}))
                program = DispatchProgram((column,), tuned, configs, tree, ((), ()))
                name = f"at_{m}_{side}"
                made[name] = dispatcher_of(program, name)
                inputs[name] = values, side
        for name, choice in write(made, tmp_path).items():
            values, side = inputs[name]
            assert choice.select(values) == side, name

    def test_a_number_without_a_value_is_none(self, write: Write, tmp_path: Path) -> None:
        count = len(UNDEFINED)
        configs = tuple(Config({"A": 2, "B": k}) for k in range(count))
        guards = tuple((guard,) for guard in UNDEFINED)
        tuned = (TunedRange("m", 0, 9),)
        program = DispatchProgram((), tuned, configs, Choice.in_order(count), guards)
        choice = write({"p": dispatcher_of(program, "p")}, tmp_path)["p"]
        for m, n in itertools.product(range(-2, 9), range(8)):
            values = {"m": m, "n": n, "s": 0.5, "t": "half"}
            wanted = applying(program, values)
            found = [index for index in range(count) if choice.applies(index, values)]
            assert found == wanted, values


class TestPython(FormatContract):
    @pytest.fixture(scope="class")
    @classmethod
    def write(cls) -> Write:
        return lambda made, _: {name: _of_module(python_of(d)) for name, d in made.items()}

    def test_a_choice_without_times_has_no_shortlist(self) -> None:
        rng = random.Random(2)
        program = drawn_program(rng, [drawn_input(rng) for _ in range(9)], "tree", 6)
        with pytest.raises(ValueError, match="predicts no times"):
            python_of(dispatcher_of(program, "p")).select_top(3, m=4, n=4, s=0.5, t="half")


def _of_module(module: Any) -> WrittenChoice:
    def select(values: Features) -> int | None:
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
    def write(cls) -> Write:
        def write_headers(made: Mapping[str, Dispatcher], folder: Path) -> dict[str, WrittenChoice]:
            headers = {name: c_header(dispatcher) for name, dispatcher in made.items()}
            library = compiled(folder, headers, cls.compiler)
            return {name: _of_library(library, dispatcher) for name, dispatcher in made.items()}

        return write_headers


class TestCpp(TestC):
    compiler = ("c++", "-std=c++11", "-x", "c++")


def _of_library(library: Any, dispatcher: Dispatcher) -> WrittenChoice:
    def select(values: Features) -> int | None:
        found = getattr(library, f"select_{dispatcher.name}")(*c_arguments(dispatcher, values))
        return None if found < 0 else int(found)

    def applies(index: int, values: Features) -> bool:
        function = getattr(library, f"applies_{dispatcher.name}")
        return bool(function(index, *c_arguments(dispatcher, values)))

    def select_top(most: int, values: Features) -> Sequence[int]:
        return top_of(library, dispatcher, values, most)

    return WrittenChoice(select, applies, select_top)
