"""Helpers for stencil tests: build many kernels as one program and run them on PoCL."""

import os

import numpy as np
import pandas as pd

from harness.measure.opencl.driver import build_program, device_of, load_pyopencl, usable_devices
from harness.stencil.emit import OPENCL, emit
from harness.stencil.features import FEATURES
from harness.stencil.space_files import Definition
from tests import ROOT

_FOLDER = ROOT / "kernels" / "stencils"
PROGRAMS = sorted(path.stem for path in _FOLDER.glob("*.py"))

DEPTH = int(os.environ.get("STENCIL_TEST_DEPTH", "1"))
"""A factor on the number of random expressions."""


def path_of(program):
    """Return the file of a stencil of kernels/stencils."""
    return _FOLDER / f"{program}.py"


def definition_of(program):
    """Load a stencil of kernels/stencils."""
    return Definition.load(path_of(program))


def macros(kernel):
    """Define the group sizes that a kernel was lowered for."""
    sizes = zip("XYZ", kernel.ndrange.local, strict=True)
    return "".join(f"#define LOCAL_{d} {size}\n" for d, size in sizes)


def together(kernels, suffix):
    """Join kernels of different names into one source; write shared functions once."""
    parts = {}
    for kernel in kernels:
        *functions, body = emit(kernel, suffix).rstrip("\n").split("\n\n")
        parts |= dict.fromkeys(functions)
        parts["#undef LOCAL_X\n#undef LOCAL_Y\n#undef LOCAL_Z\n" + macros(kernel) + body] = None
    return "\n\n".join(parts) + "\n"


class Pocl:
    """The PoCL device, to run programs on."""

    def __init__(self):
        self.cl = load_pyopencl()
        self.context = self.cl.Context([device_of(self.cl, usable_devices()[0])])
        self.queue = self.cl.CommandQueue(self.context)

    def run_all(self, kernels, arrays):
        """Return the result of each kernel; NaN where it writes nothing."""
        text = together(kernels, OPENCL)
        program = build_program(self.cl, self.cl.Program(self.context, text), ())
        return [self._run(program, kernel, arrays) for kernel in kernels]

    def _run(self, program, kernel, arrays):
        result = np.full(kernel.output.shape, np.nan, np.float32)
        arguments = [arrays[buffer.name] for buffer in kernel.inputs] + [result]
        flags = self.cl.mem_flags.READ_WRITE | self.cl.mem_flags.COPY_HOST_PTR
        buffers = [self.cl.Buffer(self.context, flags, hostbuf=array) for array in arguments]
        local, groups = kernel.ndrange.local, kernel.ndrange.groups
        size = tuple(a * b for a, b in zip(local, groups, strict=True))
        getattr(program, kernel.name)(self.queue, size, local, *buffers).wait()
        self.cl.enqueue_copy(self.queue, result, buffers[-1], is_blocking=True)
        return result


def inputs_of(kernel, seed=0):
    """Draw random inputs from 0.5 to 1.5."""
    rng = np.random.default_rng(seed)
    return {b.name: 0.5 + rng.random(b.shape, dtype=np.float32) for b in kernel.inputs}


def wrong(result, expected):
    """Describe the wrong elements of a result; empty if it is right."""
    off = ~np.isclose(result, expected, rtol=1e-4, atol=1e-5)
    return f"{off.sum()} of {off.size}, the first at {np.argwhere(off)[0]}" if off.any() else ""


def made_times(programs=4, points=120, seed=0):
    """Make programs whose times grow with their loads and cache lines, each on its scale."""
    rng = np.random.default_rng(seed)
    tables = []
    for number in range(programs):
        columns = {name: rng.integers(1, 1000, points).astype(float) for name in FEATURES}
        cost = columns["global_loads"] * columns["cache_lines"] * rng.uniform(0.95, 1.05, points)
        design, time_s = np.arange(points) + number * points, 10.0**-number * cost
        own = {"program": f"p{number}", "size": 4096, "design": design, "time_s": time_s}
        tables.append(pd.DataFrame(columns).assign(**own))
    table = pd.concat(tables, ignore_index=True)
    return table.assign(final_s=table["time_s"])
