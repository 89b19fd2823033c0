"""Which stored measurements a later command uses again."""

import numpy as np
import pytest

from harness.api.describing import describe_results
from harness.measure.kernels.measurer import KernelMeasurer
from harness.report.findings import Findings
from harness.results.view import read_results
from harness.space_file import load_spec
from tests.helpers.commands import analyse, dispatch, tune
from tests.helpers.fakes import FAKE_HOST, FAKE_SPACE, FakeBackend

KERNEL = "V\nkernel twice\n"
AGAIN = "4 tests were answered from the database"


@pytest.fixture
def folder(tmp_path):
    """A folder with a space."""
    (tmp_path / "twice.cl").write_text(KERNEL)
    (tmp_path / "twice.py").write_text(FAKE_HOST)
    (tmp_path / "fake.yaml").write_text(FAKE_SPACE)
    return tmp_path


@pytest.fixture
def tuned(folder, kernels_here, monkeypatch, capsys):
    """Tunes the space on a fake device; returns what is printed, as one line."""

    def run():
        backend = FakeBackend("opencl", "opencl", "a fake", journal=folder / "journal")
        measurer = KernelMeasurer(load_spec(folder / "fake.yaml"), backend)
        devices = {"": measurer}, "a fake"
        monkeypatch.setattr("harness.api.running.open_measurers", lambda *_: devices)
        words = [str(folder / "fake.yaml"), "--test-limit", "2", "--database"]
        assert tune([*words, str(folder / "r.db")]) == 0
        return " ".join(capsys.readouterr().out.split())

    return run


def dispatched(folder, capsys):
    """Write a dispatcher; return the error, as one line, or an empty text."""
    code = dispatch([str(folder / "r.db"), "-o", str(folder / "out")])
    error = " ".join(capsys.readouterr().err.split())
    assert code == (2 if error else 0)
    return error


def test_comments_and_layout_change_no_program(folder, tuned, capsys):
    assert "answered from the database" not in tuned()
    (folder / "twice.cl").write_text("// doubles\n" + KERNEL.replace("twice", "twice /* so */"))
    (folder / "twice.py").write_text(f'"""Data."""\n{FAKE_HOST}# the end\n')
    (folder / "fake.yaml").write_text(f"# a space\n{FAKE_SPACE}")
    assert AGAIN in tuned()
    assert not dispatched(folder, capsys)


def test_another_kernel_is_measured_anew_and_dispatch_says_what_differs(folder, tuned, capsys):
    tuned()
    (folder / "twice.cl").write_text(f"edited {KERNEL}")
    (folder / "fake.yaml").write_text(FAKE_SPACE + "verify: {rtol: 0.001}\n")
    error = dispatched(folder, capsys)
    assert "fake.yaml is not what was measured: twice.cl, verify changed since" in error
    assert f"harness tune {folder}/fake.yaml --database {folder}/r.db; or restore" in error
    printed = tuned()
    assert "answered from the database" not in printed
    assert "twice.cl, verify changed" in printed
    assert "set aside" in printed
    assert not dispatched(folder, capsys)
    (folder / "twice.cl").write_text(KERNEL)
    (folder / "fake.yaml").write_text(FAKE_SPACE)
    assert not dispatched(folder, capsys), "the version before counts again"


# ---------------------------------------------------------------- data that are read from a file


def reading(folder, *data):
    """Let the host module read its data from a file, and write this file."""
    np.save(folder / "x.npy", data)
    path = f'np.load(r"{folder / "x.npy"}")[:features["n"]]'
    (folder / "twice.py").write_text(FAKE_HOST.replace('rng.random(features["n"])', path))


def analysed(folder, capsys):
    """Analyse the database; return what is printed, as one line."""
    assert analyse([str(folder / "r.db")]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_changed_data_are_measured_anew_and_count_again_where_they_return(folder, tuned, capsys):
    reading(folder, 1, 2, 3, 4, 5)
    tuned()
    (first,) = read_results(str(folder / "r.db"))
    before = {row.uuid for row in first.rows}
    reading(folder, 6, 7, 8, 9, 10)
    again = tuned()
    changed = f"data of 2 inputs changed since these were measured: {len(before)} measurements"
    assert f"{changed} are set aside, of (n=4), (n=5)." in again
    assert "answered from the database" not in again
    assert changed in analysed(folder, capsys)
    (other,) = read_results(str(folder / "r.db"))
    after = {row.uuid for row in other.rows}
    assert before.isdisjoint(after)
    assert len(other.all_rows) == len(before) + len(after)
    assert changed in describe_results(Findings(other)).model_dump_json()
    assert AGAIN in tuned()
    reading(folder, 1, 2, 3, 4, 5)
    assert AGAIN in tuned()
    (returned,) = read_results(str(folder / "r.db"))
    counted = {row.uuid for row in returned.rows}
    assert counted >= before
    assert counted.isdisjoint(after)


def test_progress_is_shown_where_data_take_long(tuned, monkeypatch):
    tuned()
    assert "data compared" not in tuned()
    monkeypatch.setattr("harness.tuning.state._SHOWN_AFTER_S", 0.0)
    assert "data compared with the measured ones: 2 of 2, n=5" in tuned()


def test_data_of_one_input_change_alone(folder, tuned):
    reading(folder, 1, 2, 3, 4, 5)
    tuned()
    reading(folder, 1, 2, 3, 4, -1)
    printed = tuned()
    assert "data of 1 input changed since" in printed
    assert "set aside, of (n=5)." in printed
    assert "2 tests were answered from the database" in printed


def test_data_that_cannot_be_made_any_more_are_said(folder, tuned):
    reading(folder, 1, 2, 3, 4, 5)
    tuned()
    (folder / "x.npy").unlink()
    printed = tuned()
    assert "warning: (n=4): its data cannot be compared" in printed
    assert "FileNotFoundError" in printed
    assert AGAIN in printed


def test_data_that_differ_each_time_are_used_again_and_it_is_said(folder, tuned, capsys):
    host = FAKE_HOST.replace("rng.random", "np.random.default_rng().random")
    (folder / "twice.py").write_text(host)
    assert "other data each time" not in tuned()
    printed = tuned()
    assert AGAIN in printed
    assert printed.count("returns other data each time on (n=4), (n=5)") == 1
    assert "changed since" not in analysed(folder, capsys)
