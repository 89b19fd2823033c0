"""The first calls with an input try the shortlist, interleaved, and the fastest is remembered."""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.dispatch.choice import Choice, DispatchProgram, Leaf
from harness.dispatch.loaders.trying import FirstCalls
from harness.space_file import Spec, load_spec
from tests.helpers.dispatch_examples import (
    imported,
    memories_of,
    mvmul_program,
    product,
    write_for_cuda,
    write_for_opencl,
)
from tests.helpers.stub_driver import StubDriver

MVMUL = Path(__file__).parents[2] / "spaces" / "mvmul.yaml"
CONFIGS = ({"A": 1}, {"A": 2}, {"A": 3})


def dispatcher(listed: tuple[int, ...] = (2, 0, 1), **others: Any) -> Any:
    """What a written module offers."""
    module = SimpleNamespace(
        NAME="mvmul",
        PORTFOLIO=CONFIGS,
        PROVENANCE={"kernel_sha256": "ab"},
        DATA={"choice": {"worth_a_try": 0.7}, "launch": {}},
        select_top=lambda most, m: listed[:most],
        applies=lambda index, m: True,
    )
    vars(module).update(others)
    return module


def played(calls: FirstCalls, m: int, seconds: list[float]) -> list[int]:
    """Call the kernel until its input is decided; each configuration has a time."""
    tried = []
    while (index := calls.next({"m": m}, 2)) is not None:
        tried.append(index)
        calls.took({"m": m}, index, seconds[index])
    return tried


def test_calls_are_interleaved_and_the_least_time_decides() -> None:
    calls = FirstCalls(dispatcher(), 3, None, "a GPU")
    assert calls.decided({"m": 8}) is None
    assert played(calls, 8, [2.0, 1.0, 3.0]) == [2, 0, 1, 1, 0, 2, 2, 0, 1]
    assert calls.decided({"m": 8}) == 1
    assert calls.next({"m": np.int32(8)}, 2) is None, "the same input"
    assert calls.decided({"m": 9}) is None


def test_threads_that_call_at_once_mix_up_no_times() -> None:
    calls = FirstCalls(dispatcher(), 2, None, "a GPU")
    assert [calls.next({"m": 8}, 2) for _ in range(2)] == [2, 2]
    for _ in range(2):
        calls.took({"m": 8}, 2, 1.0)
    for _ in range(4):
        calls.took({"m": 8}, 0, 2.0)
    assert calls.decided({"m": 8}) == 2
    calls.took({"m": 8}, 0, 0.5)
    assert calls.decided({"m": 8}) == 2, "it came too late"


def test_inputs_of_which_the_choice_is_sure_try_nothing() -> None:
    calls = FirstCalls(dispatcher((2,)), 3, None, "a GPU")
    assert played(calls, 8, []) == []
    assert calls.decided({"m": 8}) == 2


def test_what_would_run_without_trying_heads_the_list() -> None:
    """On another device that is the best configuration for all inputs."""
    calls = FirstCalls(dispatcher((0, 1)), 2, None, "a GPU")
    assert played(calls, 8, [1.0, 1.0, 1.0]) == [2, 0, 0, 2, 2, 0]
    assert calls.decided({"m": 8}) == 2, "of equal ones the first"


def test_choices_are_kept_in_a_file_for_the_same_dispatcher_and_device(tmp_path: Path) -> None:
    path = tmp_path / "choices.json"
    played(FirstCalls(dispatcher(), 3, path, "a GPU"), 8, [2.0, 1.0, 3.0])
    assert json.loads(path.read_text())["choices"] == [[{"m": 8}, 1]]
    assert FirstCalls(dispatcher(), 3, path, "a GPU").decided({"m": np.int32(8)}) == 1
    for other in (
        FirstCalls(dispatcher(), 3, path, "another GPU"),
        FirstCalls(dispatcher(), 2, path, "a GPU"),
        FirstCalls(dispatcher(PROVENANCE={"kernel_sha256": "cd"}), 3, path, "a GPU"),
        FirstCalls(dispatcher(applies=lambda index, m: index != 1), 3, path, "a GPU"),
    ):
        assert other.decided({"m": 8}) is None
    assert played(other, 8, [1.0, 2.0, 3.0]), "it is tried again"
    assert other.decided({"m": 8}) == 0


def test_processes_that_share_a_file_keep_each_others_choices(tmp_path: Path) -> None:
    path = tmp_path / "choices.json"
    one, other = (FirstCalls(dispatcher(), 3, path, "a GPU") for _ in range(2))
    played(one, 8, [2.0, 1.0, 3.0])
    played(other, 9, [1.0, 2.0, 3.0])
    assert other.decided({"m": 8}) == 1
    third = FirstCalls(dispatcher(), 3, path, "a GPU")
    assert [third.decided({"m": m}) for m in (8, 9)] == [1, 0]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_full_disk_ends_the_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = FirstCalls(dispatcher(), 3, tmp_path / "choices.json", "a GPU")

    def full(path: Path, *_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.warns(UserWarning, match=r"No space left .* this process alone remembers"):
        played(calls, 8, [2.0, 1.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        played(calls, 9, [2.0, 1.0, 3.0])
    assert calls.decided({"m": 9}) == 1


@pytest.mark.parametrize("path", ["/dev/full", "{}/missing/choices.json", "{}/file/c.json", "{}"])
def test_a_file_that_cannot_be_made_is_one_clear_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is no file, and none can be made there"):
        FirstCalls(dispatcher(), 3, path.format(tmp_path), "a GPU")


@pytest.mark.parametrize(
    "content", [b"SQLite format 3\0\xff\nand more", b"[1]", b'{"a": 3}', b'{"cho']
)
def test_a_file_of_something_else_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"notes.txt has no choices; name another file"):
        FirstCalls(dispatcher(), 3, path, "a GPU")
    assert path.read_bytes() == content


@pytest.mark.parametrize("try_top", [-2, 2.5, "three", None])
def test_the_length_of_a_shortlist_is_a_whole_number(try_top: Any) -> None:
    with pytest.raises(ValueError, match="try_top must be a whole number from 0, got"):
        FirstCalls(dispatcher(), try_top, None, "a GPU")


def test_nothing_is_remembered_where_nothing_is_tried(tmp_path: Path) -> None:
    assert FirstCalls(dispatcher(), 0, None, "a GPU").next({"m": 8}, 2) is None
    with pytest.raises(ValueError, match="add try_top"):
        FirstCalls(dispatcher(), 0, tmp_path / "choices.json", "a GPU")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"choice": {"worth_a_try": None}, "launch": {}}, "--choice ensemble"),
        ({"choice": {"worth_a_try": 0.7}, "launch": None}, "host module's"),
    ],
)
def test_what_cannot_be_tried_is_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FirstCalls(dispatcher(DATA=data), 3, None, "a GPU")


# ------------------------------------------------------------------------------- the loaders


@pytest.fixture(scope="module")
def spec() -> Spec:
    return load_spec(MVMUL)


def unsure_program() -> DispatchProgram:
    """Three configurations of mvmul that are predicted to take nearly the same time."""
    choice = Choice.of_trees([Leaf((0.2, 0.0, 0.1))], predicts_times=True)
    return dataclasses.replace(mvmul_program(), columns=(), choice=choice)


def test_opencl_kernel_tries_its_shortlist_and_others_remember(spec: Spec, tmp_path: Path) -> None:
    cl = pytest.importorskip("pyopencl")
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    path = tmp_path / "choices.json"
    write_for_opencl(tmp_path / "out", spec, unsure_program())
    module = imported(tmp_path / "out")
    kernel = module.load(queue.context, try_top=3, remember=path)
    for _ in range(9):
        assert kernel.index(m=50, n=300) == 1
        assert (product(queue, kernel, 50, 300) == 300).all()
    ((_, chosen),) = json.loads(path.read_text())["choices"]
    assert kernel.index(m=50, n=300) == chosen
    later = module.load(queue.context, try_top=3, remember=path)
    assert later.index(m=50, n=300) == chosen
    assert (product(queue, later, 50, 300) == 300).all()
    assert module.load(queue.context).index(m=50, n=300) == 1, "who does not ask tries nothing"


@pytest.mark.gpu
def test_cuda_kernel_tries_its_shortlist(spec: Spec, tmp_path: Path, stub: StubDriver) -> None:
    path = tmp_path / "choices.json"
    write_for_cuda(tmp_path / "out", spec, unsure_program())
    a, x, y = np.ones((50, 300), "f4"), np.full(300, 2, "f4"), np.zeros(50, "f4")
    with memories_of(a, x, y) as memories:
        kernel = imported(tmp_path / "out").load(try_top=3, remember=path)
        stub.calls()
        for _ in range(9):
            kernel(None, *memories, np.int32(50), np.int32(300), m=50, n=300)
        calls = stub.calls()
    assert (y == 600).all()
    sides = [int(call.split()[7]) for call in calls if call.startswith("cuLaunchKernel")]
    assert sides == [4, 8, 8, 8, 8, 4, 4, 8, 8]
    assert sum(call.startswith("cuEventSynchronize") for call in calls) == 9
    remembered = json.loads(path.read_text())
    assert remembered["learnt"]["runs_on"] == "Stand-in GPU"
    assert [features for features, _ in remembered["choices"]] == [{"m": 50, "n": 300}]
