"""Legal configurations, each by itself and as arrays of points: counted, drawn, judged and moved
between, compared with brute force; those that differ in what does not matter are one."""

import itertools
import random
import re
import time
import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError, UsageError
from harness.core.records import Config, DeviceLimits, Input, Outcome
from harness.recordings.recording import RecordedTable, Recording
from harness.recordings.replay import ListedSpace
from harness.search.techniques import steps_up
from harness.space import ConstrainedSpace
from harness.space_file import LaunchPlan, Parameter
from tests.helpers.commands import check
from tests.helpers.replays import FormulaMeasurer, make_spec, opened, write_space

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


def parameter(name, values, kind=""):
    inferred = "enum" if isinstance(values[0], (str, bool, type(None))) else "ordered"
    return Parameter(name, kind or inferred, values, "source", values[0])


def space(
    domains,
    *constraints,
    defaults=MappingProxyType({}),
    whens=MappingProxyType({}),
    **given,
):
    parameters = [
        replace(
            parameter(name, values),
            default=defaults.get(name, values[0]),
            when=Expression(when) if (when := whens.get(name)) else None,
        )
        for name, values in domains.items()
    ]
    return ConstrainedSpace(parameters, [Expression(text) for text in constraints], given)


def small():
    """Four kinds of value, three constraints, 88 of 288 points legal."""
    domains = {
        "A": (1, 2, 4, 8),
        "B": range(1, 7),
        "C": (False, True),
        "D": ("row", "column", "block"),
        "E": (0.5, 1),
    }
    return space(domains, "A * B <= limit", "not C or D == 'row'", "A % B == 0 or E < 1", limit=12)


def every_point(checked):
    return [checked.decode(place) for place in all_places(checked)]


def all_places(checked):
    return list(itertools.product(*(range(len(p.values)) for p in checked.parameters)))


def brute_force(checked):
    """What the constraints allow, each in its one form, by looking at all points."""
    return {c for c in map(checked.canonical, every_point(checked)) if checked.is_legal(c)}


@pytest.fixture
def short_of_room(monkeypatch):
    """What ties more than some hundred combinations together is left to rejection."""
    monkeypatch.setattr("harness.constraints.solutions.MOST_EDGES", (300,))


def tied():
    """Constraints that tie 16^6 combinations together: too many for a table."""
    domains = {f"P{i}": range(1, 17) for i in range(6)}
    return space(domains, "P0 * P1 * P2 * P3 * P4 * P5 <= 20000", "P0 % P1 == 0", "P4 == P5")


TIED_COUNT = 64577
"""The number of legal configurations of `tied`."""


# ------------------------------------------------------------------------------ counting


def test_each_legal_configuration_is_counted_listed_and_indexed_once():
    checked, expected = small(), brute_force(small())
    assert (checked.raw_count, checked.count) == (4 * 6 * 2 * 3 * 2, len(expected))
    assert {checked[index] for index in range(len(expected))} == expected
    with pytest.raises(IndexError):
        checked[len(expected)]


def test_a_constraint_that_no_parameter_decides_empties_the_space_or_does_nothing():
    assert space({"A": range(5)}, "m > 3", m=4).count == 5
    assert space({"A": range(5)}, "m > 3", m=3).count == 0
    assert space({"A": range(5)}, "m / k", m=0, k=0).count == 0  # NaN is false


def test_what_cannot_be_computed_is_not_legal_and_says_with_which_values():
    checked = space({"F": (None, 1, 2), "A": (1, 2)}, "F * A < 4")
    assert checked.count == len(brute_force(checked)) == 3
    assert "with F=absent, A=1" in (checked.why_illegal({"F": None, "A": 1}) or "")


# ------------------------------------------------------------------------------- drawing


def test_samples_are_uniform_among_what_is_not_excluded():
    checked, rng = small(), random.Random(2)
    exclude = set(rng.sample(list(checked), 14))
    drawn = Counter()
    for _ in range(300):
        drawn.update(checked.sample(rng, 2, exclude))
    assert set(drawn) == set(checked) - exclude
    # Each call draws without replacement, so that counts vary less than chi-square's.
    assert chisquare(list(drawn.values())).pvalue > 1e-3


def test_fewer_are_sampled_where_there_are_no_more():
    checked, rng = small(), random.Random(0)
    assert set(checked.sample(rng, 1000)) == set(checked)
    assert checked.sample(rng, 3, set(checked)) == []
    last = checked.sample(rng)
    assert checked.sample(rng, 3, set(checked) - set(last)) == last


def test_an_empty_space_gives_nothing():
    empty = space({"A": range(5)}, "A > 9")
    assert (empty.count, list(empty), empty.sample(random.Random(0))) == (0, [], [])
    with pytest.raises(UsageError, match="no legal configuration was found"):
        empty.nearest_legal(Config({"A": 1}), random.Random(0))


# -------------------------------------------------------- spaces too large for tables


def test_a_space_that_is_too_large_to_count_is_estimated_within_its_error(short_of_room):
    checked, expected = tied(), TIED_COUNT
    assert checked.count is None
    estimate, error = checked.estimate_count(random.Random(0))
    assert abs(estimate - expected) < 4 * error < 0.4 * expected
    # Nothing is found, and still there is an error.
    domains = {f"P{i}": range(1, 17) for i in range(6)}
    estimate, error = space(domains, " * ".join(domains) + " == 1").estimate_count(random.Random(0))
    assert abs(estimate - 1) <= 2 * error


def test_a_space_that_is_too_large_to_count_is_sampled_and_iterated_by_rejection(short_of_room):
    checked = tied()
    first = checked.sample(random.Random(1), 50)
    rest = checked.sample(random.Random(1), 50, set(first))
    assert len({*first, *rest}) == 100
    assert all(checked.is_legal(config) for config in [*first, *rest])
    assert len(set(itertools.islice(checked, 200))) == 200
    with pytest.raises(UsageError, match="too large to index"):
        checked[0]


# ------------------------------------------------------------------------------- judging


def test_a_broken_constraint_is_printed_with_its_values():
    config = {"A": 8, "B": 2, "C": False, "D": "row", "E": 1}
    assert "with A=8, B=2, limit=12" in (small().why_illegal(config) or "")
    assert not small().is_legal(config)
    assert small().why_illegal({**config, "A": 4}) is None


def test_what_is_no_point_is_refused_by_its_parameter():
    checked = space({"A": (1, 2), "B": ("x", "y")})
    for values, name in (
        ({"A": 1, "B": "x", "Z": 1}, "`Z`"),
        ({"A": 1}, "B"),
        ({"A": 3, "B": "x"}, "A=3"),
    ):
        assert name in (checked.why_illegal(values) or "")


def test_a_value_of_another_type_is_another_value():
    domains = [(1, 2), (True, False), (1.0, 2.0), ("1", "2"), range(1, 3)]
    for values in domains:
        checked = space({"A": values})
        for value in (1, True, 1.0, "1"):
            is_first = type(value) is type(values[0])
            assert checked.is_legal({"A": value}) is is_first
            assert (checked.parameters[0].position(value) == 0) is is_first


# ---------------------------------------------------------------------------- neighbours


def neighbours(checked, config):
    return [checked.decode(row) for row in rows(checked.neighbour_points(places(checked, config)))]


def places(checked, config):
    return checked.encode_all([config])[0]


def test_where_rejection_finds_nothing_it_ends_and_the_default_is_the_nearest(
    monkeypatch,
):
    monkeypatch.setattr("harness.constraints.solutions.MOST_EDGES", (10,))
    monkeypatch.setattr("harness.space.space._MAX_DRAWS", 100)
    domains = {f"P{i}": range(1, 18) for i in range(6)}
    checked = space(domains, " * ".join(domains) + " == 1")
    start = Config(dict.fromkeys(domains, 17))
    assert checked.nearest_legal(start, random.Random(0)) == checked.default
    assert checked.sample_points(np.random.default_rng(0), 5).shape == (0, 6)


def test_distance_is_the_relative_step_on_scales_and_one_elsewhere():
    checked = small()
    first = Config({"A": 1, "B": 1, "C": False, "D": "row", "E": 1})
    other = Config({"A": 4, "B": 6, "C": False, "D": "block", "E": 1})
    for start, end, distance in ((first, other, 8 / 3), (other, first, 8 / 3), (first, first, 0)):
        assert checked.distance(start, end) == pytest.approx(distance)


# -------------------------------------------------------------- inputs, devices, launches


def on_device(spec, limits, compiler=None):
    return ConstrainedSpace.of(spec, spec.inputs[0], limits, compiler)


def test_flags_of_other_compilers_stay_absent(tmp_path):
    spec = make_spec(tmp_path, FLAGGED)
    for compiler, flags in (
        (None, set()),
        ("nvcc", {"maxrregcount"}),
        ("opencl", {"cl_mad_enable"}),
    ):
        names = {p.name for p in on_device(spec, None, compiler).parameters}
        assert names == {"BLOCK", "TILE"} | flags
    # The constraint over the flag holds where it is absent, whatever BLOCK is.
    assert {c["BLOCK"] for c in on_device(spec, None)} == {16, 32, 64, 128, 256, 512, 1024}
    flagged = [c for c in on_device(spec, None, "nvcc") if c["maxrregcount"] is not None]
    assert {c["BLOCK"] for c in flagged} == {16, 32, 64}


def test_constraints_may_name_the_limits_of_a_device(tmp_path):
    spec = make_spec(tmp_path, FLAGGED)
    assert on_device(spec, None).is_legal({"BLOCK": 1024, "TILE": 4}), "without a device"
    why = on_device(spec, DEVICE).why_illegal({"BLOCK": 512, "TILE": 4}) or ""
    assert "max_local_bytes=4096" in why


def test_a_launch_must_fit_the_device_whether_the_space_says_so_or_not(tmp_path):
    spec = make_spec(tmp_path, FLAGGED)
    checked = on_device(spec, DEVICE)
    wide = ConstrainedSpace.of(spec, spec.inputs[1], DEVICE)
    for of, block, why in (
        (checked, 512, "`BLOCK <= 256` is false with BLOCK=512; .*max_group_size"),
        (checked, 256, "`BLOCK <= 128` is false with BLOCK=256; launch.group"),
        (wide, 32, "<= 1000` is false with n=100000, BLOCK=32, TILE=1; launch.grid"),
    ):
        assert re.search(why, of.why_illegal({"BLOCK": block, "TILE": 1}) or "")
    assert {c["BLOCK"] for c in checked} == {16, 32, 64, 128}
    assert {c["BLOCK"] * c["TILE"] for c in wide} == {128, 192, 256, 384, 512}


def launched(values, limits=DEVICE, grid="1", **plan):
    """A space of X whose groups have one work-item, or as `plan` says."""
    launch = LaunchPlan(group=["1"], grid=[grid], **plan)
    return ConstrainedSpace([parameter("X", values)], (), {"n": 5, "m": "a"}, limits, launch)


def test_launch_of_no_group_is_illegal_on_a_device():
    why = launched((4, 64), grid="n // X").why_illegal({"X": 64})
    assert why is not None
    assert "`(n // X) >= 1` is false with n=5, X=64" in why


def test_a_launch_has_the_sizes_of_its_expressions(tmp_path):
    spec = make_spec(tmp_path, FLAGGED)
    launch = on_device(spec, None).launch(Config({"BLOCK": 64, "TILE": 3}), "kernel", ["a", "b"])
    assert (launch.group, launch.grid) == ((64,), (22,))
    assert (launch.function, launch.arguments) == ("kernel", ("a", "b"))
    computed = launched((16,), grid="sqrt(X) / 2").launch(Config({"X": 16}), "kernel", ())
    assert repr(computed.grid) == "(2,)", "a whole number, though a float"


def test_a_launch_size_that_is_no_whole_number_is_refused():
    for size, value in {"n / X": "2.5", "X - 2": "0", "n / 0": "nan", "m": "a"}.items():
        checked = launched((2, 4), None, size)
        with pytest.raises(ExpressionError, match=f"`{size}` .* is {value}$"):
            checked.launch(Config({"X": 2}), "kernel", ())


def test_shared_memory_lies_within_that_of_a_group_that_asks_for_it():
    asking = replace(DEVICE, opt_in_local_bytes=8192)
    for limits, legal in ((DEVICE, {4, 8}), (asking, {4, 8, 12})):
        checked = launched((2, 4, 8, 12, 16), limits, shared="X * 1024 - 4096")
        assert {config["X"] for config in checked} == legal
    for x, shared_bytes in {4: 0, 8: 4096}.items():
        assert checked.launch(Config({"X": x}), "f", ()).shared_bytes == shared_bytes
    with pytest.raises(ExpressionError, match="-2048"):
        checked.launch(Config({"X": 2}), "f", ())


def test_carveout_is_a_percentage_or_the_drivers_choice():
    checked = launched((-2, -1, 75, 100, 101), carveout="X")
    assert {config["X"] for config in checked} == {-1, 75, 100}
    assert checked.launch(Config({"X": 75}), "f", ()).carveout == 75


# ------------------------------------------------------------------------------ laziness


def billions():
    """32^12 points, 1.5 * 10^10 of them legal."""
    domains = {f"P{i}": range(1, 33) for i in range(12)}
    return space(domains, *(f"P{i} <= P{i + 1}" for i in range(11)))


def unbounded():
    """Ranges of 10^9 values each, one constraint over all values of two of them."""
    domains = {name: range(1, 10**9) for name in "ABC"}
    return space(domains, "A <= B")


@pytest.mark.parametrize("made", [billions, tied, unbounded])
def test_space_of_billions_answers_at_once_in_little_memory(made):
    began = time.process_time()
    checked, rng = made(), random.Random(0)
    drawn = checked.sample(rng, 5)
    assert [checked.is_legal(config) for config in drawn] == [True] * 5
    assert len(neighbours(checked, drawn[0])) > 0
    anywhere = Config({p.name: rng.choice(p.values) for p in checked.parameters})
    assert checked.is_legal(checked.nearest_legal(anywhere, rng))
    assert time.process_time() - began < 10
    tracemalloc.start()
    made().sample(rng, 5)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 40e6


# --------------------------------------------------------------------------------- points as arrays


def rows(places):
    return [tuple(row) for row in places.tolist()]


def test_what_is_no_value_cannot_be_encoded():
    checked = space({"A": (1, 2), "B": range(3)})
    assert checked.encode_all([]).shape == (0, 2)
    for bad in ({"A": 1.0, "B": 0}, {"A": 1, "B": 3}):
        with pytest.raises(UsageError, match="is not one of its values"):
            checked.encode_all([{"A": 1, "B": 0}, bad])
        with pytest.raises(UsageError, match="is not one of its values"):
            checked.encode(bad)


def evenness(drawn, legal):
    """The probability of counts as uneven as these, if all legal points are as likely."""
    counts = Counter(rows(drawn))
    assert len(counts) == legal
    return float(chisquare(list(counts.values())).pvalue)


def test_samples_that_are_left_to_rejection_are_uniform(monkeypatch):
    monkeypatch.setattr("harness.constraints.solutions.MOST_EDGES", (6,))
    checked = small()
    assert checked.count is None
    drawn = checked.sample_points(np.random.default_rng(1), 2000)
    assert evenness(drawn, len(brute_force(small()))) > 1e-3


def test_samples_are_uniform_where_counts_exceed_64_bits():
    domains = {f"P{i}": range(32) for i in range(24)}
    wide = space(domains, "P0 <= P1", "P2 != P3")
    assert wide.count == 528 * 32 * 31 * 32**20
    drawn = wide.sample_points(np.random.default_rng(3), 2000)
    assert all(map(wide.is_legal, map(wide.decode, rows(drawn[:100]))))
    # Of two in order, the first is n in 32 - n of 528.
    expected = [(32 - n) / 528 * 2000 for n in range(32)]
    assert chisquare(np.bincount(drawn[:, 0], minlength=32), expected).pvalue > 1e-3


def test_of_many_values_the_near_ones_and_some_spread_over_all_are_neighbours():
    checked = space({"A": range(1000), "B": range(64)}, "A + B < 1040")
    for here in (0, 5, 700, 999):
        near = range(max(0, here - 32), min(1000, here + 33))
        spread = [number * 999 // 31 for number in range(32)]
        changed = [(a, 3) for a in {*near, *spread} - {here}]
        changed += [(here, b) for b in range(min(64, 1040 - here)) if b != 3]
        listed = rows(checked.neighbour_points(np.array([here, 3], dtype=np.int32)))
        assert sorted(listed) == sorted(changed)


def test_ranges_of_more_values_than_32_bits_count_are_places_of_64_bits():
    checked = space({"A": range(1, 2**40), "B": (1, 2)}, "A % 2 == 0 or B == 1")
    drawn = checked.sample_points(np.random.default_rng(0), 100)
    assert drawn.dtype == np.int64
    assert all(checked.is_legal(checked.decode(row)) for row in rows(drawn))
    assert drawn[:, 0].max() > 2**32
    here = checked.encode_all([Config({"A": 2**33, "B": 1})])[0]
    assert {checked.decode(row)["B"] for row in rows(checked.neighbour_points(here))} == {1, 2}


# ------------------------------------------------------------------------ listed points


def listed_space(places, extents):
    """A recording of these configurations, all of which worked."""
    table = RecordedTable(np.array(sorted(places), np.int32), [Outcome.OK] * len(places), (), {})
    parameters = tuple(parameter(f"P{k}", range(extent)) for k, extent in enumerate(extents))
    recording = Input({"recording": "some"})
    names, tables = ("recording",), {recording: table}
    recorded = Recording(Path("a.csv"), "a", "", "csv", "", "", parameters, names, tables)
    return ListedSpace(recorded, recording)


@settings(max_examples=20, deadline=None)
@given(st.data(), st.sampled_from([(4, 3, 2), (2000, 5, 3), (2**31 - 1, 2**31 - 1, 2**31 - 1)]))
def test_neighbours_in_a_recording_are_its_rows_that_differ_in_one_parameter(data, extents):
    point = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 1))
    recorded = data.draw(st.sets(point, min_size=1))
    checked = listed_space(recorded, extents)
    here = np.array(data.draw(point), np.int32)
    expected = {p for p in recorded if np.count_nonzero(np.array(p) != here) == 1}
    assert set(rows(checked.neighbour_points(here))) == expected


def test_samples_of_a_recording_are_its_rows_uniformly():
    recorded = {(a, b) for a in range(9) for b in range(7) if (a + b) % 3}
    checked = listed_space(recorded, (9, 7))
    drawn = checked.sample_points(np.random.default_rng(2), 2000)
    assert set(rows(drawn)) == recorded
    every = np.array(all_places(checked), np.int32)
    assert set(rows(every[checked.are_legal(every)])) == recorded
    assert evenness(drawn, len(recorded)) > 1e-3


def test_rows_whose_numbers_need_more_than_64_bits_differ():
    rng = np.random.default_rng(5)
    recorded = set(map(tuple, rng.integers(30, size=(1000, 20)).tolist()))
    checked = listed_space(recorded, (30,) * 20)
    for place in sorted(recorded)[:20]:
        moved = ((place[0] + 1) % 30, *place[1:])
        assert checked.is_legal(checked.decode(place))
        assert not checked.is_legal(checked.decode(moved))
        assert place in rows(checked.neighbour_points(np.array(moved, np.int32)))


# --------------------------------------------- parameters that matter only `when` something holds


def tiled(**values):
    """Three implementations; each has parameters of its own, one of them parameters in turn."""
    domains = {
        "IMPL": ("direct", "tiled", "packed"),
        "TILE": (1, 2, 4, 8),
        "PAD": (0, 1, 2),
        "WORD": (None, 8, 16),
        "BLOCK": (16, 32, 64),
    }
    when = {"TILE": "IMPL == 'tiled'", "PAD": "TILE > 2", "WORD": "IMPL == 'packed' and m > 4"}
    defaults = {"TILE": 2, "BLOCK": 32}
    given = {"m": 64, **values}
    return space(domains, "TILE * BLOCK <= 256", defaults=defaults, whens=when, **given)


# ---------------------------------------------------------------------------- counting


def test_the_one_that_counts_has_the_default():
    config = Config({"IMPL": "packed", "TILE": 8, "PAD": 2, "WORD": 16, "BLOCK": 16})
    printed = tiled().canonical(config)
    assert printed == Config({"IMPL": "packed", "TILE": 2, "PAD": 0, "WORD": 16, "BLOCK": 16})
    assert tiled().canonical(printed) == printed
    assert tiled().canonical(tiled().default) == tiled().default
    assert tiled().is_legal(tiled().default)


def test_what_is_no_point_stays_as_it_is():
    for config in (Config({"IMPL": "direct"}), Config({**tiled().default, "IMPL": "no"})):
        assert tiled().canonical(config) is config


# ----------------------------------------------------------------------------- judging


def test_what_does_not_matter_but_differs_is_named_with_what_decides():
    config = {"IMPL": "packed", "TILE": 2, "PAD": 0, "WORD": 8, "BLOCK": 16}
    why = tiled(m=1).why_illegal(config) or ""
    assert re.search("WORD .* IMPL=packed, m=1, .* absent", why)


def test_a_condition_on_a_device_waits_for_it():
    parameters = space({"A": (1, 2)}, whens={"A": "max_group_size > 512"}).parameters
    assert ConstrainedSpace(parameters).count == 2
    assert ConstrainedSpace(parameters, limits=DEVICE).count == 1


# -------------------------------------------------------------------------- neighbours


def steps(checked, start):
    """What one change leads to, told in the one way."""
    changed = {
        checked.canonical(Config({**start, p.name: value}))
        for p in checked.parameters
        for value in p.values
    }
    return {config for config in changed - {start} if checked.is_legal(config)}


def test_steps_up_change_something():
    checked = tiled()
    start = checked.default
    up = {"IMPL": "tiled"}, {"BLOCK": 64}
    assert list(steps_up(checked, start)) == [Config({**start, **step}) for step in up]


DOMAINS = (
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
def spaces(draw):
    """Up to four parameters, each of which may depend on those before it in some order."""
    order = draw(st.permutations("ABCD"[: draw(st.integers(1, 4))]))
    domains = {name: draw(st.sampled_from(DOMAINS)) for name in sorted(order)}
    defaults = {name: draw(st.sampled_from(values)) for name, values in domains.items()}
    whens = {}
    for place, name in enumerate(order):
        condition = draw(st.sampled_from(CONDITIONS)) if place else None
        before = st.sampled_from(order[: max(place, 1)])
        whens[name] = condition and condition.format(a=draw(before), b=draw(before))
    picked = st.sampled_from(order)
    templates = draw(st.lists(st.sampled_from(CONSTRAINTS), max_size=3))
    texts = [template.format(a=draw(picked), b=draw(picked)) for template in templates]
    m = draw(st.integers(0, 4))
    return space(domains, *texts, defaults=defaults, whens=whens, m=m)


@settings(max_examples=30, deadline=None)
@given(spaces(), st.integers(0, 99))
def test_any_space_agrees_with_brute_force(checked, seed):
    every, expected = every_point(checked), brute_force(checked)
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
            nearest = checked.nearest_legal(start, random.Random(0))
            assert nearest in expected
            least = min(checked.distance(printed, other) for other in expected)
            assert checked.distance(printed, nearest) == pytest.approx(least)


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


def test_parameters_and_flags_of_a_space_file_have_conditions(tmp_path):
    spec = make_spec(tmp_path, FILE)
    small, large = (ConstrainedSpace.of(spec, given, None, "nvcc") for given in spec.inputs)
    assert (small.count, large.count) == (3, 1 + 2 * (2 + 1 + 3))
    config = Config({"BLOCK": 64, "TILE": 4, "use_fast_math": True, "maxrregcount": 33})
    assert large.is_legal(config)
    flags = {"use_fast_math": False, "maxrregcount": None}
    assert small.canonical(config) == Config({"BLOCK": 64, "TILE": 1, **flags})
    assert spec.parameters[2].options(True) == ("--use_fast_math",)


def test_check_lists_every_condition(tmp_path, capsys):
    text = FILE.replace("TILE == 4}", "TILE * 64 <= max_local_bytes}")
    assert check([write_space(tmp_path, text), "--no-compile"]) == 0
    printed = capsys.readouterr().out
    assert "TILE matters when BLOCK > 16 and n > 100" in printed
    assert re.search("use_fast_math matters when TILE .* for max_local_bytes", printed)


def test_a_long_condition_does_not_get_too_long(tmp_path):
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


def test_winners_and_seeds_are_tried_on_other_inputs_in_their_form_there(tmp_path):
    def time_s(on, config):
        return 1 / (config["BLOCK"] * config["TILE"])

    spec, measurer = make_spec(tmp_path, TILE_FROM_1000), FormulaMeasurer(time_s)
    seed = Config({"BLOCK": 512, "TILE": 8})
    with opened(spec, tmp_path / "db", measurer, test_limit=3, seeds=(seed,)) as (campaign, _):
        campaign.check_seeds()
        campaign.run()
    large, small = spec.inputs
    assert (large, seed) in measurer.asked
    assert (small, Config({"BLOCK": 512, "TILE": 1})) in measurer.asked
    assert {config["TILE"] for on, config in measurer.asked if on == small} == {1}
    assert len(measurer.asked) == len(set(measurer.asked))
