"""The committed spaces of Python callables, which need the packages that these name."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from harness.core.records import Config, Outcome
from harness.measure.choose import open_measurer
from harness.space import ConstrainedSpace
from harness.space_file import load_spec

SPACES = sorted((Path(__file__).parents[2] / "spaces/python").glob("*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_corners_of_a_committed_space_are_right(path: Path) -> None:
    spec = load_spec(path)
    pytest.importorskip(str(spec.framework), reason=f"{spec.framework} is not installed")
    problem = min(spec.inputs, key=lambda each: sum(map(float, each.values())))
    measurer, _ = open_measurer(spec, "auto")
    with contextlib.closing(measurer):
        space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
        for pick in (0, -1):
            corner = Config({p.name: p.values[pick] for p in spec.parameters})
            found = measurer.measure(space, problem, space.canonical(corner), None)
            assert found.outcome is Outcome.OK, found.message
