"""What was learnt on one device is judged on others, and used there where that pays."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.core.records import Config, Environment
from harness.dispatch.elsewhere import DeviceTransfer, transfer_to
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.python_code import python_module
from harness.dispatch.study import DISPATCHERS, STATIC, TREE, study
from harness.space_file import load_spec
from tests.dispatch.test_dispatch import DEVICE, SPACE, by_size, fill, run, written
from tests.helpers.dispatch_examples import PROVENANCE, dispatcher_of, mvmul_program, python_of
from tests.helpers.replays import write_space

OTHER = Environment("opencl", "a GPU, 60 compute units, threads not pinned", "AMD", "1", "c")
SIZES = tuple(2**e for e in range(4, 16))


def table(crossing: int, blocks: tuple[int, ...] = (16, 64), sizes: Any = SIZES) -> Matrix:
    """Inputs below a size want the first block, others the last; the rest takes thrice as long."""
    best = [0 if n < crossing else len(blocks) - 1 for n in sizes]
    time_s = np.array([[1.0 if b == index else 3.0 for b in range(len(blocks))] for index in best])
    configs = [Config({"BLOCK": block}) for block in blocks]
    return make_matrix(pd.DataFrame({"n": sizes}), configs, time_s)


def moved(other: Matrix) -> DeviceTransfer | None:
    """A tree that was learnt from a crossing at 1024, on another device."""
    found = study(table(1024), [STATIC, DISPATCHERS[TREE]])
    return transfer_to(found, TREE, other, OTHER)


def test_a_similar_device_gains_from_the_choice() -> None:
    """Its table has the configurations and the inputs in other orders, and more of both."""
    other = table(512, (16, 8, 64), (*SIZES[::-1], 99999))
    found = moved(other)
    assert found is not None
    assert found.inputs == len(SIZES)
    assert found.is_faster
    assert found.sentence.startswith("On a GPU, 60 compute units (AMD), which it did not learn")
    assert found.sentence.endswith("load() runs what the tree chooses there.")


def test_a_device_that_wants_the_opposite_gets_one_configuration() -> None:
    found = moved(table(1024, (64, 16)))
    assert found is not None
    assert not found.is_faster
    assert found.found.ratio.value > 1
    assert found.sentence.endswith("load() runs one configuration for all there.")


@pytest.mark.parametrize(
    "other",
    [table(1024, (8, 64)), table(1024, sizes=SIZES[:3]), table(1024, sizes=[n + 1 for n in SIZES])],
    ids=["another configuration", "few inputs", "other inputs"],
)
def test_too_little_in_common_is_no_verdict(other: Matrix) -> None:
    assert moved(other) is None


def test_inputs_that_never_came_are_no_verdict() -> None:
    ours = table(1024)
    ours = dataclasses.replace(ours, weights=np.array([*[0.0] * 11, 12.0]))
    found = study(ours, [STATIC, DISPATCHERS[TREE]])
    assert transfer_to(found, TREE, table(512, sizes=SIZES[:8]), OTHER) is None
    assert transfer_to(found, TREE, table(512), OTHER) is not None


def serving(*transfers: tuple[str, str, float]) -> Any:
    """`serves` of a dispatcher for AMD with these devices, platforms and ratios of times."""
    made = tuple(
        SimpleNamespace(device=device, platform=platform, is_faster=ratio < 1)
        for device, platform, ratio in transfers
    )
    where = dataclasses.replace(PROVENANCE.environment, platform="AMD Accelerated")
    provenance: Any = dataclasses.replace(PROVENANCE, environment=where, transfers=made)
    module = python_of(python_module(dispatcher_of(mvmul_program(), "p", provenance=provenance)))
    return module["serves"]


def test_what_is_not_recorded_goes_by_the_vendor() -> None:
    serves = serving()
    assert serves("gfx1100", "AMD Accelerated Parallel Processing")
    assert not serves("a GPU", "NVIDIA CUDA")


def test_what_is_recorded_decides_for_its_device_and_then_for_its_vendor() -> None:
    serves = serving(
        ("gfx900", "AMD Accelerated", 2.0),
        ("gfx1030", "AMD Accelerated", 0.5),
        ("T4", "NVIDIA", 0.5),
    )
    assert serves("gfx1030", "AMD Accelerated")
    assert not serves("gfx900", "AMD Accelerated")
    assert not serves("gfx1100", "AMD Accelerated"), "it lost on one"
    assert serves("A100", "NVIDIA CUDA"), "it gained there"
    assert not serves("Arc", "Intel(R) OpenCL")


def test_the_command_judges_other_devices_of_the_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = write_space(tmp_path, SPACE)
    spec = load_spec(space)
    database = fill(tmp_path / "r.db", spec)
    same = dataclasses.replace(DEVICE, device="a newer device")
    slow = dataclasses.replace(DEVICE, device="an odd device")
    fill(database, spec, same, by_size)
    fill(database, spec, slow, lambda problem, config: 1e-5 / by_size(problem, config))
    assert run(database, space, "--device", "a device") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "On a newer device (a platform), which it did not learn from, the tree is" in printed
    module = written(space)
    faster = {each["device"]: each["is_faster"] for each in module.TRANSFERS}
    assert faster == {"a newer device": True, "an odd device": False}
    head = " ".join((tmp_path / "out" / "small.h").read_text().split("*/")[0].split())
    assert "On an odd device (a platform), which it did not" in head.replace("* ", "")
