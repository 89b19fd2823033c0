"""Kernels that make results of what outputs hold before a run (data/zoo/fills.cl), on PoCL."""

from __future__ import annotations

import re
from pathlib import Path

from harness.core.records import Outcome
from harness.measure.devices import Backend
from harness.space_file import load_spec
from tests.helpers.planted import measured

FILLS = Path(__file__).parents[1] / "data/zoo/fills.yaml"

FILLS_REFUSED = {
    "flips_the_sign_bit": r"at the first run: whole\[\d+\] is \d+.*100 of 100 elements",
    "flips_all_bits": r"at the first run: whole\[\d+\] is \d+.*100 of 100 elements",
    "negates_the_numbers": r"at the first run: whole\[\d+\] is \d+.*100 of 100 elements",
    "negates_the_flags": r"at the first run: flag\[\d+\] is 0, expected 1",
    "leaves_flags": r'at the first run: flag\[\d+\] was never written.*INOUT = \("flag",\)',
    "leaves_nan": r"at the first run: root\[\d+\] was never written.*expected nan",
    "leaves_zeros": r'whole\[\d+\] was never written.*expected 0\..*INOUT = \("whole",\)',
}


def test_kernel_that_makes_its_result_of_what_an_output_holds_is_refused(opencl: Backend) -> None:
    spec = load_spec(FILLS)
    (names,) = (p.values for p in spec.parameters if p.name == "CHEAT")
    assert set(names) == {"honest", *FILLS_REFUSED}
    each = measured(spec, opencl, spec.inputs[0], *({"CHEAT": name} for name in names))
    found = dict(zip(names, each, strict=True))
    assert found.pop("honest").outcome is Outcome.OK
    for name, one in found.items():
        assert one.outcome is Outcome.WRONG_RESULT, name
        assert re.search(FILLS_REFUSED[str(name)], one.message), one.message
