"""What one configuration leaves in memory, and that the next one is not blamed for it."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from harness.core.errors import LaunchFailed
from harness.core.program import Launch, Program
from harness.core.records import Outcome
from harness.measure.device.arguments import (
    ZONE_BYTES,
    OutsideWrite,
    outside_write,
    zone_bytes,
    zone_content,
)
from harness.measure.kernels.process import DataKey, DeviceWorker, NotPrepared
from harness.measure.occasions import Block
from tests.helpers.fake_kernels import FOUR, DeviceBackend, fake_job
from tests.helpers.fakes import FakeArguments, FakeCompiler, FakeDevice

OVERRUN = OutsideWrite("y", 1670, behind=True)

HOST = """
import numpy as np
INOUT = ("sum",)

def arguments(features, rng):
    x = rng.random(features["n"])
    return {"x": x, "kept": np.zeros(2), "y": np.zeros_like(x), "sum": np.ones_like(x)}

def reference(arguments):
    return {"y": 2 * arguments["x"], "sum": 1 + arguments["x"]}
"""


class SpoilableArguments(FakeArguments):
    """Arguments that keep copies of the arrays that they restore.

    A kernel that `reaches_copies` has overwritten these copies, too.
    """

    reaches_copies = False

    def bind(self, *sets):
        super().bind(*sets)
        self.written = []
        self.reaches_copies = False

    def restore(self, contents):
        super().restore(contents)
        if self.reaches_copies:
            self.write("sum", np.full(4, 7.0))


class Spoilable(FakeDevice):
    """A device that counts what is bound, in the memory of this process."""

    shares_cpu = True

    def __init__(self):
        super().__init__()
        self.arguments = SpoilableArguments(self.errors)
        self.binds = 0

    def bind(self, *sets):
        super().bind(*sets)
        self.binds += 1


def job_of(kernel, group=4):
    launch = Launch(kernel, (group,), (1,), ("x", "kept", "y", "sum"))
    return fake_job(kernel, launches=(launch,))


@pytest.fixture
def device():
    """A device with a kernel that is right, and others that each spoil something."""
    device, runs = Spoilable(), itertools.count()

    def right(x, kept, y, total):
        y[...] = 2 * x
        total += x

    def overruns(*arrays):
        device.arguments.written = [OVERRUN]

    def overruns_once(*arrays):
        right(*arrays)
        if next(runs) == 0:
            device.arguments.written = [OVERRUN]

    def overruns_far(*arrays):
        device.arguments.left_zone = True

    def overwrites_input(x, kept, y, total):
        x[...] = 0

    def reaches_copies(*arrays):
        device.arguments.reaches_copies = True

    kernels = right, overruns, overruns_once, overruns_far, overwrites_input, reaches_copies
    for kernel in kernels:
        device.kernels = {**device.kernels, kernel.__name__: kernel}
    return device


@pytest.fixture
def worker(tmp_path, device):
    """A worker with the data of an input on a device that can be spoilt."""
    (tmp_path / "twice.py").write_text(HOST)
    worker = DeviceWorker(DeviceBackend("fake", "fake", "a fake", opened=device))
    worker.key = DataKey(tmp_path / "twice.py", FOUR)
    worker.prepare(worker.key)
    return worker


def outcome_of(worker, kernel, group=4):
    job = job_of(kernel, group)
    return prepared(worker, lambda: worker.run(worker.key, job)).outcome


def prepared(worker, call):
    """Call, as the client does."""
    try:
        return call()
    except NotPrepared:
        worker.prepare(worker.key)
    return call()


@pytest.mark.parametrize("guilty", ["overruns", "overwrites_input", "reaches_copies"])
def test_right_kernel_runs_on_clean_memory_after_one_that_spoilt_it(device, worker, guilty):
    assert outcome_of(worker, "right") is Outcome.OK
    runs = len(device.launched)
    assert outcome_of(worker, guilty) is Outcome.WRONG_RESULT
    device.launched.clear()
    assert outcome_of(worker, "right") is Outcome.OK
    for result in device.launched:
        np.testing.assert_array_equal(result["sum"], 1)
        assert result["x"].all()
    assert len(device.launched) == runs, "it was measured twice"


def test_kernel_that_overruns_at_one_run_only_is_blamed(worker):
    assert outcome_of(worker, "right") is Outcome.OK
    assert outcome_of(worker, "overruns_once") is Outcome.WRONG_RESULT


@pytest.mark.parametrize("guilty", ["overruns_far", "overwrites_input", "overruns_once"])
def test_interleaved_kernels_are_repeated_where_spoilt(worker, guilty):
    jobs = [job_of("right"), job_of(guilty), job_of("right")]
    assert not worker.run_interleaved(worker.key, jobs, Block(rounds=2)).is_complete
    assert worker.must_be_replaced == (guilty == "overruns_far")
    with pytest.raises(NotPrepared):
        worker.run(worker.key, job_of("right"))


@pytest.mark.parametrize("left_zone, answers", [(True, True), (False, False), (False, True)])
def test_callable_that_may_have_spoilt_the_process_as_it_compiled_does(
    device, worker, tmp_path, monkeypatch, left_zone, answers
):
    monkeypatch.setattr(DeviceBackend, "open_compiler", lambda _: FakeCompiler())
    monkeypatch.setattr(device, "load", lambda _: SimpleNamespace(build_s=0.5))
    device.arguments.left_zone, device.answers = left_zone, answers
    worker.compile(tmp_path / "twice.py", Program("kernel right", (), ()))
    assert worker.must_be_replaced == (left_zone or not answers)


def test_data_are_copied_once_for_right_kernels_and_refused_launches(device, worker):
    assert outcome_of(worker, "right") is Outcome.OK
    assert outcome_of(worker, "right", group=1024) is Outcome.LAUNCH_FAILED
    assert outcome_of(worker, "right") is Outcome.OK
    assert device.binds == 1
    assert outcome_of(worker, "overwrites_input") is Outcome.WRONG_RESULT
    assert outcome_of(worker, "right") is Outcome.OK
    assert device.binds == 3, "the guilty one was measured again on new data"


def test_device_that_is_full_is_no_longer_prepared(device, worker, monkeypatch):
    def refuses(_):
        raise LaunchFailed("no memory")

    assert outcome_of(worker, "overruns") is Outcome.WRONG_RESULT
    monkeypatch.setattr(device, "bind", refuses)
    with pytest.raises(LaunchFailed):
        worker.prepare(worker.key)
    with pytest.raises(NotPrepared):
        worker.run(worker.key, job_of("right"))


# --------------------------------------------------------------------------------- around arguments

FLOATS = ("float16", "float32", "float64", "complex64", "complex128")
PAIR = np.dtype([("a", np.float32), ("b", np.int32), ("c", np.int32)])


def test_write_outside_of_an_array_is_in_elements():
    for dtype, behind, elements in itertools.product(
        [*FLOATS, "longdouble", "int8", "uint16", "int64", "bool", PAIR], [False, True], [1, 2, 63]
    ):
        dtype = np.dtype(dtype)
        zone = zone_content("y", dtype).copy()
        assert zone.shape == (ZONE_BYTES,)
        assert outside_write("y", dtype, zone, zone_content("y", dtype), behind) is None
        size = elements * dtype.itemsize
        near = zone[:size] if behind else zone[-size:]
        near[:] = 0
        result = outside_write("y", dtype, zone, zone_content("y", dtype), behind)
        assert result == OutsideWrite("y", elements, behind)


def test_every_second_floating_point_number_of_a_zone_is_nan():
    for dtype in FLOATS:
        parts = zone_content("y", np.dtype(dtype)).view(np.empty(0, dtype).real.dtype)
        assert np.isnan(parts[::2]).all()
        assert (parts[1::2] >= 1000).all()


def test_zones_of_every_second_set_of_data_have_ordinary_numbers():
    for dtype in [*FLOATS, "longdouble", "int8", "int64", "bool", PAIR]:
        content = zone_content("y", np.dtype(dtype), 1 << 16, True)
        assert content.shape == (1 << 16,)
        if dtype in FLOATS:
            numbers = content.view(np.empty(0, dtype).real.dtype)
            assert ((numbers >= 0) & (numbers <= 1)).all()
        elif dtype != "longdouble":
            assert (content < 128).all()


def test_zone_is_as_large_as_its_array_up_to_a_most():
    sizes = [zone_bytes(size) for size in (0, 4, 1 << 14, (1 << 14) + 1, 1 << 30)]
    assert sizes == [1 << 14, 1 << 14, 1 << 14, 1 << 15, 1 << 20]
