"""benchmarks/claim_power.py: its tests of equal and of faster code."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.claim_power import MODELS, launched, main, occasions, rates


def test_launches_of_an_occasion_are_those_of_their_configuration() -> None:
    parts = launched("load_offset", np.random.default_rng(0), 2000, 3, [4, 3], 0.5)
    assert [part.shape for part in parts] == [(2000, 3, 4), (2000, 3, 3)]
    means = [part.mean(axis=(0, 2)) for part in parts]
    assert np.array(means) == pytest.approx(
        np.array([[0, -np.log(1.5), -np.log(1.5)]] * 2), abs=0.01
    )
    inside = np.corrcoef(parts[0][:, 1, 0], parts[0][:, 1, 3])[0, 1]
    between = np.corrcoef(parts[0][:, 1, 0], parts[1][:, 1, 0])[0, 1]
    assert inside > 0.4 > 0.1 > abs(between), "launches of one load share its offset"


@pytest.mark.parametrize("model", MODELS)
def test_equal_code_is_called_faster_at_the_stated_rate(model: str) -> None:
    rate = occasions(model, np.random.default_rng(1), 2000, 0.0)
    assert rate <= 0.025 + 4 * np.sqrt(0.025 * 0.975 / 2000)


def test_rounds_that_also_chose_the_winner_claim_too_much() -> None:
    found = rates(1000, seed=0)
    assert found["normal"]["before"][0] > 0.04
    assert found["load_offset"]["before"][0] > 0.4


def test_command_ends_with_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--inputs", "50"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert set(json.loads(last)) == set(MODELS)
