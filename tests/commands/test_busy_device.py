"""While another process measures on a device, commands wait for it, or say so at once."""

import json
import threading
from contextlib import ExitStack
from importlib import metadata

import pytest

from harness.measure.process.device_lock import locked
from tests import ROOT
from tests.helpers.commands import check, tune

SPACE = f"""\
name: transpose
extends: {ROOT / "spaces" / "transpose.yaml"}
inputs: {{features: [width, height], values: [{{width: 64, height: 64}}]}}
"""


@pytest.fixture
def space(tmp_path):
    """The file of a space with one input."""
    path = tmp_path / "transpose.yaml"
    path.write_text(SPACE)
    return str(path)


@pytest.fixture
def busy(opencl, own_cache):
    """Hold the device's lock until this is closed."""
    with ExitStack() as stack:
        stack.enter_context(locked(opencl.device.identity, str(opencl.device)))
        yield stack


def test_check_says_so_before_it_compiles_and_does_not_blame_the_default(
    busy,
    space,
    monkeypatch,
    capsys,
):
    def compile_nothing(*_, **named):
        raise AssertionError

    monkeypatch.setattr("harness.checking.space_check.BuildQueue", compile_nothing)
    assert check([space, "--backend", "opencl", "--run", "--json"]) == 2
    printed = capsys.readouterr()
    assert "measures on this device" in json.loads(printed.out)["error"]
    assert "--wait SECONDS" in printed.err
    assert "does not work" not in printed.err


def test_check_waits_and_then_runs_the_default(busy, space, capsys):
    threading.Timer(0.2, busy.close).start()
    assert check([space, "--backend", "opencl", "--run", "--wait", "60"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("waiting for it for up to 60 s") == 1
    assert ", verified" in printed.out


def not_installed(package):
    """Take the place of importlib.metadata.version."""
    raise metadata.PackageNotFoundError(package)


def test_a_default_that_cannot_be_run_is_not_called_wrong(monkeypatch, capsys):
    monkeypatch.setattr("harness.measure.python.backend.metadata.version", not_installed)
    assert check([ROOT / "spaces" / "python" / "softmax.yaml", "--run"]) == 2
    printed = capsys.readouterr().out
    assert "pip install numba" in printed
    assert "the default was not run in 1" in printed
    assert "FAILED" not in printed


def test_tune_waits_for_the_device(busy, space, tmp_path, capsys):
    database = tmp_path / "results.db"
    line = [space, "--backend", "opencl", "--test-limit", "1", "--database", str(database)]
    assert tune(line) == 2
    assert not database.exists()
    capsys.readouterr()
    threading.Timer(0.2, busy.close).start()
    assert tune([*line, "--wait", "60"]) == 0
    assert "waiting for it for up to 60 s" in capsys.readouterr().out
