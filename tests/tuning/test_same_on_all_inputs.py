"""A parameter that has the same value on every input: the search chooses it, dispatch obeys."""

import json

import pytest

from harness.analysis.coverage import input_reports
from harness.core.errors import SpecError
from tests.helpers.commands import dispatch
from tests.helpers.replays import (
    BLOCKS_AND_TILES,
    FormulaMeasurer,
    make_spec,
    ran,
    small_space,
    stored,
)

INPUTS = [4**power for power in range(1, 9)]
SAME = "search: {same_on_all_inputs: [BLOCK]}\n"


def time_s(problem, config):
    """Small inputs are fastest with BLOCK=16, large ones with 64; 32 is nearly as fast on all."""
    n, block, tile = (float(each) for each in (problem["n"], config["BLOCK"], config["TILE"]))
    is_small = n < 500
    lost = {16.0: not is_small, 32.0: 0.2, 64.0: is_small, 256.0: 3.0}[block]
    return 1e-4 * (1 + lost) * (1.5 if (tile == 2) == is_small else 1)


def tuned(folder, parameters=BLOCKS_AND_TILES, more=SAME):
    spec = make_spec(folder, small_space(parameters, *INPUTS, more=more))
    measurer = FormulaMeasurer(time_s, interleaves=True)
    return ran(spec, folder / "r.db", measurer, technique=["UniformRandom"])


def blocks(reports):
    """The BLOCK of each recommended configuration."""
    recommended = [report.recommended for report in reports]
    return {best.config["BLOCK"] for best in recommended if best}


def test_dispatch_keeps_the_value_that_suits_all_inputs_best(few_folds, tmp_path):
    spec = tuned(tmp_path).campaign.spec
    out, written = tmp_path / "out", ["--spec", str(spec.path), "--choice", "tree"]
    assert dispatch([tmp_path / "r.db", "-o", out, *written]) == 0
    document = json.loads((out / "small" / "small.json").read_text())
    chosen = [configuration["parameters"] for configuration in document["configurations"]]
    assert {config["BLOCK"] for config in chosen} == {32}
    assert {config["TILE"] for config in chosen} == {1, 2}


def test_inputs_have_blocks_of_their_own_where_nothing_asks_for_the_same(tmp_path):
    assert blocks(tuned(tmp_path, more="").reports) > {16}


def test_no_input_keeps_a_default_of_another_value(tmp_path):
    """The default's BLOCK is the fastest on small inputs."""
    done = tuned(tmp_path, BLOCKS_AND_TILES.replace("default: 256", "default: 16"))
    assert blocks(done.reports) == {32}
    assert blocks(input_reports(stored(tmp_path / "r.db"))) == {32}


def test_only_parameters_may_be_the_same(tmp_path):
    with pytest.raises(SpecError, match=r"`BLOK` .*BLOCK"):
        make_spec(tmp_path, small_space(BLOCKS_AND_TILES, 8, more=SAME.replace("BLOCK", "BLOK")))
