"""The prior of transfer learning: what it reproduces, interpolates and ranks first."""

import itertools

import numpy as np
import pytest

from harness.constraints.expression import Expression
from harness.core.records import Input
from harness.models import transfer_prior
from harness.models.config_points import ConfigEncoder
from harness.models.transfer_prior import Prior, SourceTask, TransferData
from harness.space import ConstrainedSpace
from harness.space_file import Parameter

PARAMETERS = (
    Parameter("A", "power_of_two", (1, 2, 4, 8), "source", 1),
    Parameter("B", "integer", range(1, 6), "source", 1),
    Parameter("C", "enum", ("x", "y", "z"), "choice", "x"),
)
SPACE = ConstrainedSpace(PARAMETERS)
ALL = np.array(list(itertools.product(*(range(len(p.values)) for p in PARAMETERS))), dtype=np.int32)
HERE = Input({"m": 64, "n": 1024})


def times_s(positions, best=1):
    """Best where A stands at a position, B is 3 and C is y."""
    return 1e-3 * (1 + np.abs(positions - [best, 2, 1]) @ [1.0, 0.3, 0.5])


def learnt(*sources, space=SPACE, given=HERE):
    encoder = ConfigEncoder(space.parameters)
    return Prior(space, encoder, TransferData(given, sources), np.random.default_rng(3))


def test_slowdowns_are_over_the_best_and_failures_as_slow_as_the_slowest():
    for first_s in (4.0, np.inf):
        source = SourceTask(ALL[:3], np.array([first_s, 1.0, 4.0]))
        assert source.slowdowns.tolist() == pytest.approx(np.log([4, 1, 4]))


def test_training_data_is_reproduced_whatever_the_unit_of_the_other_device():
    source = SourceTask(ALL, 50 * times_s(ALL))
    np.testing.assert_allclose(learnt(source).expect(ALL), source.slowdowns, atol=1e-6)


def test_other_configurations_are_interpolated():
    others = ALL[1::4]
    measured = np.delete(ALL, np.s_[1::4], axis=0)
    guessed = learnt(SourceTask(measured, times_s(measured))).expect(others)
    assert np.corrcoef(guessed, times_s(others))[0, 1] > 0.8


def test_leaders_are_distinct_and_in_the_order_of_what_is_expected():
    other_device = SourceTask(ALL, 2 * times_s(ALL))
    found = learnt(SourceTask(ALL, times_s(ALL)), other_device)
    assert len(found.leaders) == len(np.unique(found.leaders, axis=0)) == len(ALL)
    assert found.leaders[0].tolist() == [1, 2, 1]
    assert (np.diff(found.expect(found.leaders)) >= 0).all()


def test_leaders_are_legal_in_the_space():
    for constraints, rows, leaders in (
        (["A * B <= 4", "C != 'y'"], len(ALL), 14),
        (["A == 8"], 15, 0),
    ):
        space = ConstrainedSpace(PARAMETERS, list(map(Expression, constraints)))
        found = learnt(SourceTask(ALL[:rows], times_s(ALL[:rows])), space=space).leaders
        assert len(found) == leaders
        assert space.are_legal(found).all()


# ------------------------------------------------------------------------------ inputs


def of_input(given, best):
    return SourceTask(ALL, times_s(ALL, best), given)


def test_the_input_that_is_more_like_this_one_counts():
    for given, best in (((64, 4096), 0), ((4096, 64), 3)):
        wide, tall = Input({"m": 64, "n": 8192}), Input({"m": 8192, "n": 64})
        here = Input(dict(zip("mn", given, strict=True)))
        found = learnt(of_input(wide, 0), of_input(tall, 3), given=here)
        assert found.leaders[0].tolist() == [best, 2, 1]


def test_where_a_source_has_no_input_differing_ones_are_averaged():
    for given in (HERE, None):
        one, other = of_input(given, 0), of_input(None, 2)
        mean = (one.slowdowns + other.slowdowns) / 2
        np.testing.assert_allclose(learnt(one, other).expect(ALL), mean, atol=1e-6)


@pytest.mark.parametrize(
    "features",
    [{"m": 64, "n": 0}, {"m": -3, "n": 1024}, {"m": 64, "n": "wide"}, {"m": 0.5, "n": 2**40}],
)
def test_an_input_may_have_other_features(features):
    """No logarithm, no ratio and no number need exist of what this input alone has."""
    found = learnt(of_input(HERE, 1), of_input(Input({"m": 1, "n": 2}), 1), given=Input(features))
    assert found.leaders[0].tolist() == [1, 2, 1]


# --------------------------------------------------------------------------- amounts


def test_of_too_many_rows_the_fastest_and_some_are_taken(monkeypatch):
    monkeypatch.setattr(transfer_prior, "MOST_ROWS", 20)
    monkeypatch.setattr(transfer_prior, "_FASTEST_ROWS", 8)
    source = SourceTask(ALL, times_s(ALL))
    leaders = learnt(source).leaders
    fastest = ALL[np.argsort(source.times_s, kind="stable")][:8]
    assert len(leaders) == 20
    assert {*map(tuple, fastest.tolist())} <= {*map(tuple, leaders.tolist())}
    assert times_s(leaders).max() > 3e-3


def test_one_configuration_is_enough():
    found = learnt(SourceTask(ALL[7:8], np.array([1e-3])))
    assert found.leaders.tolist() == ALL[7:8].tolist()
    assert found.expect(ALL).tolist() == [0.0] * len(ALL)


def test_the_same_random_numbers_fit_the_same_forest():
    sources = SourceTask(ALL[::3], times_s(ALL[::3])), of_input(None, 2)
    assert (learnt(*sources).expect(ALL) == learnt(*sources).expect(ALL)).all()
