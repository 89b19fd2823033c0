"""Which stored measurements a later command uses again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.api.describing import describe_results
from harness.report.findings import Findings
from harness.results.view import read_results
from tests.helpers.commands import analyse, dispatch, tune

Capture = pytest.CaptureFixture[str]

KERNEL = """kernel void scale(global const float *x, global float *y, int n)
{
    for (int i = get_global_id(0) * PART; i < min(n, (int)(get_global_id(0) + 1) * PART); i++)
        y[i] = 2 * x[i];
}
"""

HOST = '''"""The data of a product."""
import numpy as np

def arguments(features, rng):
    n = features["n"]
    x = rng.random(n, dtype=np.float32)
    return {"x": x, "y": np.empty(n, np.float32), "n": np.int32(n)}


def reference(arguments):
    return {"y": 2 * arguments["x"]}
'''

SPACE = """name: scale
kernel: {function: scale, source: scale.cl, host: scale.py}
parameters:
  PART: {values: [1, 4], role: choice, default: 1}
launch: {group: [1], grid: ["ceil_div(n, PART)"]}
inputs: {features: [n], values: [{n: 64}, {n: 100}]}
measure: {repeats: 3, min_repeats: 2}
"""

pytestmark = pytest.mark.usefixtures("opencl")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a space."""
    (tmp_path / "scale.cl").write_text(KERNEL)
    (tmp_path / "scale.py").write_text(HOST)
    (tmp_path / "scale.yaml").write_text(SPACE)
    return tmp_path


def tuned(folder: Path, capsys: Capture) -> str:
    """Tune the space, and return what is printed, as one line."""
    words = [str(folder / "scale.yaml"), "--backend", "opencl", "--test-limit", "2"]
    assert tune([*words, "--database", str(folder / "r.db")]) == 0
    return " ".join(capsys.readouterr().out.split())


def dispatched(folder: Path, capsys: Capture) -> str:
    """Write a dispatcher; return the error, as one line, or an empty text."""
    code = dispatch([str(folder / "r.db"), "-o", str(folder / "out")])
    error = " ".join(capsys.readouterr().err.split())
    assert code == (2 if error else 0)
    return error


def test_comments_and_layout_change_no_program(folder: Path, capsys: Capture) -> None:
    assert "answered from the database" not in tuned(folder, capsys)
    commented = "// doubles\n" + KERNEL.replace(")\n{", ") {").replace(";", "; /* so */")
    (folder / "scale.cl").write_text(commented)
    (folder / "scale.py").write_text(HOST.replace("The data", "Data") + "# the end\n")
    (folder / "scale.yaml").write_text("# a space\n" + SPACE)
    assert "4 tests were answered from the database" in tuned(folder, capsys)
    assert not dispatched(folder, capsys)


def test_another_kernel_is_measured_anew_and_dispatch_says_what_differs(
    folder: Path, capsys: Capture
) -> None:
    tuned(folder, capsys)
    (folder / "scale.cl").write_text(KERNEL.replace("2 * x[i]", "x[i] * 2"))
    (folder / "scale.yaml").write_text(SPACE + "verify: {rtol: 0.001}\n")
    error = dispatched(folder, capsys)
    assert "scale.yaml is not what was measured: scale.cl, verify changed since" in error
    assert f"harness tune {folder}/scale.yaml --database {folder}/r.db; or restore" in error
    printed = tuned(folder, capsys)
    assert "answered from the database" not in printed
    assert "note: scale.cl, verify changed: " in printed
    assert "measurements of another version are set aside" in printed
    assert not dispatched(folder, capsys)
    (folder / "scale.cl").write_text(KERNEL)
    (folder / "scale.yaml").write_text(SPACE)
    assert not dispatched(folder, capsys), "the version before counts again"


# ---------------------------------------------------------------- data that are read from a file


def reading(folder: Path, factor: float) -> None:
    """Let the host module read its data from a file, and write this file."""
    np.save(folder / "x.npy", factor * np.arange(100, dtype=np.float32))
    path = f'np.load(r"{folder / "x.npy"}")[:n]'
    (folder / "scale.py").write_text(HOST.replace("rng.random(n, dtype=np.float32)", path))


def analysed(folder: Path, capsys: Capture) -> str:
    """Analyse the database; return what is printed, as one line."""
    assert analyse([str(folder / "r.db")]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_changed_data_are_measured_anew(folder: Path, capsys: Capture) -> None:
    reading(folder, 1)
    tuned(folder, capsys)
    assert "4 tests were answered from the database" in tuned(folder, capsys)
    first = read_results(str(folder / "r.db"))[0]
    reading(folder, 2)
    again = tuned(folder, capsys)
    changed = f"data of 2 inputs changed since these were measured: {len(first.rows)} measurements"
    assert f"note: The {changed} are set aside, of (n=64), (n=100)." in again
    assert "answered from the database" not in again
    assert changed in analysed(folder, capsys)
    then = read_results(str(folder / "r.db"))[0]
    before = {row.uuid for row in first.rows}
    assert len(then.rows) == len(then.all_rows) - len(before)
    assert before.isdisjoint(row.uuid for row in then.rows)
    assert changed in describe_results(Findings(then)).model_dump_json()
    assert "4 tests were answered from the database" in tuned(folder, capsys)


def test_data_as_they_were_count_again(folder: Path, capsys: Capture) -> None:
    reading(folder, 1)
    tuned(folder, capsys)
    (first,) = read_results(str(folder / "r.db"))
    reading(folder, 2)
    tuned(folder, capsys)
    (other,) = read_results(str(folder / "r.db"))
    reading(folder, 1)
    assert "4 tests were answered from the database" in tuned(folder, capsys)
    (again,) = read_results(str(folder / "r.db"))
    counted = {row.uuid for row in again.rows}
    assert counted >= {row.uuid for row in first.rows}
    assert counted.isdisjoint(row.uuid for row in other.rows)


def test_progress_is_shown_where_data_take_long(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "data compared" not in tuned(folder, capsys)
    assert "data compared" not in tuned(folder, capsys)
    monkeypatch.setattr("harness.tuning.state._SHOWN_AFTER_S", 0.0)
    assert "data compared with the measured ones: 2 of 2, n=100" in tuned(folder, capsys)


def test_data_of_one_input_change_alone(folder: Path, capsys: Capture) -> None:
    reading(folder, 1)
    tuned(folder, capsys)
    data = np.load(folder / "x.npy")
    data[80] = -1
    np.save(folder / "x.npy", data)
    printed = tuned(folder, capsys)
    assert "data of 1 input changed since" in printed
    assert "set aside, of (n=100)." in printed
    assert "2 tests were answered from the database" in printed


def test_data_that_cannot_be_made_any_more_are_said(folder: Path, capsys: Capture) -> None:
    reading(folder, 1)
    tuned(folder, capsys)
    (folder / "x.npy").unlink()
    printed = tuned(folder, capsys)
    assert "warning: (n=64): its data cannot be compared with the measured ones: " in printed
    assert "FileNotFoundError" in printed
    assert "4 tests were answered from the database" in printed


def test_data_that_differ_each_time_are_used_again_and_it_is_said(
    folder: Path, capsys: Capture
) -> None:
    host = HOST.replace("rng.random", "np.random.default_rng().random")
    (folder / "scale.py").write_text(host)
    assert "other data each time" not in tuned(folder, capsys)
    printed = tuned(folder, capsys)
    assert "4 tests were answered from the database" in printed
    assert printed.count("arguments() returns other data each time on (n=64), (n=100)") == 1
    assert "changed since" not in analysed(folder, capsys)
