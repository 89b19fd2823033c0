"""The benchmark of chosen inputs: its rules, and how it compares them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.inputs import curve_figures, figures
from benchmarks.inputs_runs import FIRST, RULES, Case, Point, Run, cases_of, drawn, run
from harness.dispatch.enough_inputs import LearningCurve
from harness.stats import Estimate
from tests.benchmarks.test_dispatch_benchmark import layers, written


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_judged_on_inputs_of_other_layers(tmp_path: Path, rule: str) -> None:
    path = written(tmp_path, layers(42))
    (_, matrix), _ = cases_of(path)
    pool, unseen = drawn(matrix, 0)
    assert not set(matrix.groups[pool]) & set(matrix.groups[unseen])
    found = run(Case(path, 0), rule, 0)
    assert found == run(Case(path, 0), rule, 0)
    assert [point.tuned for point in found.points][:2] == [FIRST, 16]
    assert 0 <= found.points[-1].mean < math.log(2)  # better than the wrong algorithm everywhere
    assert (found.points[-1].curve is not None) == (rule == "adaptive")


def runs(rule: str, means: list[float], curve: LearningCurve | None = None) -> list[Run]:
    return [
        Run(f"case {index}", rule, 0, (Point(16, mean, 2 * mean, curve),))
        for index, mean in enumerate(means)
    ]


def test_rules_are_compared_with_random_inputs_by_case() -> None:
    both = runs("random", [0.2, 0.3, 0.4]) + runs("adaptive", [0.1, 0.2, 0.3])
    found = figures(both, "adaptive", 16)
    assert found is not None
    assert found["runs"] == 3
    assert found["slowdown"] == pytest.approx(math.exp(0.2), abs=1e-4)
    assert found["ratio"] == pytest.approx([math.exp(-0.1)] * 3, abs=1e-4)
    assert found["ratio_99"] == pytest.approx([math.exp(-0.2)] * 3, abs=1e-3)
    assert figures(both, "spread", 16) is None


def test_the_learning_curve_is_compared_with_the_truth() -> None:
    curve = LearningCurve(Estimate(1.2, 1.1, 1.25), Estimate(1.01, 0.98, 1.04))
    found = curve_figures(runs("adaptive", np.log([1.1, 1.4]).tolist(), curve), 16)
    assert found is not None
    assert found["said"] == 1.2
    assert found["true_below_high"] == 0.5
    assert found["enough_at_0.05"] == 2
