"""Which stored measurements a later command uses again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.commands import dispatch, tune

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
    assert f"harness.tune {folder}/scale.yaml --database {folder}/r.db; or restore" in error
    assert "answered from the database" not in tuned(folder, capsys)
    assert not dispatched(folder, capsys)
    (folder / "scale.cl").write_text(KERNEL)
    (folder / "scale.yaml").write_text(SPACE)
    assert not dispatched(folder, capsys), "the version before counts again"
