"""pyATF's search techniques (pyatf 0.0.13), with their defaults.

A constraint on each parameter allows only values that extend the values before it to a recorded
configuration. The search space is therefore exactly the recorded configurations. A failed
configuration raises CostFunctionError, as pyATF expects.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyatf.search_techniques
from pyatf import TP, Set, Tuner
from pyatf.abort_conditions.abort_condition import AbortCondition
from pyatf.search_space import SearchSpace
from pyatf.tuning_data import CostFunctionError

from benchmarks.peers.landscape import BudgetSpent, Course, Landscape, Point
from benchmarks.recordings import RecordingFile

_MOST_REPEATS = 100  # evaluations for each test of the budget, most of them repeats


class PyAtf:
    """pyATF's techniques on one landscape."""

    def __init__(
        self, landscape: Landscape, scratch: Path, warm_start: Sequence[RecordingFile]
    ) -> None:
        """Build the search space."""
        values = list(landscape.tunable().values())
        index = [{(type(v), v): number for number, v in enumerate(known)} for known in values]
        self._found: dict[tuple[int, ...], tuple[Point, float]] = {}
        for point, time_s in landscape.times_s.items():
            pairs = zip(index, point, strict=True)
            self._found[tuple(known[type(v), v] for known, v in pairs)] = point, time_s
        self._names = [f"p{k}" for k in range(len(values))]
        parameters = [
            TP(name, Set(*range(len(known))), self._constraint(k))
            for k, (name, known) in enumerate(zip(self._names, values, strict=True))
        ]
        self._space = SearchSpace(*parameters, verbosity=0)

    def _constraint(self, column: int) -> Callable[..., bool]:
        """Make a test of whether values up to a parameter begin a recorded configuration."""
        names = self._names[: column + 1]
        begun = {point[: column + 1] for point in self._found}

        def begins(**values: int) -> bool:
            return tuple(values[name] for name in names) in begun

        # pyATF reads from the signature which parameters a constraint is about.
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        begins.__signature__ = signature  # type: ignore[attr-defined]
        return begins

    def search(self, technique: str, seed: int, course: Course) -> None:
        """Run a technique once."""
        random.seed(seed)
        np.random.seed(seed)
        begun_s = time.process_time()

        def cost(config: Mapping[str, int]) -> float:
            point, time_s = self._found[tuple(config[name] for name in self._names)]
            course.note(point, time_s, time.process_time() - begun_s)
            if math.isinf(time_s):
                raise CostFunctionError("failed, as recorded")
            return time_s

        tuner = Tuner().search_space(self._space).verbosity(0)
        tuner.search_technique(getattr(pyatf.search_techniques, technique)())
        with contextlib.suppress(BudgetSpent):
            tuner.tune(cost, _Spent(course, len(self._found)))


class _Spent(AbortCondition):  # type: ignore[misc]
    """Stop when the budget of distinct tests is spent, or after too many repeats."""

    def __init__(self, course: Course, most: int) -> None:
        self._course = course
        self._budget = min(course.budget, most)

    def stop(self, tuning_data: Any) -> bool:
        """Return whether to stop."""
        evaluated: int = tuning_data.number_of_evaluated_configurations
        is_over = len(self._course.best_s) >= self._budget
        return is_over or evaluated >= _MOST_REPEATS * self._budget


PEER = PyAtf
