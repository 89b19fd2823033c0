"""benchmarks/space_cases.yaml: spaces of published kernels, which others have counted."""

from __future__ import annotations

import pytest

from benchmarks.space import read_cases
from harness.constraints.expression import Expression
from harness.constraints.solutions import Solutions

CASES = read_cases()
COUNTS = {
    "dedispersion": 11_130,
    "gemm (CLBlast)": 116_928,
    "microhh": 138_600,
    "expdist": 294_000,
    "hotspot": 349_853,
}


@pytest.mark.parametrize("name", COUNTS)
def test_spaces_of_published_kernels_have_the_published_counts(name):
    texts = list(CASES[name].restrictions)
    if name == "expdist":  # a restriction that Kernel Tuner adds by itself
        texts.append("block_size_x * block_size_y <= 1024")
    constraints = [Expression(text) for text in texts]
    assert Solutions(CASES[name].parameters, constraints, {}).count == COUNTS[name]
