"""python -m harness stencil explore: spaces of built-in and user-written stencils."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harness.commands import stencil as explorer
from harness.core.errors import HostModuleError
from harness.measure.devices import Backend
from harness.measure.kernels.data import make_kernel_data
from harness.measure.trial.host_module import TrackedConfig
from harness.results.view import read_results
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec
from harness.stencil import predicted
from harness.stencil.features import FEATURES
from harness.stencil.predicted import StencilPredictor
from tests.helpers.commands import analyse, tune
from tests.helpers.commands import stencil as main
from tests.helpers.pages import blocks, read_page
from tests.helpers.stencil_kernels import path_of

SRAD1 = str(path_of("srad1"))
OWN = """\
import numpy as np

from harness.stencil import grid, map_, pad, reduce_, slide, user_fun

add = user_fun("add", "x y", "x + y")


def expression(size):
    windows = slide(3, 1, pad(1, 1, "wrap", grid("x", size)))
    return map_(lambda window: reduce_(add, 0.0, window), windows)


def inputs(size, rng):
    return {"x": np.arange(size)}


def reference(arguments):
    x = arguments["x"]
    return np.roll(x, 1) + x + np.roll(x, -1)
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "ring.py"
    path.write_text(OWN)
    return path


def explored(stencil: Path, folder: Path, size: int, count: int, *more: str) -> Spec:
    """Explore a stencil into a new folder, and load its space."""
    command = ["explore", str(stencil), "--size", str(size), "--count", str(count), *more]
    assert main([*command, "-o", str(folder)]) == 0
    return load_spec(folder / f"{stencil.stem}.yaml")


@pytest.mark.slow
def test_the_documented_stencil_is_explored_tuned_and_analysed(
    own: Path,
    tmp_path: Path,
    opencl: Backend,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(predicted, "_TREES", 10)
    documented = tmp_path / "smooth.py"
    page = read_page("docs/howto/tune_a_stencil.md")
    documented.write_text(blocks(page, "python")[0].text)
    folder, smaller = tmp_path / "new", tmp_path / "smaller"
    explored(documented, smaller, 64, 3)
    explored(documented, folder, 128, 12)
    documented.unlink()  # the folder stands alone
    assert "12 points of " in capsys.readouterr().out
    url = str(tmp_path / "smooth.db")
    options = ["--backend", "opencl", "--test-limit", "4", "--repeats", "2", "--quiet"]
    assert tune([str(folder / "smooth.yaml"), *options, "--database", url]) == 0
    capsys.readouterr()
    assert analyse([url]) == 0
    assert "smooth on " in capsys.readouterr().out
    # Another stencil begins with a predictor trained on all sizes of this one.
    assert tune([str(smaller / "smooth.yaml"), *options, "--database", url]) == 0
    folder = tmp_path / "ring"
    explored(own, folder, 64, 9)
    capsys.readouterr()
    options = [*options, "--technique", "Predicted", "--database", url]
    assert tune([str(folder / "ring.yaml"), *options]) == 0
    assert "ordered by a forest trained on 7 points of smooth;" in capsys.readouterr().out
    (found,) = read_results([url], space="ring")
    order = StencilPredictor(url, folder / "ring.yaml").order(found.campaign.environment)
    assert order is not None
    measured = list(next(iter(found.measured.values())))
    assert set(order[0][:2]) <= set(measured)
    assert len(measured) == 4


def test_every_point_is_legal_and_has_its_features_and_launch(tmp_path: Path) -> None:
    """Ten thousand points fit into the thousand constraints of a space."""
    spec = explored(path_of("srad1"), folder := tmp_path / "many", 96, 60, "--threads", "2")
    assert len(spec.constraints) < 30 / 3
    with (folder / "srad1.features.csv").open() as file:
        rows = list(csv.DictReader(file))
    tuned = [parameter.name for parameter in spec.parameters]
    points = {tuple(int(row[name]) for name in tuned): row for row in rows}
    groups, observed = ["groups_x", "groups_y", "groups_z"], [*FEATURES, "design"]
    assert list(rows[0])[len(tuned) :] == [*groups, *observed]
    case = make_kernel_data(spec.host, spec.inputs[0])
    configs = list(ConstrainedSpace.of(spec, spec.inputs[0], None))
    assert len(configs) == len(rows) == 60
    for config in configs:
        row = points.pop(tuple(config[name] for name in tuned))
        (launch,) = case.launches(TrackedConfig(config), spec.functions)
        assert list(launch.grid) == [int(row[name]) for name in groups]
        assert launch.group[0] * launch.grid[0] == float(row["global_size_x"])
        assert case.observed(config) == {name: float(row[name]) for name in observed}


def test_more_points_than_a_file_takes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(explorer, "MAX_BYTES", 1000)
    command = ["explore", SRAD1, "--size", "96", "--count", "20", "-o", str(tmp_path / "more")]
    assert main(command) == 2
    assert "20 points are too many for one space; ask for" in capsys.readouterr().err


# ------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["no.py", "--size", "64"], "no.py cannot be read: No such file or directory"),
        ([SRAD1, "--size", "2", "-o", "new"], "has 32 threads or more in a group; --size 2 is too"),
        ([SRAD1, "--size", "64", "-o", "."], ". already exists; name a new"),
        ([SRAD1, "--sise", "64"], "--size"),
    ],
)
def test_a_mistake_in_the_command_is_reported(
    command: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["explore", *command])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("slide(3, 1,", "slide(3, 2,", "ring.py:9: slide(3, 2, pad(1, 1, wrap, x)): windows of 3"),
        ("def reference", "def referent", "ring.py must define the function `reference`"),
        ("import numpy", "import nunpy", "ring.py:1: ModuleNotFoundError: No module named 'nunpy'"),
        ("return map_(", "return str(", "ring.py:10: "),
        ("reduce_(add, 0.0, window), windows)", "window, windows)", "no map computes its result"),
        ('grid("x"', 'grid("result"', "ring.py:9: grid('result', ...): 'result' is not a valid"),
    ],
)
def test_a_mistake_in_a_stencil_is_reported_with_its_line(
    own: Path, old: str, new: str, message: str, capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    own.write_text(OWN.replace(old, new))
    monkeypatch.chdir(own.parent)
    code = main(["explore", own.name, "--size", "64", "--count", "5", "-o", str(tmp_path / "x")])
    assert code == 2
    assert message in capsys.readouterr().err


def test_a_stencils_own_inputs_are_used(own: Path, tmp_path: Path) -> None:
    spec = explored(own, tmp_path / "ring", 64, 5)
    case = make_kernel_data(spec.host, spec.inputs[0])
    assert (case.arguments["x"] == np.arange(64, dtype=np.float32)).all()
    assert case.expected["result"][0] == 64  # 63 + 0 + 1


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ('{"x": np.arange(8)}', "inputs() must return `x`, an array of (64,), not one of (8,)"),
        ('{"y": np.arange(size)}', "inputs() must return `x`, an array of (64,), not none"),
    ],
)
def test_inputs_of_another_shape(own: Path, tmp_path: Path, inputs: str, message: str) -> None:
    own.write_text(OWN.replace('{"x": np.arange(size)}', inputs))
    spec = explored(own, tmp_path / "ring", 64, 1)
    with pytest.raises(HostModuleError, match=re.escape(message)):
        make_kernel_data(spec.host, spec.inputs[0])


def test_a_folder_names_its_stencil_and_the_command_that_wrote_it(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "again"]
    command = [SRAD1, "--size", "32", "--count", "12", "--seed", "5"]
    assert main(["explore", *command, "-o", str(folders[0])]) == 0
    space = folders[0] / "srad1.yaml"
    assert load_spec(space).title.startswith("srad1, 32 x 32, in ")
    assert "/* srad1, 32 x 32: the variant VARIANT," in space.with_suffix(".cl").read_text()
    begin = shlex.split(space.read_text().split("# Written by ")[1].split("\n")[0])
    assert begin[:4] == ["python", "-m", "harness", "stencil"]
    assert main([*begin[4:], "-o", str(folders[1])]) == 0
    first, again = ([p.read_text() for p in sorted(f.rglob("*.*"))] for f in folders)
    assert first == again


def test_programs_of_one_structure_share_designs_where_asked(tmp_path: Path) -> None:
    """Else a predictor would look better than it is: it would know the designs that it predicts."""

    def designs(program: str, *more: str) -> set[float]:
        folder = tmp_path / f"{program}{len(more)}"
        explored(path_of(program), folder, 64, 20, *more)
        return set(pd.read_csv(folder / f"{program}.features.csv")["design"])

    own, shared = [
        designs("gradient", *more) & designs("jacobi2d_5pt", *more)
        for more in ((), ("--designs", "shared"))
    ]
    assert len(own) < 5
    assert len(shared) == 20
