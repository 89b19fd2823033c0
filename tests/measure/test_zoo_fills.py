"""Kernels that make results of what outputs hold before a run (data/zoo/fills.cl), on PoCL."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from harness.core.records import Config, Outcome
from harness.measure.backends.choose import Backend
from harness.measure.kernels import KernelMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import load_spec

SPACE = Path(__file__).parents[1] / "data/zoo/fills.yaml"

REFUSED = {
    "flips_the_sign_bit": r"at the first run: whole\[\d+\] is \d+.*100 of 100 elements",
    "flips_all_bits": r"at the first run: whole\[\d+\] is \d+.*100 of 100 elements",
    "negates_the_numbers": r"at the first run: whole\[\d+\] is \d+.*100 of 100 elements",
    "negates_the_flags": r"at the first run: flag\[\d+\] is 0, expected 1",
    "leaves_flags": r'at the first run: flag\[\d+\] was never written.*INOUT = \("flag",\)',
    "leaves_nan": r"at the first run: root\[\d+\] was never written.*expected nan",
    "leaves_zeros": r'whole\[\d+\] was never written.*expected 0\..*INOUT = \("whole",\)',
}


def test_kernel_that_makes_its_result_of_what_an_output_holds_is_refused(opencl: Backend) -> None:
    spec = load_spec(SPACE)
    cheats = next(p for p in spec.parameters if p.name == "CHEAT")
    assert set(cheats.values) == {"honest", *REFUSED}
    with contextlib.closing(KernelMeasurer(spec, opencl)) as local:
        given = spec.inputs[0]
        space = ConstrainedSpace.of(spec, given, local.limits, "opencl")
        found = {
            str(name): local.measure(space, given, Config({"CHEAT": name}), None)
            for name in cheats.values
        }
    assert found.pop("honest").outcome is Outcome.OK
    for name, measured in found.items():
        assert measured.outcome is Outcome.WRONG_RESULT, name
        assert re.search(REFUSED[name], measured.message), measured.message
