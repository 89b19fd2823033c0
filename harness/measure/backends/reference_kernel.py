"""Time two small kernels of harness's own, for which equal devices take equally long."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, fields
from functools import partial

import numpy as np

from harness.core.errors import BuildFailed, LaunchFailed
from harness.core.program import Launch, Program
from harness.measure.backends.base import Compiler, Device
from harness.measure.build_cache import BuildCache

_GROUP = 256
_WARMUP_S = 0.05
_SAMPLES = 7

_HEADS = {
    "cuda": '#define KERNEL extern "C" __global__ void\n#define GLOBAL\n'
    "#define ITEM (blockIdx.x * blockDim.x + threadIdx.x)\n",
    "opencl": "#define KERNEL kernel void\n#define GLOBAL global\n#define ITEM get_global_id(0)\n",
}
_BODY = """\
KERNEL harness_arithmetic(GLOBAL float *values) {
    float a = values[ITEM], b = a + 1.0f, c = a + 2.0f, d = a + 3.0f;
    for (int round = 0; round < 1024; round++) {
        a = a * 0.999f + 0.5f;
        b = b * 0.999f + 0.5f;
        c = c * 0.999f + 0.5f;
        d = d * 0.999f + 0.5f;
    }
    values[ITEM] = a + b + c + d;
}

KERNEL harness_memory(GLOBAL const float *values, GLOBAL float *copies) {
    copies[ITEM] = values[ITEM];
}
"""


@dataclass(frozen=True)
class ReferenceTimes:
    """The median seconds of a launch of each reference kernel: one computes, one copies memory."""

    arithmetic: float
    memory: float


KERNELS = tuple(field.name for field in fields(ReferenceTimes))
"""The names of the reference kernels."""


def time_reference(
    device: Device, compiler: Compiler, language: str, is_gpu: bool
) -> ReferenceTimes:
    """Time the reference kernels on a device, whose arguments are replaced. It warms up for 0.05 s
    before each kernel, and needs 64 MiB of a GPU's memory.

    Raises LaunchFailed where they cannot be built, or do not run.
    """
    # 9 GFLOP and 64 MiB of traffic for a GPU, far more than the start of a launch; less for a CPU.
    items, elements = (1 << 20, 1 << 23) if is_gpu else (1 << 12, 1 << 20)
    program = Program(_HEADS[language] + _BODY, (), ())
    try:
        build = partial(compiler.compile, program)
        binary = BuildCache().get_or_build(program.key(compiler.identity), build)
    except BuildFailed as error:
        raise LaunchFailed(f"the reference kernels do not compile: {error}") from None
    values = np.ones(elements, np.float32)
    device.bind({"values": values, "copies": values})
    module = device.load(binary)

    def median_s(name: str, count: int, *arguments: str) -> float:
        launch = Launch(f"harness_{name}", (_GROUP,), (count // _GROUP,), arguments)
        end_s = time.monotonic() + _WARMUP_S
        while time.monotonic() < end_s:
            device.launch(module, [launch])
        return statistics.median(device.launch(module, [launch]) for _ in range(_SAMPLES))

    found = ReferenceTimes(
        arithmetic=median_s("arithmetic", items, "values"),
        memory=median_s("memory", elements, "values", "copies"),
    )
    device.bind({})
    return found
