"""Equal bits of outputs in a database: classes, what splits them, what the default's costs."""

from __future__ import annotations

import dataclasses

import pytest

from harness.analysis.bits import equal_bits
from harness.api.describing import describe_analyses
from harness.core.observations import OUTPUT_BITS, VARYING_BITS
from harness.display.sections import bits_section
from harness.report.findings import Findings
from tests.helpers.replays import BLOCKS_AND_TILES, FormulaMeasurer, results_of, small_space

SPACE = small_space(BLOCKS_AND_TILES + ", UNROLL: {values: [1, 2, 4, 8], default: 1}", 8)


def time_s(problem, config):
    """TILE=2 halves the time, and the default's TILE is 1."""
    return 1e-5 * problem["n"] / config["TILE"] * (1 + config["BLOCK"] / 1e4)


class DigestingMeasurer(FormulaMeasurer):
    """A kernel in which TILE and BLOCK=256 change the order of a sum, and BLOCK=16 is unsteady."""

    def measure(self, *asked):
        measured = super().measure(*asked)
        block, tile = measured.config["BLOCK"], measured.config["TILE"]
        bits = {16: VARYING_BITS, 256: 10.0 + tile}.get(block, float(tile))
        return dataclasses.replace(measured, observed={OUTPUT_BITS: bits})


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("bits"), SPACE, DigestingMeasurer(time_s))


def test_classes_name_what_splits_them_and_what_the_default_s_costs(results):
    classes = equal_bits(results)
    assert set(classes.split_by) == {"BLOCK", "TILE"}
    for of_input in classes.inputs:
        counts = of_input.configs, of_input.varying, of_input.classes, of_input.in_default
        assert counts == (32, 8, 4, 4)
    assert classes.slowdown == pytest.approx(2 * (1 + 256 / 1e4) / (1 + 16 / 1e4))


def test_section_and_json_say_so(results):
    section = bits_section(equal_bits(results))
    for text, part in zip(section.texts, ("TILE, BLOCK", "8 configurations", "2.05x"), strict=True):
        assert part in text
    bits = describe_analyses([Findings(results)]).analyses[0].bits
    assert (bits.inputs[0].classes, set(bits.split_by)) == (4, {"BLOCK", "TILE"})


def test_nothing_is_said_where_no_bits_are_known(tmp_path):
    assert equal_bits(results_of(tmp_path, SPACE, FormulaMeasurer(time_s), test_limit=4)) is None
    assert bits_section(None) is None
