"""Parameters that matter only `when` something holds: what differs in nothing else is one."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from harness.commands.check import main as check
from harness.constraints.expression import Expression
from harness.core.records import Config, DeviceLimits, Input, Value
from harness.search.techniques import steps_up
from harness.space import ConstrainedSpace, Space
from harness.space_file import Parameter
from tests.helpers.replays import FormulaMeasurer, make_spec, opened, write_space

DEVICE = DeviceLimits(256, (128, 256, 64), (1000, 500, 500), 4096, 16, 32)

Told = Mapping[str, tuple[Sequence[Value], Value, str | None]]
"""Of each parameter its values, its default and its `when`."""


def space(printed: Told, *constraints: str, **values: Value) -> Space:
    parameters = [
        Parameter(
            name,
            "enum" if isinstance(listed[0], (str, bool, type(None))) else "ordered",
            listed,
            "source",
            default,
            when=None if when is None else Expression(when),
        )
        for name, (listed, default, when) in printed.items()
    ]
    return ConstrainedSpace(parameters, [Expression(text) for text in constraints], values)


def tiled(**values: Value) -> Space:
    """Three implementations; each has parameters of its own, one of them parameters in turn."""
    printed: Told = {
        "IMPL": (("direct", "tiled", "packed"), "direct", None),
        "TILE": ((1, 2, 4, 8), 2, "IMPL == 'tiled'"),
        "PAD": ((0, 1, 2), 0, "TILE > 2"),
        "WORD": ((None, 8, 16), None, "IMPL == 'packed' and m > 4"),
        "BLOCK": ((16, 32, 64), 32, None),
    }
    return space(printed, "TILE * BLOCK <= 256", **{"m": 64, **values})


def points(checked: Space) -> list[Config]:
    extents = (range(len(p.values)) for p in checked.parameters)
    return [checked.decode(place) for place in itertools.product(*extents)]


def legal(checked: Space) -> set[Config]:
    """What the constraints allow of what is told in the one way, by looking at all points."""
    printed = {checked.canonical(config) for config in points(checked)}
    return {config for config in printed if checked.is_legal(config)}


# ---------------------------------------------------------------------------- counting


def test_configurations_that_differ_in_what_does_not_matter_are_one() -> None:
    # direct: 3; tiled: (1, 2, 4 with 3 PAD) of 3 BLOCK, and 8 with 3 PAD of 2; packed: 3 of 3
    assert tiled().count == 3 + 2 * 3 + 3 * 3 + 3 * 2 + 3 * 3
    assert tiled(m=4).count == 3 + 2 * 3 + 3 * 3 + 3 * 2 + 3
    assert set(tiled()) == legal(tiled())
    assert len(list(tiled())) == tiled().count


def test_the_one_that_counts_has_the_default() -> None:
    printed = tiled().canonical(
        Config({"IMPL": "packed", "TILE": 8, "PAD": 2, "WORD": 16, "BLOCK": 16})
    )
    assert printed == Config({"IMPL": "packed", "TILE": 2, "PAD": 0, "WORD": 16, "BLOCK": 16})
    assert tiled().canonical(printed) == printed
    assert tiled().canonical(tiled().default) == tiled().default
    assert tiled().is_legal(tiled().default)


def test_what_is_no_point_stays_as_it_is() -> None:
    for values in ({"IMPL": "direct"}, {"IMPL": "no", "TILE": 1, "PAD": 0, "WORD": 8, "BLOCK": 1}):
        config = Config(values)
        assert tiled().canonical(config) is config


def test_samples_are_uniform_over_what_is_one() -> None:
    checked = tiled()
    drawn = checked.sample_points(np.random.default_rng(1), 5000)
    counts = Counter(checked.decode(row) for row in drawn.tolist())
    assert set(counts) == legal(checked)
    assert chisquare(list(counts.values())).pvalue > 1e-3


# ----------------------------------------------------------------------------- judging


def test_what_does_not_matter_but_differs_is_told_with_what_decides() -> None:
    config = {"IMPL": "direct", "TILE": 4, "PAD": 0, "WORD": None, "BLOCK": 16}
    assert tiled().why_illegal(config) == (
        "TILE does not matter where IMPL=direct, so it stays at its default 2"
    )
    config = {"IMPL": "packed", "TILE": 2, "PAD": 0, "WORD": 8, "BLOCK": 16}
    assert tiled(m=1).why_illegal(config) == (
        "WORD does not matter where IMPL=packed, m=1, so it stays at its default absent"
    )


def test_a_condition_on_a_device_waits_for_it() -> None:
    printed: Told = {"A": ((1, 2), 1, "max_group_size > 512")}
    parameters = space(printed).parameters
    assert ConstrainedSpace(parameters).count == 2
    assert ConstrainedSpace(parameters, limits=DEVICE).count == 1


# -------------------------------------------------------------------------- neighbours


def steps(checked: Space, start: Config) -> set[Config]:
    """What one change leads to, told in the one way."""
    changed = {
        checked.canonical(Config({**start, p.name: value}))
        for p in checked.parameters
        for value in p.values
    }
    return {config for config in changed - {start} if checked.is_legal(config)}


def neighbours(checked: Space, start: Config) -> list[Config]:
    rows = checked.neighbour_points(checked.encode_all([start])[0]).tolist()
    return [checked.decode(row) for row in rows]


def test_steps_up_change_something() -> None:
    checked = tiled()
    start = checked.default
    assert list(steps_up(checked, start)) == [
        Config({**start, "IMPL": "tiled"}),
        Config({**start, "BLOCK": 64}),
    ]


DOMAINS: tuple[Sequence[Value], ...] = (
    range(1, 6),
    range(0, 7, 3),
    (1, 2, 4, 8),
    (False, True),
    ("row", "column", "block"),
    (0.5, 1, 2.5),
    (None, 16, 32),
)
# What cannot be computed for some values, such as the sum with a text, is there on purpose.
CONDITIONS = (None, None, "{a} == 1", "{a} > m", "{a} != {b}", "{a} == 'x' or {b}", "{a} == absent")
CONSTRAINTS = (
    "{a} == {b} or {a} == 1",
    "{a} in [1, 2, 'row', true]",
    "{a} != 'row' or {b} == 16",
    "{a} == absent or {a} != {b}",
    "not {a}",
    "m > 2 or {a} != 4",
    "{a} + {b} <= 5",
    "{a} * {b} % 2 == 0",
    "{a} <= {b}",
)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Up to four parameters, each of which may depend on those before it in some order."""
    order = draw(st.permutations("ABCD"[: draw(st.integers(1, 4))]))
    printed: dict[str, tuple[Sequence[Value], Value, str | None]] = {}
    for place, name in enumerate(order):
        listed = draw(st.sampled_from(DOMAINS))
        condition = draw(st.sampled_from(CONDITIONS)) if place else None
        before = st.sampled_from(order[: max(place, 1)])
        when = condition and condition.format(a=draw(before), b=draw(before))
        printed[name] = (listed, draw(st.sampled_from(listed)), when)
    picked = st.sampled_from(order)
    templates = draw(st.lists(st.sampled_from(CONSTRAINTS), max_size=3))
    texts = [template.format(a=draw(picked), b=draw(picked)) for template in templates]
    in_order = {name: printed[name] for name in sorted(printed)}
    return space(in_order, *texts, m=draw(st.integers(0, 4)))


@settings(max_examples=60, deadline=None)
@given(spaces(), st.integers(0, 99))
def test_any_space_agrees_with_brute_force(checked: Space, seed: int) -> None:
    every, expected = points(checked), legal(checked)
    assert set(checked) == expected
    assert checked.count == len(expected)
    places = checked.encode_all(every)
    assert list(map(tuple, places.tolist())) == [checked.encode(config) for config in every]
    assert checked.are_legal(places).tolist() == [config in expected for config in every]
    for start in random.Random(seed).sample(every, min(5, len(every))):
        printed = checked.canonical(start)
        assert checked.canonical(printed) == printed
        listed = neighbours(checked, start)
        assert len(listed) == len(set(listed))
        assert set(listed) == steps(checked, printed)
        if expected:
            found = checked.nearest_legal(start, random.Random(0))
            assert found in expected
            least = min(checked.distance(printed, other) for other in expected)
            assert checked.distance(printed, found) == pytest.approx(least)


# ------------------------------------------------------------------------- space files

FILE = """\
name: conditional
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {type: power_of_two, min: 16, max: 64, default: 16}
  TILE: {values: [1, 2, 4], default: 1, when: BLOCK > 16 and n > 100}
flags:
  nvcc:
    use_fast_math: {type: boolean, when: TILE == 4}
    maxrregcount: {min: 32, max: 33, when: use_fast_math}
launch: {group: [BLOCK], grid: [TILE]}
inputs: {features: [n], values: [{n: 100}, {n: 1000}]}
"""


def test_parameters_and_flags_of_a_space_file_have_conditions(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, FILE)
    small, large = (ConstrainedSpace.of(spec, given, None, "nvcc") for given in spec.inputs)
    assert (small.count, large.count) == (3, 1 + 2 * (2 + 1 + 3))
    found = Config({"BLOCK": 64, "TILE": 4, "use_fast_math": True, "maxrregcount": 33})
    assert large.is_legal(found)
    assert small.canonical(found) == Config(
        {"BLOCK": 64, "TILE": 1, "use_fast_math": False, "maxrregcount": None}
    )
    assert spec.parameters[2].options(True) == ("--use_fast_math",)


def test_check_lists_every_condition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = FILE.replace("TILE == 4}", "TILE * 64 <= max_local_bytes}")
    assert check([str(write_space(tmp_path, text)), "--no-compile"]) == 0
    printed = capsys.readouterr().out
    assert "\n  TILE matters when BLOCK > 16 and n > 100; else it has its default\n" in printed
    assert (
        "use_fast_math matters when TILE * 64 <= max_local_bytes; else it has its default; "
        "checked with a device or --arch, for max_local_bytes" in printed
    )


def test_a_condition_is_part_of_what_is_searched(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    one = make_spec(tmp_path / "one", FILE)
    other = make_spec(tmp_path / "other", FILE.replace("n > 100}", "n > 101}"))
    assert one.program_sha256 == other.program_sha256
    assert one.space_sha256 != other.space_sha256


def test_a_long_condition_does_not_get_too_long(tmp_path: Path) -> None:
    long = "BLOCK > 16 and n > 100" + " and BLOCK < 999" * 61
    assert 990 < len(long) <= 1000
    text = FILE.replace("when: BLOCK > 16 and n > 100", f"when: {long}")
    spec = make_spec(tmp_path, text)
    assert ConstrainedSpace.of(spec, spec.inputs[1], None, "nvcc").count == 13


# ---------------------------------------------------------------------------- campaigns

TILE_FROM_1000 = """\
name: conditional
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {type: power_of_two, min: 16, max: 1024, default: 16}
  TILE: {values: [1, 2, 4, 8], default: 1, when: n >= 1000}
launch: {group: [BLOCK], grid: [TILE]}
inputs: {features: [n], values: [{n: 1000}, {n: 10}]}
"""


def test_winners_and_seeds_are_tried_on_other_inputs_as_they_are_told_there(tmp_path: Path) -> None:
    def time_s(on: Input, config: Config) -> float:
        return 1 / (config["BLOCK"] * config["TILE"])  # type: ignore[operator]

    spec, measurer = make_spec(tmp_path, TILE_FROM_1000), FormulaMeasurer(time_s)
    seed = Config({"BLOCK": 512, "TILE": 8})
    with opened(spec, tmp_path / "db", measurer, test_limit=3, seeds=(seed,)) as (campaign, _):
        campaign.check_seeds()
        campaign.run()
    large, small = spec.inputs
    asked = {given: {c for on, c in measurer.asked if on == given} for given in spec.inputs}
    assert seed in asked[large]
    assert Config({"BLOCK": 512, "TILE": 1}) in asked[small]
    assert {config["TILE"] for config in asked[small]} == {1}
    assert len(measurer.asked) == len(set(measurer.asked))
