"""The spaces of many inputs: one for all that have the same legal configurations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.core.records import DeviceLimits
from harness.space import ConstrainedSpace, InputSpaces
from harness.space_file import Spec
from tests.helpers.replays import make_spec

LIMITS = DeviceLimits(64, (64, 64, 64), (100, 100, 100), 1 << 15, 4, 32)
FLOAT, LARGE = "{m: 20.5, n: 1}", f"{{m: {2**53}, n: 1}}"

TEXT = """\
name: alike
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [8, 16, 32, 64], role: launch, default: 8}
  LAYOUT: {values: [slow, fast], role: source, default: slow, when: n > 2}
constraints: [CONSTRAINTS]
launch: {group: [BLOCK], grid: ["ceil_div(m, BLOCK)"]}
inputs: {features: [m, n], values: [INPUTS]}
"""


def spec_of(folder: Path, constraints: Sequence[str], inputs: Sequence[str]) -> Spec:
    quoted = ", ".join(f'"{constraint}"' for constraint in constraints)
    return make_spec(
        folder, TEXT.replace("CONSTRAINTS", quoted).replace("INPUTS", ", ".join(inputs))
    )


MANY = [f"{{m: {8 * m}, n: {n}}}" for m in range(1, 200) for n in range(1, 5)]


@pytest.mark.parametrize("limits", [None, LIMITS])
@pytest.mark.parametrize(
    "constraints",
    [
        [],
        ["BLOCK <= m"],
        ["BLOCK == 8 or BLOCK * n <= m", "LAYOUT == 'slow' or m % 3 == 0"],
        ["BLOCK == 8 or m ** (n * 10) >= 10 ** 20"],
    ],
)
@pytest.mark.parametrize("more", [[], [FLOAT], [LARGE]])
def test_every_input_has_the_legal_configurations_of_its_own_space(
    tmp_path: Path, constraints: Sequence[str], more: Sequence[str], limits: DeviceLimits | None
) -> None:
    spec = spec_of(tmp_path, constraints, [*MANY[:120], *more])
    found = {
        problem: list(alike.space)
        for alike in InputSpaces(spec, limits)
        for problem in alike.inputs
    }
    assert found == {i: list(ConstrainedSpace.of(spec, i, limits)) for i in spec.inputs}


def test_a_space_is_made_for_each_set_of_legal_configurations_and_not_for_each_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    real = ConstrainedSpace.__init__
    monkeypatch.setattr(
        ConstrainedSpace, "__init__", lambda self, *args: (made.append(1), real(self, *args))[1]
    )
    spec = spec_of(tmp_path, ["BLOCK <= m"], MANY)
    groups = list(InputSpaces(spec, LIMITS))
    assert [len(alike.inputs) for alike in groups].count(0) == 0
    assert len(made) == len(groups) < 40 < len(MANY)


def test_groups_are_in_the_order_of_their_first_inputs(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ["BLOCK <= m"], ["{m: 8, n: 1}", "{m: 64, n: 3}", "{m: 9, n: 1}"])
    small, large, _ = spec.inputs
    assert [alike.inputs[0] for alike in InputSpaces(spec)] == [small, large]
    assert [len(alike.inputs) for alike in InputSpaces(spec)] == [2, 1]
