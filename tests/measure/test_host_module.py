"""Host modules: their data, their reference, and whatever can be wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import HostModuleError
from harness.core.program import Fill
from harness.core.records import Input
from harness.measure.kernels.data import make_kernel_data
from harness.measure.trial.verify import NAN

GIVEN = Input({"n": 4})
GOOD = """\
import numpy as np

def arguments(features, rng):
    n = features["n"]
    return {"x": rng.random(n), "y": np.zeros(n), "n": np.int32(n)}

def reference(arguments):
    return {"y": 2 * arguments["x"]}
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a host module."""

    def written(text: str) -> Path:
        path = tmp_path / "host.py"
        path.write_text(text)
        return path

    return written


def replaced(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_case_holds_arguments_in_order_and_the_expected_outputs(write: Write) -> None:
    case = make_kernel_data(write(GOOD), GIVEN)
    assert list(case.arguments) == ["x", "y", "n"]
    assert list(case.expected) == ["y"]
    np.testing.assert_array_equal(case.expected["y"], 2 * case.arguments["x"])


def test_equal_inputs_and_seeds_give_equal_data_and_others_other(write: Write) -> None:
    path = write(GOOD)
    x = make_kernel_data(path, GIVEN).arguments["x"]
    np.testing.assert_array_equal(x, make_kernel_data(path, Input({"n": 4})).arguments["x"])
    assert not np.array_equal(x, make_kernel_data(path, GIVEN, seed=1).arguments["x"])
    assert not np.array_equal(x, make_kernel_data(path, Input({"n": 5})).arguments["x"][:4])


def test_outputs_hold_the_fill_and_arrays_that_are_read_their_original_content(
    write: Write,
) -> None:
    fill = Fill(0x7B)
    assert make_kernel_data(write(GOOD), GIVEN).fresh({}, fill) == {"y": fill}
    case = make_kernel_data(write(GOOD + 'INOUT = ("y",)\n'), GIVEN)
    assert list(case.fresh({}, fill)) == ["y"]
    np.testing.assert_array_equal(case.fresh({}, fill)["y"], np.zeros(4))


def test_arrays_that_no_run_may_write_are_neither_outputs_nor_named(write: Write) -> None:
    assert list(make_kernel_data(write(GOOD), GIVEN).read_only()) == ["x"]
    for kind in ("INOUT", "SCRATCH"):
        assert make_kernel_data(write(GOOD + f'{kind} = ("x",)\n'), GIVEN).read_only() == {}


def test_scratch_arrays_hold_no_numbers_before_a_run(write: Write) -> None:
    case = make_kernel_data(write(GOOD + 'SCRATCH = ["x"]\n'), GIVEN)
    assert case.fresh({}, Fill(0x7B)) == {"x": NAN, "y": Fill(0x7B)}


def test_dataclass_in_a_host_module_works(write: Write) -> None:
    head = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    make_kernel_data(write(head + "@dataclass\nclass A:\n    n: int\n" + GOOD), GIVEN)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("arguments = 1 +\n", r"SyntaxError"),
        ("import not_there\n", r"ModuleNotFoundError.*not_there.*\(line 1\)"),
        ("raise SystemExit(3)\n", r"SystemExit: 3 \(line 1\)"),
        ("def arguments(features, rng): ...\n", r"must define the function `reference`"),
        (replaced('features["n"]', 'features["m"]'), r"arguments\(\).*KeyError: 'm' \(line 4\)"),
        (replaced('{"y": 2 *', '{"y": 0 / 0 *'), r"reference\(\) raised ZeroDivision.*\(line 8\)"),
        (replaced('return {"y": 2', 'exit(); return {"y": 2'), r"raised SystemExit"),
        (replaced('{"y": 2 * arguments["x"]}', "None"), r"must return a dict.*got NoneType"),
        (replaced('{"y": 2 * arguments["x"]}', "{}"), r"must return a dict"),
        (replaced("np.int32(n)", "n"), r"`n` with the type int; use numpy"),
        (replaced("rng.random(n)", "rng.random(n).astype('>f8')"), r"the dtype >f8.*byte order"),
        (replaced("rng.random(n)", "np.array([None])"), r"`x` with the dtype object"),
        (replaced("rng.random(n)", "rng.random(2 * n)[::2]"), r"`x`.* is empty or not contiguous"),
        (replaced("rng.random(n)", "np.zeros(0)"), r"`x`.* is empty or not contiguous"),
        (replaced('{"y":', '{"n":'), r"returns `n`, which is no array argument; there are x, y"),
        (replaced('{"y": 2', '{"z": 2'), r"returns `z`, which is no array argument; there"),
        (replaced('arguments["x"]}', 'arguments["x"][:3]}'), r"shape \(3,\).*has \(4,\)"),
        (replaced('2 * arguments["x"]', '["a"] * 4'), r"output `y` has the dtype <U1"),
        (GOOD + 'INOUT = ("n",)\n', r"INOUT names `n`, which is no array argument"),
        (GOOD + 'INOUT = "y"\n', r"INOUT must be a tuple such as"),
        (GOOD + 'SCRATCH = ("y",)\n', r"SCRATCH names `y`, which reference\(\) returns too"),
        (GOOD + 'INOUT = SCRATCH = ("x",)\n', r"SCRATCH names `x`, which INOUT names too"),
        (GOOD + 'CONSTANT = ("y",)\n', r"CONSTANT names `y`, which a run may write"),
        (GOOD + 'CONSTANT = ("n",)\n', r"CONSTANT names `n`, which is no array argument"),
        (GOOD + 'SCRATCH = ("z",)\n', r"SCRATCH names `z`, which is no array argument"),
        (replaced("rng.random(n)", "np.ones(1 << 50)"), r"raised \w*MemoryError.*\(line 5\)"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_module_is_reported(write: Write, text: str, reason: str) -> None:
    path = write(text)
    with pytest.raises(HostModuleError, match=reason) as caught:
        make_kernel_data(path, GIVEN)
    assert str(path) in str(caught.value)


def test_reference_cannot_change_the_arguments(write: Write) -> None:
    text = replaced('    return {"y"', '    arguments["x"] *= 2\n    return {"y"')
    with pytest.raises(HostModuleError, match=r"read-only \(line 8\)"):
        make_kernel_data(write(text), GIVEN)


def test_missing_module_is_reported(tmp_path: Path) -> None:
    with pytest.raises(HostModuleError, match="FileNotFoundError"):
        make_kernel_data(tmp_path / "not_there.py", GIVEN)
    with pytest.raises(HostModuleError, match="is not a Python file"):
        make_kernel_data(tmp_path / "host.txt", GIVEN)
