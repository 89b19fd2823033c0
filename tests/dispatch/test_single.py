"""Which configuration is advised for all inputs, and by which rounds it is judged."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from harness.analysis.inputs import InputReport
from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.dispatch.matrix import make_matrix
from harness.dispatch.single import Single, single_of

DEFAULT, CHOSEN, OTHER = (Config({"BLOCK": block}) for block in (256, 16, 64))


def measured(problem: Input, config: Config, time_s: float) -> Measurement:
    return Measurement(config, problem, Outcome.OK, Timing((time_s, time_s * 1.01)))


def single(in_finals: dict[Config, float], other_s: float) -> Single:
    """Return the advice for four inputs: CHOSEN takes 1 s in the candidates' rounds, the default
    2 s. The finals have these times."""
    inputs = [Input({"n": n}) for n in range(4)]
    time_s = np.tile([2.0, 1.0, other_s], (4, 1))
    matrix = make_matrix(pd.DataFrame({"n": range(4)}), (DEFAULT, CHOSEN, OTHER), time_s, default=0)
    finals = {p: [measured(p, config, t) for config, t in in_finals.items()] for p in inputs}
    reports = [
        InputReport(
            p, measured(p, OTHER, other_s), measured(p, DEFAULT, 2.0), None, 0, {Outcome.OK: 3}, 3
        )
        for p in inputs
    ]
    found = single_of(matrix, reports, finals, DEFAULT)
    assert found is not None
    return found


def test_what_the_finals_timed_on_every_input_is_advised_with_its_speed_up() -> None:
    found = single({DEFAULT: 2.0, CHOSEN: 1.0}, other_s=0.9)
    assert (found.config, found.inputs) == (CHOSEN, 4)
    assert found.speedup is not None
    assert found.speedup.value == pytest.approx(2.0)


def test_without_finals_the_candidates_rounds_choose() -> None:
    assert (single({}, other_s=0.9).config, single({}, other_s=1.1).config) == (OTHER, CHOSEN)
    assert single({DEFAULT: 2.0}, other_s=0.9).config == OTHER
