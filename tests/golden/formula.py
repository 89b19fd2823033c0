"""A GPU by formula, for the space of `inputs/rows.yaml`: seeded noise, failures, and energy."""

import json
import random

from harness.core.records import Environment, Measurement, Outcome
from tests.helpers.replays import FormulaMeasurer, in_occasions

NOISE = 0.02
FAST = "cl-fast-relaxed-math"
BEST_BLOCK = {True: 16, False: 256}
"""By whether rows are short."""


class FormulaGpu(FormulaMeasurer):
    """Measures a formula whose best layout and block depend on the length of a row.

    The noise of a measurement depends on what is measured, and on nothing else. `slower` multiplies
    the times of a large block on 1,024 rows.
    """

    def __init__(self, device, slower=1.0):
        super().__init__()
        self.environment = Environment("opencl", device, "a platform", "1.0", "a compiler")
        self.compiler = "opencl"
        self._slower = slower

    def measure(self, space, problem, config, best_s):
        """Return six samples, or a failure."""
        return self._one(problem, config, 6, (0,))

    def measure_interleaved(self, space, problem, configs, rounds, seeds=(0,)):
        """Return a sample for each round."""
        return [self._one(problem, config, rounds, seeds) for config in configs]

    def _one(self, problem, config, rounds, seeds):
        if failure := _failure(problem, config):
            return Measurement(config, problem, failure[0], message=failure[1])
        time_s = _time_s(problem, config)
        if problem["m"] == 1024 and config["BLOCK"] == 256:
            time_s *= self._slower
        # Seeds are drawn. These are for the search and candidates, the choice, and the finals.
        stage = (0,) if 0 in seeds else (2,) if len(seeds) == 1 else (2, 2, 2, 3, 3, 3)
        asked = (self.environment.device, self._slower, dict(problem), dict(config), rounds, stage)
        drawn = random.Random(json.dumps(asked, sort_keys=True))
        samples_s = [time_s * drawn.uniform(1 - NOISE, 1 + NOISE) for _ in range(rounds)]
        power_w = 100.0 + config["BLOCK"] / 4 + 20 * (config["LAYOUT"] == "row")
        energy_j = power_w * time_s
        observed = {"energy_j": energy_j, "power_w": power_w, "energy_spread_j": energy_j / 100}
        observed |= {"launch_share": 0.5, "throttled": 0.0}
        timing = in_occasions(samples_s, seeds)
        return Measurement(config, problem, Outcome.OK, timing, observed=observed)


def _failure(problem, config):
    if config["LAYOUT"] == "column" and config["TILE"] == 4:
        return Outcome.BUILD_FAILED, "rows.cl:8: error: the formula does not compile"
    if config["math"] == FAST and config["TILE"] == 2:
        return Outcome.WRONG_RESULT, "sums[3] is 1.5, expected 2.5"
    if config["BLOCK"] == 16 and problem["n"] == 4096:
        return Outcome.TIMEOUT, "it ran longer than 1 s"
    return None


def _time_s(problem, config):
    is_short = int(problem["n"]) <= 300
    factor = 1.0 if config["BLOCK"] == BEST_BLOCK[is_short] else 1.4
    factor *= 1.0 if (config["LAYOUT"] == "column") == is_short else 1.3
    factor *= {1: 1.05, 2: 1.0, 4: 1.1}[int(config["TILE"])]
    factor *= 0.9 if config["math"] == FAST else 1.0
    return 1e-6 + 1e-10 * int(problem["m"]) * int(problem["n"]) * factor
