"""Spaces whose data no cache holds: beside the inputs, they are the suite's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.commands import check
from harness.commands.check.targets import ARCHITECTURE_LIMITS
from harness.core.records import Input
from harness.space import ConstrainedSpace
from harness.space_file import load_spec

SPACES = Path(__file__).parents[2] / "spaces"
FLOATS: dict[str, Callable[..., int]] = {
    "convolution": lambda width, height, radius: 3 * width * height,
    "matmul": lambda hA, wA, wB: hA * wA + wA * wB + hA * wB,  # noqa: N803 (the features' names)
    "mvmul": lambda m, n: m * n,
    "reduction": lambda n: n,
    "transpose": lambda width, height: 2 * width * height,
}
"""The elements of four bytes that a run reads or writes."""

LARGEST_CACHE_BYTES = 128 << 20


@pytest.mark.parametrize("name", FLOATS)
def test_large_space_differs_in_its_inputs_alone(name: str) -> None:
    usual, large = (
        (SPACES / folder / f"{name}.yaml").read_text(encoding="utf-8") for folder in ("", "large")
    )
    assert f"\nname: large_{name}\n" in large
    assert shared_lines(large) == shared_lines(usual)


def shared_lines(text: str) -> list[str]:
    """The lines that a space and its large twin have alike, without comments."""
    text = re.sub(
        r"\s*#.*|^(name|title): .*|^    - \{.*|,? timeout_s: \d+|\.\./", "", text, flags=re.M
    )
    return [line for line in text.splitlines() if line]


@pytest.mark.parametrize("name", FLOATS)
def test_data_of_every_large_input_exceed_every_cache_and_its_default_runs(name: str) -> None:
    spec = load_spec(SPACES / "large" / f"{name}.yaml")
    for problem in spec.inputs:
        size_bytes = 4 * FLOATS[name](**dict(problem))
        assert 1.5 * LARGEST_CACHE_BYTES <= size_bytes <= 1 << 30, problem
        assert why_illegal(name, problem) is None, problem


def why_illegal(name: str, problem: Input) -> str | None:
    """Why the default cannot run on a GPU."""
    spec = load_spec(SPACES / "large" / f"{name}.yaml")
    space = ConstrainedSpace.of(spec, problem, ARCHITECTURE_LIMITS, "nvcc")
    return space.why_illegal(space.canonical(space.default))


def test_check_accepts_the_large_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    spaces = sorted(map(str, (SPACES / "large").glob("*.yaml")))
    assert check.main([*spaces, "--no-compile"]) == 0
    assert f"{len(FLOATS)} spaces valid" in capsys.readouterr().out
