"""The noise models, and the benchmark that counts false claims under each of them."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from benchmarks import false_claims
from benchmarks.equal_code import Effect, Tally, trials
from benchmarks.false_claims import figures
from benchmarks.frame import rounded
from benchmarks.noise import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_a_noise_model_repeats_with_its_seed_and_stays_near_no_noise(name):
    def launches(seed):
        noise = MODELS[name](random.Random(seed))
        return [noise.launch(noise.load("code")) for _ in range(50)]

    assert len(MODELS) == 11
    assert launches(1) == launches(1) != launches(2)
    assert sorted(map(abs, launches(1)))[25] < 0.1


@pytest.mark.slow
def test_a_rerun_of_equal_code_claims_nothing_though_processes_differ():
    tally = trials("offset per process", Effect(), 2, 0, 2, ("compare",))
    assert (tally.trials["rerun"], tally.trials["burden rerun"]) == (2, 2)
    assert tally.claims["rerun"] == tally.claims["burden rerun"] == 0


@pytest.mark.slow
def test_true_differences_are_found():
    faster = trials("normal", Effect(faster=0.2), 2, 0, 1, ())
    assert faster.claims["tune"] == faster.trials["tune"] == 4
    slower = trials("normal", Effect(slower=0.2), 2, 0, 1, ("compare",))
    assert (slower.claims["tune"], slower.claims["compare inputs"]) == (0, 2 * 2)


def test_a_rate_has_an_interval_and_its_counts(monkeypatch, capsys):
    tally = Tally(Counter({"tune": 600}), Counter({"tune": 6}))
    (found,) = figures(tally).values()
    assert (found["claims"], found["trials"], found["rate"].value) == (6, 600, 0.01)
    assert found["rate"].low == pytest.approx(0.0037, abs=1e-4)
    assert found["rate"].high == pytest.approx(0.0216, abs=1e-4)
    monkeypatch.setattr(false_claims, "in_processes", lambda _, jobs, *__: [(jobs[0], tally)])
    assert false_claims.main(["--pocl"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert "1.00% [0.37%, 2.16%]" in "".join(lines)
    assert json.loads(last)["PoCL"]["tune"] == rounded(found)
