"""Helpers for stencil tests: build many kernels as one program and run them on PoCL."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.measure.opencl.driver import build_program, device_of, load_pyopencl, usable_devices
from harness.stencil.emit import OPENCL, emit
from harness.stencil.features import FEATURES
from harness.stencil.ir import Node
from harness.stencil.lower import parallel_extents
from harness.stencil.nest import LoopNest, NdRange
from harness.stencil.space_files import Definition

Arrays = Mapping[str, np.ndarray]

_FOLDER = Path(__file__).parents[2] / "kernels" / "stencils"
PROGRAMS = sorted(path.stem for path in _FOLDER.glob("*.py"))

DEPTH = int(os.environ.get("STENCIL_TEST_DEPTH", "1"))
"""A factor on the number of random expressions."""


def path_of(program: str) -> Path:
    """Return the file of a stencil of kernels/stencils."""
    return _FOLDER / f"{program}.py"


def definition_of(program: str) -> Definition:
    """Load a stencil of kernels/stencils."""
    return Definition.load(path_of(program))


def macros(kernel: LoopNest) -> str:
    """Define the group sizes that a kernel was lowered for."""
    sizes = zip("XYZ", kernel.ndrange.local, strict=True)
    return "".join(f"#define LOCAL_{d} {size}\n" for d, size in sizes)


def together(kernels: Sequence[LoopNest], suffix: str) -> str:
    """Join kernels of different names into one source; write shared functions once."""
    parts: dict[str, None] = {}
    for kernel in kernels:
        *functions, body = emit(kernel, suffix).rstrip("\n").split("\n\n")
        parts |= dict.fromkeys(functions)
        parts["#undef LOCAL_X\n#undef LOCAL_Y\n#undef LOCAL_Z\n" + macros(kernel) + body] = None
    return "\n\n".join(parts) + "\n"


class Pocl:
    """The PoCL device, to run programs on."""

    def __init__(self) -> None:
        self.cl = load_pyopencl()
        self.context = self.cl.Context([device_of(self.cl, usable_devices()[0])])
        self.queue = self.cl.CommandQueue(self.context)

    def run_all(self, kernels: Sequence[LoopNest], arrays: Arrays) -> list[np.ndarray]:
        """Return the result of each kernel; NaN where it writes nothing."""
        text = together(kernels, OPENCL)
        program = build_program(self.cl, self.cl.Program(self.context, text), ())
        return [self._run(program, kernel, arrays) for kernel in kernels]

    def _run(self, program: Any, kernel: LoopNest, arrays: Arrays) -> np.ndarray:
        result = np.full(kernel.output.shape, np.nan, np.float32)
        arguments = [arrays[buffer.name] for buffer in kernel.inputs] + [result]
        flags = self.cl.mem_flags.READ_WRITE | self.cl.mem_flags.COPY_HOST_PTR
        buffers = [self.cl.Buffer(self.context, flags, hostbuf=array) for array in arguments]
        local, groups = kernel.ndrange.local, kernel.ndrange.groups
        size = tuple(a * b for a, b in zip(local, groups, strict=True))
        getattr(program, kernel.name)(self.queue, size, local, *buffers).wait()
        self.cl.enqueue_copy(self.queue, result, buffers[-1], is_blocking=True)
        return result


def inputs_of(kernel: LoopNest, seed: int = 0) -> dict[str, np.ndarray]:
    """Draw random inputs from 0.5 to 1.5."""
    rng = np.random.default_rng(seed)
    return {b.name: 0.5 + rng.random(b.shape, dtype=np.float32) for b in kernel.inputs}


def wrong(result: np.ndarray, expected: np.ndarray) -> str:
    """Describe the wrong elements of a result; empty if it is right."""
    off = ~np.isclose(result, expected, rtol=1e-4, atol=1e-5)
    return f"{off.sum()} of {off.size}, the first at {np.argwhere(off)[0]}" if off.any() else ""


def made_times(programs: int = 4, points: int = 120, seed: int = 0) -> pd.DataFrame:
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


def drawn_range(expression: Node, rng: random.Random) -> NdRange:
    """Draw threads: more or fewer than the work, powers of two or not."""
    used = parallel_extents(expression)
    local, groups = [1, 1, 1], [1, 1, 1]
    for kind, dim in used:
        if kind != "workgroup":
            local[dim] = rng.choice((1, 3, 4, 8, 17))
        if kind != "local":
            groups[dim] = rng.choice((1, 2, 5))
    return NdRange((local[0], local[1], local[2]), (groups[0], groups[1], groups[2]))
