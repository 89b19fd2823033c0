"""A kernel that leaves a guard zone may have overwritten other memory."""

from contextlib import contextmanager

import numpy as np
import pytest

from harness.core.errors import OutOfDeviceMemory
from harness.core.program import Launch
from harness.measure.device.arguments import ZONE_BYTES, Arguments, OutsideWrite
from harness.measure.device.memory import NumpyMemory
from tests.helpers.compilers import open_opencl, opencl_binary

pytest.importorskip("pyopencl")

SOURCE = "kernel void write(global int *y, int n) { for (int i = 0; i < n; i++) y[i] = i; }"
Y = np.zeros(64, np.int32)
FARTHEST = Y.size + ZONE_BYTES // Y.itemsize
"""The elements from the start of Y to the end of the zone behind it."""


@pytest.fixture
def device():
    return open_opencl()


def write(device, count):
    """Write so many elements from the start of Y; return what is noticed."""
    binary = opencl_binary(SOURCE)
    device.launch(device.load(binary), [Launch("write", (1,), (1,), ("y", np.int32(count)))])
    return [write.elements for write in device.arguments.outside_writes()]


@pytest.mark.parametrize("shares_cpu", [True, False])
def test_process_is_lost_where_a_kernel_left_a_zone_in_its_memory(device, shares_cpu):
    device.shares_cpu = shares_cpu
    device.bind({"y": Y})
    assert write(device, FARTHEST - 1) == [FARTHEST - 1 - Y.size]
    assert not device.is_lost
    assert write(device, FARTHEST) == [FARTHEST - Y.size]
    assert device.is_lost is shares_cpu
    device.bind({"y": Y})
    assert device.arguments.outside_writes() == []
    assert device.is_lost is shares_cpu, "new arguments mend no memory of others"


class SmallMemory(NumpyMemory):
    """Memory that holds one array at a time."""

    allocated = 0

    def allocate(self, size_bytes):
        if self.allocated:
            raise MemoryError
        self.allocated += 1
        return super().allocate(size_bytes)

    def free(self, memory, part=None):
        self.allocated -= 1


@contextmanager
def errors(doing):
    try:
        yield
    except MemoryError as error:
        raise OutOfDeviceMemory(doing) from error


def test_sets_that_do_not_fit_at_once_take_turns_and_no_write_outside_of_them_is_forgotten():
    arguments = Arguments(SmallMemory(), errors)
    arguments.bind({"y": Y}, {"y": Y + 1})
    arguments.array("y").whole[-1] ^= 1
    arguments.turn_to(1)
    np.testing.assert_array_equal(arguments.read("y"), Y + 1)
    assert arguments.outside_writes() == [OutsideWrite("y", FARTHEST - Y.size, True, True)]
    assert arguments.left_zone
    arguments.turn_to(0)
    np.testing.assert_array_equal(arguments.read("y"), Y)
    assert arguments.outside_writes() == []
    assert arguments.size_bytes == Y.nbytes + 2 * ZONE_BYTES


def test_set_that_does_not_fit_leaves_nothing_allocated():
    memory = SmallMemory()
    arguments = Arguments(memory, errors)
    with pytest.raises(OutOfDeviceMemory, match="allocating 256 bytes for z"):
        arguments.bind({"y": Y, "n": np.int32(1), "z": Y})
    assert memory.allocated == 0
    assert arguments.size_bytes == 0
