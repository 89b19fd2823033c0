"""Legal configurations: counted, drawn, judged and moved between, held against brute force."""

from __future__ import annotations

import itertools
import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError, UsageError
from harness.core.records import Config, DeviceLimits, Value
from harness.space import ConstrainedSpace, Space, position_of
from harness.space_file import LaunchPlan, Parameter, Spec
from tests.helpers.replays import make_spec

DEVICE = DeviceLimits(256, (128, 256, 64), (1000, 500, 500), 4096, 16, 32)

FLAGGED = """\
name: flagged
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {type: power_of_two, min: 16, max: 1024, default: 64}
  TILE: {type: integer, min: 1, max: 4, default: 1}
flags:
  nvcc: {maxrregcount: {min: 32, max: 34}}
  opencl: {cl-mad-enable: boolean}
constraints:
  - BLOCK * TILE * 4 <= max_local_bytes
  - maxrregcount == absent or BLOCK * maxrregcount <= 2048
launch: {group: [BLOCK], grid: ["ceil_div(n, BLOCK * TILE)"]}
inputs:
  features: [n]
  values: [{n: 4096}, {n: 100000}]
"""


def parameter(name: str, values: Sequence[Value], kind: str = "ordered") -> Parameter:
    return Parameter(name, kind, values, "source", values[0])


def space(domains: dict[str, Sequence[Value]], *constraints: str, **given: Value) -> Space:
    parameters = [
        parameter(name, values, "enum" if isinstance(values[0], (str, bool)) else "ordered")
        for name, values in domains.items()
    ]
    return ConstrainedSpace(parameters, [Expression(text) for text in constraints], given)


def small() -> Space:
    """Four kinds of value, three constraints, 88 of 288 points legal."""
    domains: dict[str, Sequence[Value]] = {
        "A": (1, 2, 4, 8),
        "B": range(1, 7),
        "C": (False, True),
        "D": ("row", "column", "block"),
        "E": (0.5, 1),
    }
    return space(domains, "A * B <= limit", "not C or D == 'row'", "A % B == 0 or E < 1", limit=12)


def brute_force(checked: Space) -> set[Config]:
    names = [p.name for p in checked.parameters]
    points = itertools.product(*(p.values for p in checked.parameters))
    configs = (Config(dict(zip(names, point, strict=True))) for point in points)
    return {config for config in configs if checked.is_legal(config)}


@pytest.fixture
def short_of_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ties more than some hundred combinations together is left to rejection."""
    monkeypatch.setattr("harness.constraints.solver.diagram.MAX_EDGES", 100)


def tied() -> Space:
    """Constraints that tie 16^6 combinations together: too many for a table."""
    domains: dict[str, Sequence[Value]] = {f"P{i}": range(1, 17) for i in range(6)}
    return space(domains, "P0 * P1 * P2 * P3 * P4 * P5 <= 20000", "P0 % P1 == 0", "P4 == P5")


def tied_by_first() -> dict[int, int]:
    """The legal configurations of `tied` for each value of P0, counted by sums over products."""
    numbers = range(1, 17)
    pairs = Counter(p2 * p3 for p2 in numbers for p3 in numbers)
    rest = Counter({x * p4 * p4: 0 for x in pairs for p4 in numbers})
    for (x, count), p4 in itertools.product(pairs.items(), numbers):
        rest[x * p4 * p4] += count
    return {
        p0: sum(
            count
            for p1 in numbers
            if p0 % p1 == 0
            for product, count in rest.items()
            if p0 * p1 * product <= 20000
        )
        for p0 in numbers
    }


def tied_count() -> int:
    """The number of legal configurations of `tied`."""
    return sum(tied_by_first().values())


# ------------------------------------------------------------------------------ counting


def test_the_count_is_that_of_brute_force() -> None:
    assert small().count == len(brute_force(small()))
    assert small().raw_count == 4 * 6 * 2 * 3 * 2


def test_iterating_gives_each_legal_configuration_once() -> None:
    listed = list(small())
    assert len(listed) == small().count
    assert set(listed) == brute_force(small())


def test_every_index_is_a_configuration_and_the_count_is_the_end() -> None:
    checked = small()
    assert checked.count is not None
    assert {checked[index] for index in range(checked.count)} == set(checked)
    with pytest.raises(IndexError):
        checked[checked.count]


def test_without_constraints_everything_is_legal() -> None:
    assert space({"A": range(5), "B": ("x", "y")}).count == 10


def test_a_constraint_that_no_parameter_decides_empties_the_space_or_does_nothing() -> None:
    assert space({"A": range(5)}, "m > 3", m=4).count == 5
    assert space({"A": range(5)}, "m > 3", m=3).count == 0
    assert space({"A": range(5)}, "m / k", m=0, k=0).count == 0  # NaN is false


def test_constraints_that_hold_for_all_values_are_not_kept() -> None:
    assert (
        space({"A": range(1, 5), "B": (1, 2)}, "A >= 1", "A * B <= 8", "m == 1", m=1).constraints
        == []
    )


def test_a_constraint_that_cannot_be_computed_is_an_error_and_says_with_which_values() -> None:
    checked = space({"A": (1, 70)}, "2 ** A > 1")
    with pytest.raises(ExpressionError, match="an exponent must lie between"):
        _ = checked.count
    assert "with A=70" in str(checked.why_illegal({"A": 70}))
    assert checked.is_legal({"A": 1})


# ------------------------------------------------------------------------------- drawing


def test_samples_are_uniform() -> None:
    checked, rng = small(), random.Random(7)
    drawn = Counter(checked.sample(rng)[0] for _ in range(6000))
    assert set(drawn) == set(checked)
    assert chisquare(list(drawn.values())).pvalue > 1e-3


@pytest.mark.parametrize("excluded", [10, 55])
@pytest.mark.parametrize("count", [2, 20])
def test_samples_are_uniform_among_what_is_not_excluded(excluded: int, count: int) -> None:
    checked, rng = small(), random.Random(count)
    legal = list(checked)
    exclude = set(rng.sample(legal, len(legal) * excluded // 60))
    drawn: Counter[Config] = Counter()
    for _ in range(1000):
        drawn.update(checked.sample(rng, count, exclude))
    assert set(drawn) == set(legal) - exclude
    if count < len(drawn):
        # Each call draws without replacement, so that counts vary less than chi-square's.
        assert chisquare(list(drawn.values())).pvalue > 1e-3
    else:
        assert set(drawn.values()) == {1000}


def test_samples_are_distinct() -> None:
    checked = small()
    for count in (1, 7, 30, checked.count):
        assert count is not None
        drawn = checked.sample(random.Random(count), count)
        assert len(set(drawn)) == len(drawn) == count


def test_fewer_are_sampled_where_there_are_no_more() -> None:
    checked, rng = small(), random.Random(0)
    assert set(checked.sample(rng, 1000)) == set(checked)
    assert checked.sample(rng, 3, set(checked)) == []
    last = checked.sample(rng)
    assert checked.sample(rng, 3, set(checked) - set(last)) == last


def test_configurations_of_another_space_may_be_excluded() -> None:
    others = {Config({"A": number}) for number in range(100)}
    assert len(small().sample(random.Random(0), 10, others)) == 10


def test_an_empty_space_gives_nothing() -> None:
    empty = space({"A": range(5)}, "A > 9")
    assert (empty.count, list(empty), empty.sample(random.Random(0))) == (0, [], [])
    with pytest.raises(UsageError, match="no legal configuration was found"):
        empty.nearest_legal(Config({"A": 1}), random.Random(0))


def test_the_same_seed_samples_the_same() -> None:
    first, second = (small().sample(random.Random(3), 10) for _ in range(2))
    assert first == second


# -------------------------------------------------------- spaces too large for tables


def test_what_is_too_much_for_a_table_is_counted_and_drawn_all_the_same() -> None:
    assert tied().count == tied_count()
    drawn = tied().sample_points(np.random.default_rng(5), 3000)
    found, weights = Counter((drawn[:, 0] + 1).tolist()), tied_by_first()
    expected = [3000 * weight / tied_count() for weight in weights.values()]
    assert chisquare([found[p0] for p0 in weights], expected).pvalue > 1e-3


@pytest.mark.usefixtures("short_of_room")
def test_a_space_that_is_too_large_to_count_is_estimated_within_its_error() -> None:
    checked, expected = tied(), tied_count()
    assert checked.count is None
    for seed in range(2):
        estimate, error = checked.estimate_count(random.Random(seed))
        assert 0 < error < 0.1 * expected
        assert abs(estimate - expected) < 4 * error


@pytest.mark.usefixtures("short_of_room")
def test_an_estimate_of_nothing_found_still_has_an_error() -> None:
    domains: dict[str, Sequence[Value]] = {f"P{i}": range(1, 17) for i in range(6)}
    checked = space(domains, " * ".join(domains) + " == 1")
    estimate, error = checked.estimate_count(random.Random(0))
    assert abs(estimate - 1) <= 2 * error


def test_a_space_that_can_be_counted_needs_no_estimate() -> None:
    assert small().estimate_count(random.Random(0)) == (small().count, 0.0)


@pytest.mark.usefixtures("short_of_room")
def test_a_space_that_is_too_large_to_count_is_sampled_by_rejection() -> None:
    checked = tied()
    first = checked.sample(random.Random(1), 50)
    rest = checked.sample(random.Random(1), 50, set(first))
    assert len({*first, *rest}) == 100
    assert all(checked.is_legal(config) for config in [*first, *rest])


@pytest.mark.usefixtures("short_of_room")
def test_rejection_samples_uniformly() -> None:
    drawn = tied().sample(random.Random(5), 3000)
    found = Counter(config["P0"] for config in drawn)
    weights = tied_by_first()
    expected = [3000 * weight / tied_count() for weight in weights.values()]
    assert chisquare([found[p0] for p0 in weights], expected).pvalue > 1e-3


@pytest.mark.usefixtures("short_of_room")
def test_a_space_that_is_too_large_to_count_is_iterated_lazily() -> None:
    checked = tied()
    first = list(itertools.islice(checked, 200))
    assert len(set(first)) == 200
    assert all(checked.is_legal(config) for config in first)
    with pytest.raises(UsageError, match="too large to index"):
        checked[0]


@pytest.mark.usefixtures("short_of_room")
def test_a_search_that_finds_nothing_by_rejection_ends() -> None:
    domains: dict[str, Sequence[Value]] = {f"P{i}": range(1, 18) for i in range(6)}
    checked = space(domains, " * ".join(domains) + " == 1")
    assert checked.count is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.space.draws._MAX_DRAWS", 500)
        assert checked.sample(random.Random(0)) == []


# ------------------------------------------------------------------------------- judging


def test_a_broken_constraint_is_told_with_its_values() -> None:
    config: dict[str, Value] = {"A": 8, "B": 2, "C": False, "D": "row", "E": 1}
    assert small().why_illegal(config) == "`A * B <= limit` is false with A=8, B=2, limit=12"
    assert not small().is_legal(config)
    assert small().why_illegal({**config, "A": 4}) is None


def test_what_is_no_point_is_told_by_its_parameter() -> None:
    checked = space({"A": (1, 2), "B": ("x", "y")})
    assert checked.why_illegal({"A": 1, "B": "x", "Z": 1}) == (
        "`Z` is not a parameter; there are A, B"
    )
    assert checked.why_illegal({"A": 1}) == "it has no value for B"
    assert checked.why_illegal({"A": 3, "B": "x"}) == "A=3 is not one of its values"


@pytest.mark.parametrize("values", [(1, 2), (True, False), (1.0, 2.0), ("1", "2"), range(1, 3)])
def test_a_value_of_another_type_is_another_value(values: Sequence[Value]) -> None:
    checked = space({"A": values})
    for value in (1, True, 1.0, "1"):
        own = any(type(value) is type(v) and value == v for v in values)
        assert checked.is_legal({"A": value}) is own
        place = position_of(checked.parameters[0], value)
        assert place == (list(values).index(value) if own else None)


def test_an_absent_flag_is_a_value() -> None:
    checked = space({"F": (None, 16, 32)}, "F == absent or F > 16")
    assert [config["F"] for config in checked] == [None, 32]
    assert checked.is_legal({"F": None})


# ---------------------------------------------------------------------------- neighbours


def differing(one: Config, other: Config) -> list[str]:
    return [name for name in one if one[name] is not other[name] and one[name] != other[name]]


def test_neighbours_are_the_legal_configurations_that_differ_in_one_parameter() -> None:
    checked = small()
    legal = set(checked)
    for config in sorted(legal, key=lambda c: c.json)[::5]:
        found = list(checked.neighbours(config, None))
        assert len(found) == len(set(found))
        assert set(found) == {other for other in legal if len(differing(config, other)) == 1}


def test_a_neighbour_is_within_reach_on_scales_and_any_other_value_of_an_enumeration() -> None:
    parameters = [
        parameter("S", (1, 2, 3, 4, 6, 8)),
        Parameter("P", "power_of_two", (16, 32, 64, 128), "launch", 16),
        parameter("D", ("a", "b", "c"), "enum"),
        parameter("C", (False, True), "boolean"),
    ]
    checked = ConstrainedSpace(parameters)
    config = Config({"S": 4, "P": 128, "D": "a", "C": False})
    by_name: Callable[[int | None], dict[str, list[Value]]] = lambda reach: {  # noqa: E731
        name: [n[name] for n in checked.neighbours(config, reach) if n[name] != config[name]]
        for name in config
    }
    assert by_name(1) == {"S": [3, 6], "P": [64], "D": ["b", "c"], "C": [True]}
    assert by_name(2)["S"] == [2, 3, 6, 8]
    assert by_name(None)["P"] == [16, 32, 64]


def test_neighbours_of_an_illegal_configuration_are_legal() -> None:
    checked = small()
    config = Config({"A": 8, "B": 2, "C": False, "D": "row", "E": 1})
    found = set(checked.neighbours(config, None))
    assert found == {other for other in checked if len(differing(config, other)) == 1}
    assert found


def test_neighbours_of_what_is_no_point_are_refused() -> None:
    with pytest.raises(UsageError, match="A=3 is not one of its values"):
        list(small().neighbours(Config({"A": 3, "B": 1, "C": True, "D": "row", "E": 1})))


def points(checked: Space, count: int, seed: int = 0) -> list[Config]:
    """Points of the product, legal or not."""
    rng = random.Random(seed)
    return [
        checked.decode([rng.randrange(len(p.values)) for p in checked.parameters])
        for _ in range(count)
    ]


def test_the_nearest_legal_configuration_of_a_legal_one_is_itself() -> None:
    checked = small()
    assert all(checked.nearest_legal(c, random.Random(0)) == c for c in checked)


def test_one_changed_parameter_is_enough_where_one_can_be() -> None:
    checked, rng = small(), random.Random(0)
    for config in points(checked, 200):
        found = checked.nearest_legal(config, rng)
        assert checked.is_legal(found)
        near = list(checked.neighbours(config, 8))
        if near and not checked.is_legal(config):
            assert len(differing(config, found)) == 1
            least = min(checked.distance(config, other) for other in near)
            assert checked.distance(config, found) == pytest.approx(least)


def test_two_broken_constraints_without_a_common_parameter_are_mended_one_by_one() -> None:
    domains: dict[str, Sequence[Value]] = {name: range(1, 9) for name in "ABCD"}
    checked = space(domains, "A <= B", "C <= D")
    config = Config({"A": 5, "B": 4, "C": 8, "D": 7})
    found = checked.nearest_legal(config, random.Random(0))
    assert checked.is_legal(found)
    assert checked.distance(config, found) == pytest.approx(2 / 7)


def test_what_no_small_step_mends_becomes_the_nearest_of_a_sample() -> None:
    checked = space({"A": range(100), "B": range(100)}, "A == 90 and B == 80 or A + B == 5")
    found = checked.nearest_legal(Config({"A": 60, "B": 60}), random.Random(0))
    assert found == Config({"A": 90, "B": 80})


@pytest.mark.usefixtures("short_of_room")
def test_where_rejection_finds_nothing_the_default_is_the_nearest_that_is_known() -> None:
    domains: dict[str, Sequence[Value]] = {f"P{i}": range(17) for i in range(6)}
    total = " + ".join(domains)
    checked = space(domains, f"{total} == 0")
    start = Config(dict.fromkeys(domains, 16))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.space.draws._MAX_DRAWS", 100)
        assert checked.nearest_legal(start, random.Random(0)) == checked.default


def test_distance_is_the_relative_step_on_scales_and_one_elsewhere() -> None:
    checked = small()
    one = Config({"A": 1, "B": 1, "C": False, "D": "row", "E": 1})
    other = Config({"A": 4, "B": 6, "C": False, "D": "block", "E": 1})
    assert checked.distance(one, other) == pytest.approx(2 / 3 + 1 + 1)
    assert checked.distance(other, one) == checked.distance(one, other)
    assert checked.distance(one, one) == 0


# ------------------------------------------------------------------------------ encoding


def test_decode_is_the_inverse_of_encode() -> None:
    checked = small()
    for config in checked:
        assert checked.decode(checked.encode(config)) == config
    assert checked.encode({"E": 1, "D": "block", "C": True, "B": 2, "A": 8}) == (3, 1, 1, 2, 1)


def test_encode_refuses_what_is_no_value() -> None:
    with pytest.raises(UsageError, match="C=1 is not one of its values"):
        small().encode({"A": 1, "B": 1, "C": 1, "D": "row", "E": 1})


# -------------------------------------------------------------- inputs, devices, launches


def on_device(spec: Spec, limits: DeviceLimits | None, compiler: str | None = None) -> Space:
    return ConstrainedSpace.of(spec, spec.inputs[0], limits, compiler)


def test_the_default_is_every_parameter_at_its_default(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, FLAGGED)
    assert on_device(spec, None).default == Config({"BLOCK": 64, "TILE": 1})
    assert on_device(spec, None, "nvcc").default == Config(
        {"BLOCK": 64, "TILE": 1, "maxrregcount": None}
    )


def test_flags_of_other_compilers_stay_absent(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, FLAGGED)
    names = {
        compiler: [p.name for p in on_device(spec, None, compiler).parameters]
        for compiler in (None, "nvcc", "opencl")
    }
    assert names[None] == ["BLOCK", "TILE"]
    assert names["nvcc"] == ["BLOCK", "TILE", "maxrregcount"]
    assert names["opencl"][:2] == ["BLOCK", "TILE"]
    assert "maxrregcount" not in names["opencl"]
    assert len(names["opencl"]) == 3
    # The constraint over the flag holds where it is absent, whatever BLOCK is.
    assert {c["BLOCK"] for c in on_device(spec, None)} == {16, 32, 64, 128, 256, 512, 1024}
    flagged = [c for c in on_device(spec, None, "nvcc") if c["maxrregcount"] is not None]
    assert {c["BLOCK"] for c in flagged} == {16, 32, 64}


def test_without_a_device_what_names_its_limits_is_left_out(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, FLAGGED)
    assert on_device(spec, None).is_legal({"BLOCK": 1024, "TILE": 4})


def test_constraints_may_name_the_limits_of_a_device(tmp_path: Path) -> None:
    checked = on_device(make_spec(tmp_path, FLAGGED), DEVICE)
    assert checked.why_illegal({"BLOCK": 512, "TILE": 4}) == (
        "`BLOCK * TILE * 4 <= max_local_bytes` is false with BLOCK=512, TILE=4, "
        "max_local_bytes=4096"
    )


def test_a_launch_must_fit_the_device_whether_the_space_says_so_or_not(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, FLAGGED)
    checked = on_device(spec, DEVICE)
    assert checked.why_illegal({"BLOCK": 512, "TILE": 1}) == (
        "`BLOCK <= 256` is false with BLOCK=512; launch.group has at most 256 work-items in all "
        "(max_group_size of the device): change BLOCK, or the expression"
    )
    assert checked.why_illegal({"BLOCK": 256, "TILE": 1}) == (
        "`BLOCK <= 128` is false with BLOCK=256; launch.group is at most 128 on the device: "
        "change BLOCK, or the expression"
    )
    wide = ConstrainedSpace.of(spec, spec.inputs[1], DEVICE)
    assert wide.why_illegal({"BLOCK": 32, "TILE": 1}) == (
        "`(ceil_div(n, BLOCK * TILE)) <= 1000` is false with n=100000, BLOCK=32, TILE=1; "
        "launch.grid is at most 1,000 on the device: change BLOCK, TILE, or the expression"
    )
    assert {c["BLOCK"] for c in checked} == {16, 32, 64, 128}
    assert {c["BLOCK"] * c["TILE"] for c in wide} == {128, 192, 256, 384, 512}  # type: ignore[operator]


def test_the_product_of_a_group_must_fit_the_device() -> None:
    parameters = [parameter("X", (16, 64)), parameter("Y", (1, 8))]
    plan = LaunchPlan((Expression("X"), Expression("Y + 1")), (Expression("1"),))
    checked = ConstrainedSpace(parameters, (), {}, DEVICE, plan)
    assert checked.why_illegal({"X": 64, "Y": 8}) == (
        "`X * (Y + 1) <= 256` is false with X=64, Y=8; launch.group has at most 256 work-items in "
        "all (max_group_size of the device): change X, Y, or the expression"
    )
    assert checked.count == 3


def test_a_launch_of_no_group_is_illegal_on_a_device() -> None:
    plan = LaunchPlan((Expression("X"),), (Expression("n // X"),))
    checked = ConstrainedSpace([parameter("X", (16, 64))], (), {"n": 32}, DEVICE, plan)
    assert checked.why_illegal({"X": 64}) == (
        "`(n // X) >= 1` is false with n=32, X=64; launch.grid begins at 1: change X, "
        "or the expression"
    )


def test_a_launch_has_the_sizes_of_its_expressions(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, FLAGGED)
    launch = on_device(spec, None).launch(Config({"BLOCK": 64, "TILE": 3}), "kernel", ["a", "b"])
    assert (launch.group, launch.grid) == ((64,), (22,))
    assert (launch.function, launch.arguments) == ("kernel", ("a", "b"))


@pytest.mark.parametrize(
    ("size", "found"), [("n / X", "2.5"), ("X - 2", "0"), ("n / (X - 2)", "nan"), ("m", "row")]
)
def test_a_launch_size_that_is_no_whole_number_is_refused(size: str, found: str) -> None:
    plan = LaunchPlan((Expression("X"),), (Expression(size),))
    checked = ConstrainedSpace([parameter("X", (2, 4))], (), {"n": 5, "m": "row"}, None, plan)
    with pytest.raises(ExpressionError) as raised:
        checked.launch(Config({"X": 2}), "kernel", ())
    assert str(raised.value) == (
        f"the launch size `{size}` must be a whole number from 1, but is {found}"
    )


def test_shared_memory_lies_within_that_of_a_group_that_asks_for_it() -> None:
    plan = LaunchPlan((Expression("X"),), (Expression("1"),), Expression("X * 1024 - 4096"))
    asking = replace(DEVICE, opt_in_local_bytes=8192)
    for limits, legal in ((DEVICE, {4, 8}), (asking, {4, 8, 12})):
        checked = ConstrainedSpace([parameter("X", (2, 4, 8, 12, 16))], (), {}, limits, plan)
        assert {config["X"] for config in checked} == legal
    assert checked.launch(Config({"X": 4}), "f", ()).shared_bytes == 0
    assert checked.launch(Config({"X": 8}), "f", ()).shared_bytes == 4096
    with pytest.raises(ExpressionError, match="must be a whole number from 0, but is -2048"):
        checked.launch(Config({"X": 2}), "f", ())


def test_a_whole_number_may_be_a_float() -> None:
    plan = LaunchPlan((Expression("sqrt(X)"),), (Expression("X / 2"),))
    launch = ConstrainedSpace([parameter("X", (16,))], (), {}, None, plan).launch(
        Config({"X": 16}), "kernel", ()
    )
    assert (launch.group, launch.grid) == ((4,), (8,))
    assert all(type(size) is int for size in (*launch.group, *launch.grid))


# ------------------------------------------------------------------------------ laziness


def billions() -> Space:
    """32^12 points, 1.5 * 10^10 of them legal."""
    domains: dict[str, Sequence[Value]] = {f"P{i}": range(1, 33) for i in range(12)}
    return space(domains, *(f"P{i} <= P{i + 1}" for i in range(11)))


def unbounded() -> Space:
    """Ranges of 10^9 values each, one constraint over all values of two of them."""
    domains: dict[str, Sequence[Value]] = {name: range(1, 10**9) for name in "ABC"}
    return space(domains, "A <= B")


@pytest.mark.parametrize("made", [billions, tied, unbounded])
def test_a_space_of_billions_answers_at_once_and_in_little_memory(
    made: Callable[[], Space],
) -> None:
    made().sample(random.Random(0))  # what numpy sets up once is not counted
    began = time.process_time()
    checked, rng = made(), random.Random(0)
    drawn = checked.sample(rng, 5)
    assert all(checked.is_legal(config) for config in drawn)
    assert len(list(itertools.islice(checked.neighbours(drawn[0]), 5))) > 0
    assert checked.is_legal(checked.nearest_legal(points(checked, 1)[0], rng))
    assert time.process_time() - began < 10
    assert len(drawn) == 5
    tracemalloc.start()
    made().sample(rng, 5)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 40e6


def test_drawing_beside_thousands_that_were_measured_stays_quick() -> None:
    domains: dict[str, Sequence[Value]] = {name: range(1, 17) for name in "ABC"}
    checked, rng = space(domains, "A * B <= 200"), random.Random(0)
    assert checked.count is not None
    measured = set(checked.sample(rng, checked.count - 200))
    began = time.process_time()
    for _ in range(100):
        measured.update(checked.sample(rng, 1, measured))
    assert time.process_time() - began < 10
    assert len(measured) == checked.count - 100
