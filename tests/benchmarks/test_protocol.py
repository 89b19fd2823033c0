"""The score of searches by the field's protocol, beside figures of its own package."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.protocol_score import RecordedCosts, TimedCourse, score


def planted():
    """400 configurations, of which a tenth fail."""
    rng = np.random.default_rng(7)
    objective = np.exp(np.abs(rng.normal(0, 0.8, 400)))
    cost_s = 0.4 + 0.05 * objective + rng.random(400) * 0.2
    objective[rng.random(400) < 0.1] = np.nan
    return RecordedCosts(objective, cost_s)


def searches(space, greed):
    """25 searches that prefer good configurations by this much; each test costs them 10 ms."""
    rng = np.random.default_rng(3)
    known = np.log(np.where(np.isnan(space.objective), 9.0, space.objective))
    found = []
    for _ in range(25):
        order = np.argsort(greed * known + rng.random(len(known)))
        count = int((space.cost_s[order].cumsum() <= space.budget.last_s * 1.1).sum()) + 1
        found.append(TimedCourse(order[:count].tolist(), (0.01 * np.arange(1, count + 1)).tolist()))
    return found


@pytest.mark.parametrize(("greed", "expected"), [(0.0, -0.0773), (0.15, 0.7606), (0.5, 0.8997)])
def test_score_is_that_of_the_package(greed, expected):
    """The package's is the mean of 30 draws of autotuning_methodology 1.1.0."""
    space = planted()
    assert score(space, searches(space, greed)) == pytest.approx(expected, abs=0.01)
