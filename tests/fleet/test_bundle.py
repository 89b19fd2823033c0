"""What travels of a space, and how a worker finds it."""

import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.program import FlagFile
from harness.core.records import Input
from harness.fleet.bundle import pack
from harness.space_file import load_spec, make_spec
from tests.helpers.fleet_program import SPACE, write_program
from tests.helpers.planted import FAULTS, write_files

RUN = ["sh", "{source}", "{A}", "{n}"]
PYTHON = {
    "name": "one",
    "program": {"sources": ["../source/script.sh"], "run": RUN, "time": "wall"},
    "parameters": {"A": {"values": [1, 2], "default": 1}},
    "inputs": {"features": ["n"], "values": [{"n": 1}]},
}


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def kernel(tmp_path):
    shutil.copytree(FAULTS, tmp_path / "user")
    folder = tmp_path / "user"
    files = {"helper.py": "from more import deep\n", "more/deep.py": "x = 1\n"}
    write_files(folder, {**files, "more/__init__.py": "", "unused.py": ""})
    host = load_spec(folder / "faults.yaml").host
    host.write_text("import helper\n" + host.read_text())
    return load_spec(folder / "faults.yaml")


def _names(bundle):
    return {Path(name).name for name in bundle.files}


def test_a_kernels_space_is_read_from_what_travelled(kernel, tmp_path):
    bundle = pack(kernel)
    assert {"faults.cl", "helper.py", "deep.py", kernel.host.name} <= _names(bundle)
    assert "unused.py" not in _names(bundle)
    shutil.rmtree(tmp_path / "user")
    there = bundle.unpacked()
    assert there.program_sha256 == kernel.program_sha256
    assert there.inputs == kernel.inputs
    source = there.sources["opencl"]
    assert source.path.read_text() == source.text
    assert all(Path(path).is_dir() for path in source.include_dirs)
    assert there.host.read_text() == there.host_text
    helper = next(name for name in bundle.files if Path(name).name == "helper.py")
    changed = replace(bundle, files={**bundle.files, helper: b"y = 1"}).unpacked()
    assert (changed.host.parent / "helper.py").read_text() == "y = 1"
    assert (there.host.parent / "helper.py").read_text() == "from more import deep\n"


def test_files_of_flags_travel(kernel, tmp_path):
    path = tmp_path / "fast.acf"
    path.write_text("fast")
    file = FlagFile("fast.acf@1a2b", path, hashlib.sha256(b"fast").hexdigest())
    flag = replace(kernel.parameters[0], files={"fast.acf": file})
    bundle = pack(replace(kernel, parameters=(flag, *kernel.parameters[1:])))
    (there,) = bundle.unpacked().flag_files
    assert there.read() == b"fast"
    assert there.path != path


def test_all_files_that_a_program_names_travel(tmp_path):
    spec = write_program(tmp_path / "user")
    bundle = pack(spec)
    sources = {"check.py", "sums_of_fleet.py", "script.sh", "make.sh", "space.yaml"}
    assert _names(bundle) == {*sources, "data_3.txt", "data_4.txt"}
    digest = spec.program_sha256
    shutil.rmtree(tmp_path / "user")
    there = bundle.unpacked()
    assert there.program_sha256 == digest
    plan = there.program
    assert plan is not None
    assert [path.read_text() for path in plan.files_for({"n": 3})] == ["sum3\n"]
    assert os.access(plan.folder / "../source/make.sh", os.X_OK)
    assert not os.access(plan.folder / "../source/script.sh", os.X_OK)


def test_files_of_the_inputs_of_a_workload_travel(tmp_path):
    spec = write_program(tmp_path / "user")
    other = replace(spec, inputs=(*spec.inputs, Input({"n": 5})))
    with pytest.raises(UsageError, match=r"data_5\.txt"):
        pack(other)
    (spec.path.parent / "data_5.txt").write_text("sum5\n")
    assert {f"data_{n}.txt" for n in (3, 4, 5)} <= _names(pack(other))


def test_a_program_whose_space_is_in_python_travels(tmp_path):
    folder = write_program(tmp_path / "user").path.parent
    bundle = pack(make_spec(PYTHON, folder))
    shutil.rmtree(tmp_path / "user")
    plan = bundle.unpacked().program
    assert plan is not None
    assert Path(plan.run_words({"A": 1, "n": 1})[1]).read_text().endswith('us"\n')


def test_a_file_with_an_absolute_path_must_be_equal_on_the_worker(tmp_path):
    data = tmp_path / "data_3.txt"
    data.write_text("sum3")
    text = SPACE.replace('"data_{n}.txt"', str(data))
    bundle = pack(write_program(tmp_path / "user", text))
    assert "data_3.txt" not in _names(bundle)
    assert bundle.unpacked().name == "script"
    data.write_text("another")
    with pytest.raises(BackendUnavailable, match=str(data)):
        bundle.unpacked()


def test_files_that_are_too_large_are_named(kernel, monkeypatch):
    monkeypatch.setattr("harness.fleet.bundle.MOST_BYTES", 100)
    paths = kernel.sources["opencl"].path, kernel.host
    largest = max(paths, key=lambda path: path.stat().st_size)
    with pytest.raises(UsageError, match=str(largest)):
        pack(kernel)
