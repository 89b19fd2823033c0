"""python -m harness stencil explore: spaces of built-in and user-written stencils."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest

from harness.commands import stencil as explorer
from harness.core.errors import HostModuleError
from harness.measure.device.host_module import TrackedConfig
from harness.measure.kernels.data import make_kernel_data
from harness.results.view import read_results
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
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
def ring(tmp_path):
    path = tmp_path / "ring.py"
    path.write_text(OWN)
    return path


def explored(stencil, folder, size, count, *more):
    """Explore a stencil into a new folder, and load its space."""
    command = ["explore", str(stencil), "--size", str(size), "--count", str(count), *more]
    assert main([*command, "-o", folder]) == 0
    return load_spec(folder / f"{stencil.stem}.yaml")


@pytest.mark.slow
def test_the_documented_stencil_is_explored_tuned_and_analysed(
    ring, tmp_path, opencl, capsys, monkeypatch
):
    monkeypatch.setattr(predicted, "_TREES", 10)
    documented = tmp_path / "smooth.py"
    page = read_page("docs/howto/tune_a_stencil.md")
    documented.write_text(blocks(page, "python")[0].text)
    url = str(tmp_path / "smooth.db")
    options = ["--backend", "opencl", "--test-limit", "4", "--repeats", "2", "--database", url]
    for folder, size, count in ((tmp_path / "new", 128, 12), (tmp_path / "smaller", 64, 3)):
        explored(documented, folder, size, count)
        assert tune([folder / "smooth.yaml", "--quiet", *options]) == 0
        assert analyse([url]) == 0
        assert "smooth on " in capsys.readouterr().out
    # Another stencil begins with a predictor trained on all sizes of this one.
    folder = tmp_path / "ring"
    explored(ring, folder, 64, 9)
    assert tune([folder / "ring.yaml", *options, "--technique", "Predicted"]) == 0
    assert "ordered by a forest trained on 7 points of smooth;" in capsys.readouterr().out
    (results,) = read_results([url], space="ring")
    order = StencilPredictor(url, folder / "ring.yaml").order(results.campaign.environment)
    (measured,) = results.measured.values()
    assert set(order[0][:2]) <= set(measured)
    assert len(measured) == 4


def test_every_point_is_legal_and_has_its_features_and_launch(tmp_path):
    """Ten thousand points fit into the thousand constraints of a space."""
    spec = explored(path_of("srad1"), folder := tmp_path / "many", 64, 30, "--threads", "2")
    assert len(spec.constraints) < 15 / 2
    tuned = [parameter.name for parameter in spec.parameters]
    groups, observed = ["groups_x", "groups_y", "groups_z"], [*FEATURES, "design"]
    points = pd.read_csv(folder / "srad1.features.csv").set_index(tuned)
    assert list(points) == groups + observed
    case = make_kernel_data(spec.host, spec.inputs[0])
    configs = list(ConstrainedSpace.of(spec, spec.inputs[0], None))
    assert len(configs) == len(points) == 30
    for config in configs:
        row = points.loc[tuple(config[name] for name in tuned)]
        (launch,) = case.launches(TrackedConfig(config), spec.functions)
        assert list(launch.grid) == row[groups].tolist()
        assert launch.group[0] * launch.grid[0] == row["global_size_x"]
        assert case.observed(config) == row[observed].to_dict()


def test_more_points_than_a_file_takes_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(explorer, "MAX_BYTES", 1000)
    command = ["explore", SRAD1, "--size", "64", "--count", "8", "-o", str(tmp_path / "more")]
    assert main(command) == 2
    assert "8 points are too many" in capsys.readouterr().err


# ------------------------------------------------------------------------------------- mistakes


def test_a_mistake_in_the_command_is_reported(capsys, tmp_path, monkeypatch):
    cases = {
        "no.py --size 64": "no.py cannot be read",
        f"{SRAD1} --size 2 -o new": "--size 2",
        f"{SRAD1} --size 64 -o .": ". already exists",
    }
    monkeypatch.chdir(tmp_path)
    for words, fact in cases.items():
        assert main(["explore", *words.split()]) == 2
        assert fact in capsys.readouterr().err


def test_a_mistake_in_a_stencil_is_reported_with_its_line(ring, capsys, monkeypatch):
    cases = (
        ("slide(3, 1,", "slide(3, 2,", "ring.py:9: slide(3, 2, pad(1, 1, wrap, x))"),
        ("def reference", "def referent", "`reference`"),
        ("import numpy", "import nunpy", "ring.py:1: ModuleNotFoundError"),
        ("return map_(", "return str(", "ring.py:10: "),
        ("reduce_(add, 0.0, window), windows)", "window, windows)", "no map"),
        ('grid("x"', 'grid("result"', "ring.py:9: grid('result', ...)"),
    )
    monkeypatch.chdir(ring.parent)
    for old, new, fact in cases:
        ring.write_text(OWN.replace(old, new))
        assert main(["explore", "ring.py", "--size", "64", "--count", "5", "-o", "x"]) == 2
        assert fact in capsys.readouterr().err


def test_a_stencils_own_inputs_are_used(ring, tmp_path):
    spec = explored(ring, tmp_path / "ring", 64, 5)
    case = make_kernel_data(spec.host, spec.inputs[0])
    assert (case.arguments["x"] == np.arange(64, dtype=np.float32)).all()
    assert case.expected["result"][0] == 64  # 63 + 0 + 1


def test_inputs_of_another_shape_are_refused(ring, tmp_path):
    for inputs, fact in {
        '{"x": np.arange(8)}': r"\(8,\)",
        '{"y": np.arange(size)}': "none",
    }.items():
        ring.write_text(OWN.replace('{"x": np.arange(size)}', inputs))
        spec = explored(ring, tmp_path / inputs[2], 64, 1)
        with pytest.raises(HostModuleError, match=rf"`x`.*\(64,\).*{fact}"):
            make_kernel_data(spec.host, spec.inputs[0])


def test_a_folder_names_its_stencil_and_the_command_that_wrote_it(tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    spec = explored(path_of("srad1"), first, 32, 6, "--seed", "5")
    assert spec.title.startswith("srad1, 32 x 32, in ")
    (command,) = re.findall("# Written by python -m harness stencil (.*)", spec.path.read_text())
    assert main([*shlex.split(command), "-o", again]) == 0
    for path in first.rglob("*.*"):
        assert path.read_text() == (again / path.relative_to(first)).read_text()


def test_programs_of_one_structure_share_designs_where_asked(tmp_path):
    """Else a predictor would look better than it is: it would know the designs that it predicts."""

    def designs(program, *more):
        folder = tmp_path / f"{program}{len(more)}"
        explored(path_of(program), folder, 64, 10, *more)
        return set(pd.read_csv(folder / f"{program}.features.csv")["design"])

    assert len(designs("gradient") & designs("jacobi2d_5pt")) < 3
    share = "--designs", "shared"
    assert len(designs("gradient", *share) & designs("jacobi2d_5pt", *share)) == 10
