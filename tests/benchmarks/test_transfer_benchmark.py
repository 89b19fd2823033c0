"""The benchmark of transfer between inputs: groups, figures and orders."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from benchmarks.recordings import RecordingFile
from benchmarks.transfer import ALONE, TRANSFER, DataSet, figures, main
from harness.core.errors import UsageError


def test_figures_are_by_groups():
    slow, fast = [math.inf, 2.0, 2.0, 1.0], [1.0] * 4
    found = figures({ALONE: np.array([[slow] * 12]), TRANSFER: np.array([[slow] * 9 + [fast] * 3])})
    assert found["4-9 with transfer over alone"].value == 1
    assert found["10-12 with transfer over alone"].value == pytest.approx(0.25)
    assert found["10-12 alone"]["near, median"].value == 4
    assert [found["1 alone"][f"after {tests}"].value for tests in (1, 3)] == [0, 0.5]


@pytest.fixture
def recording(tmp_path):
    """Write two devices; one input has one configuration, and on another all failed."""
    rows = [
        ("x", 1, 16, 2.0),
        ("x", 1, 32, 1.0),
        ("x", 2, 16, 1.0),
        ("x", 3, 16, ""),
        ("x", 3, 32, ""),
        ("y", 1, 16, 1.0),
        ("y", 1, 32, ""),
    ]
    path = tmp_path / "small.csv"
    path.write_text("device,n,BX,time\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows))
    path.with_suffix(".mapping.yaml").write_text(
        "parameters: [BX]\nfeatures: [device, n]\ntimes: {columns: [time], unit: ms}\n"
    )
    return path


@pytest.mark.slow
def test_condition_can_compare_words(recording, capsys):
    command = ["--where", "device == 'y'", "--seeds", "2", "--budget", "2", "--jobs", "1"]
    assert main([str(recording), *command]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "small, device == 'y': 1 inputs"
    assert json.loads(last)["small, device == 'y'"]["1 alone"]["after 1"][0] <= 1
    with pytest.raises(UsageError, match="none of its 1 inputs has two configurations"):
        DataSet(RecordingFile(recording), where="n == 2").read()
