"""Means in place of medians: in the search, in judgements, and in everything that is printed."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from harness.analysis.coverage import input_reports
from harness.core.errors import SpecError
from harness.core.records import Measurement, Outcome, Statistic, StopReason, Timing
from harness.stats.timing import log_time, time_ratio
from tests.helpers.commands import analyse, compare
from tests.helpers.replays import FormulaMeasurer, make_spec, results_of, small_space
from tests.helpers.results_examples import query

MEAN, MEDIAN = Statistic.MEAN, Statistic.MEDIAN
SPACE = small_space(
    "BLOCK: {values: [16, 32, 64], default: 64}", 8, more="measure: {repeats: 12STATISTIC}\n"
)
BY_MEAN = ", statistic: mean"
STEADY_S = (1.0, 1.01, 1.0, 0.99, 1.0, 1.0) * 2
SKEWED_S = (0.6, 0.6, 0.61, 0.6, 0.59, 4.0) * 2
"""Faster by the median, slower by the mean."""
SLOW_S = (3.0, 3.1) * 6
SAMPLES_S: Mapping[object, Sequence[float]] = {16: STEADY_S, 32: SKEWED_S, 64: SLOW_S}


class SkewedMeasurer(FormulaMeasurer):
    """Serves SAMPLES_S by block, and counts what the search measures."""

    searched = 0

    def measure(self, space, problem, config, best_s):
        """Return the samples."""
        self.searched += 1
        return self._found(problem, config, StopReason.REPEATS)

    def measure_interleaved(self, space, problem, configs, rounds, seeds=()):
        """Return the same samples again."""
        return [self._found(problem, config, StopReason.INTERLEAVED) for config in configs]

    def _found(self, problem, config, stopped):
        samples_s = tuple(SAMPLES_S[config["BLOCK"]])
        timing = Timing(samples_s, stopped, statistic=self.statistic)
        return Measurement(config, problem, Outcome.OK, timing)


def tune(folder, database, more=""):
    """Tune by a statistic; return the results, and how much was measured by the search."""
    measurer = SkewedMeasurer()
    measurer.statistic = MEAN if more == BY_MEAN else MEDIAN
    text = SPACE.replace("STATISTIC", more)
    return results_of(folder, text, measurer, database=database), measurer.searched


def best(results):
    (report,) = input_reports(results)
    assert report.best is not None
    return report.best.config["BLOCK"]


def test_the_statistic_decides_the_fastest_and_is_printed(tmp_path, capsys):
    for database, more, block, word in (
        ("median.db", "", 32, "medians"),
        ("mean.db", BY_MEAN, 16, "means"),
    ):
        results, _ = tune(tmp_path, database, more)
        assert best(results) == block
        assert analyse([str(tmp_path / database)]) == 0
        assert f"Times are {word}" in capsys.readouterr().out
        assert analyse([str(tmp_path / database), "--summary"]) == 0
        assert ("By means" in capsys.readouterr().out) == (word == "means")
    assert analyse([str(tmp_path / "mean.db"), "--json"]) == 0
    assert '"statistic": "mean"' in capsys.readouterr().out
    # OpenTuner's record has the means too: the search went by them.
    recorded = query(tmp_path / "mean.db", "SELECT min(time) FROM result WHERE state = 'OK'")
    assert recorded == [(pytest.approx(1.0),)]


def test_another_statistic_measures_nothing_again(tmp_path):
    first, searched = tune(tmp_path, "r.db")
    assert (best(first), searched) == (32, 3)
    second, searched = tune(tmp_path, "r.db", BY_MEAN)
    assert (best(second), searched) == (16, 0)
    assert second.campaign.key == first.campaign.key
    third, searched = tune(tmp_path, "r.db")
    assert (best(third), searched) == (32, 0)


def test_medians_and_means_are_not_compared(tmp_path, capsys):
    for database, more in (("base.db", ""), ("candidate.db", BY_MEAN)):
        tune(tmp_path, database, more)
    assert compare([f"{tmp_path}/base.db", f"{tmp_path}/candidate.db"]) == 2
    assert "small was tuned by the mean" in capsys.readouterr().err


def test_word_that_is_no_statistic_is_an_error(tmp_path):
    with pytest.raises(SpecError, match=r"measure\.statistic: must be median or mean"):
        make_spec(tmp_path, SPACE.replace("STATISTIC", ", statistic: least"))


# ------------------------------------------------------------------------------ estimates


def timing(samples_s, occasions=()):
    return Timing(tuple(samples_s), StopReason.INTERLEAVED, occasions, MEAN)


def test_ratio_of_means_is_that_of_arithmetic_means():
    one, other = timing(SKEWED_S), timing(STEADY_S)
    assert time_ratio(one, other).value == pytest.approx(np.mean(SKEWED_S))
    assert log_time(one) == pytest.approx(math.log(np.mean(SKEWED_S)))
    occasions = timing(SKEWED_S, (4, 4, 4)), timing(STEADY_S, (4, 4, 4))
    assert time_ratio(*occasions).value == pytest.approx(np.mean(SKEWED_S))
    with pytest.raises(ValueError, match="median is not compared with a mean"):
        time_ratio(one, Timing(STEADY_S))


@pytest.mark.parametrize("occasions", [(), (3,) * 6])
def test_interval_of_a_ratio_of_means_covers_it_as_it_says(occasions):
    rng = np.random.default_rng(1)
    pairs = rng.gamma(25, 1 / 25, (600, 2, 18)) * np.array([2.0, 1.0])[:, None]
    ratios = [time_ratio(*(timing(s.tolist(), occasions) for s in pair)) for pair in pairs]
    covered = np.mean([ratio.low <= 2 <= ratio.high for ratio in ratios])
    assert 0.92 < covered < 0.98
