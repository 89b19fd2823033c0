"""Tests that a kernel passes without its work are named, where its data show it."""

from harness.core.records import Input
from harness.measure.device.verify import Tolerance
from harness.measure.kernels import weak
from harness.measure.kernels.data import make_kernel_data
from tests.helpers.fake_kernels import FOUR, write_fake
from tests.helpers.fakes import FAKE_HOST

GIVEN = Input({"n": 64})

HOST = """\
import numpy as np

def arguments(features, rng):
    n = features["n"]
    x, w = rng.random(n, np.float32), rng.random(n, np.float32)
    return {{"x": x, "w": w, "y": np.zeros(n, np.{dtype}), "n": np.int32(n)}}

def reference(arguments):
    x, w, n = arguments["x"], arguments["w"], arguments["n"]
    return {{"y": {result}}}
"""

EACH = Tolerance()


def weaknesses(folder, result, dtype="float32", more="", within=EACH):
    """The weaknesses of a host module whose reference is this result."""
    path = folder / "host.py"
    path.write_text(HOST.format(result=result, dtype=dtype) + more)
    return list(weak.weak_tests(GIVEN, make_kernel_data(path, GIVEN), within))


def test_weak_test_is_named(tmp_path):
    cases = [
        ("0 * x * w", "float32", "y is 0 everywhere. Choose data"),
        ("x + w > 5", "bool_", "y is 0 everywhere"),
        ("(x * w).astype(int)", "int32", "y is 0 everywhere"),
        ("x + w > -1", "bool_", "a kernel that writes 1 everywhere in y would pass"),
        ("3 + 1e-7 * (x + w)", "float32", "a kernel that writes 3 everywhere in y would pass"),
        ("np.full(n, np.nan)", "float32", "a kernel that writes nan everywhere in y would pass"),
        (
            "np.where(np.arange(n) < 2, 3e38, x * w)",
            "float32",
            "a kernel that writes zeros to most elements of y would pass. Lower atol",
        ),
        ("np.sort(x + w > 0) + np.arange(n)", "int32", "the outputs of other data would pass"),
        ("2 * x", "float32", "a kernel that does not read w would pass"),
        ("x * w", "float32", ""),
        ("x > w", "bool_", ""),
        ("np.where(x > w, x - w, np.nan)", "float32", ""),
        ("100 * x * w // 1", "int32", ""),
    ]
    for result, dtype, weakness in cases:
        named = weaknesses(tmp_path, result, dtype)
        assert any(text.startswith(weakness) for text in named) if weakness else not named


def test_zeros_that_the_tolerance_of_the_space_lets_pass_are_named(tmp_path):
    first, *_ = weaknesses(tmp_path, "1e-7 * x * w", within=Tolerance(atol=1e-6))
    assert first == "a kernel that writes zeros to y would pass. Lower atol, or scale the data"
    assert not weaknesses(tmp_path, "1e-7 * x * w")


def test_in_out_array_that_no_run_needs_to_change_is_named(tmp_path):
    more = 'INOUT = ("x",)\nreference = lambda arguments: {"x": arguments["x"]}\n'
    (first, *_) = weaknesses(tmp_path, "x", more=more)
    assert first == "a kernel that leaves x as it is would pass. Choose other data"


def test_data_that_no_seed_changes_are_named(tmp_path):
    more = "made = arguments\narguments = lambda f, _: made(f, np.random.default_rng(0))\n"
    assert weaknesses(tmp_path, "x * w", more=more) == [
        "arguments() makes the same arrays for every seed, so a kernel that keeps results of "
        "earlier data would pass. Use its `rng`"
    ]


def test_reference_that_takes_no_data_of_two_seeds_says_nothing(tmp_path):
    # w is the order of x, so one of another seed does not fit.
    more = (
        "made = arguments\n"
        "def arguments(features, rng):\n"
        "    values = made(features, rng)\n"
        "    return {**values, 'w': np.argsort(values['x']).astype(np.float32)}\n"
        "def reference(arguments):\n"
        "    x, w = arguments['x'], arguments['w'].astype(int)\n"
        "    assert (np.diff(x[w]) >= 0).all()\n"
        "    return {'y': x[w]}\n"
    )
    assert not weaknesses(tmp_path, "0", more=more)


def test_slow_reference_is_computed_once(tmp_path, monkeypatch):
    assert weaknesses(tmp_path, "2 * x")
    monkeypatch.setattr(weak, "REFERENCE_S", 0.0)
    assert not weaknesses(tmp_path, "2 * x")


def test_measurer_says_it_of_its_data(fake_here, tmp_path):
    host = FAKE_HOST.replace("2 * arguments", "0 * arguments")
    measurer, space = fake_here(write_fake(tmp_path, host=host))
    measurer.measure(space, FOUR, space.default, None)
    first, *_ = measurer.weak_tests(FOUR)
    assert first.startswith("y is 0 everywhere")
    assert measurer.weak_tests(FOUR) == [], "each once"
