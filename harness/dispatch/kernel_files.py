"""What each candidate is launched from: complete OpenCL sources, or cubins."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.core.program import Binary
from harness.core.program import Program as KernelProgram
from harness.dispatch.dispatcher import KernelFile
from harness.dispatch.program import Program
from harness.source.inlining import inlined
from harness.space import Space
from harness.space.program import make_program
from harness.space_file import Spec


def opencl_kernels(spec: Spec, program: Program) -> tuple[KernelFile, ...]:
    """The source of each candidate, with its parameters and all that it includes, and the options
    to build it with; raises BuildFailed where a source has changed since the spec was read."""
    return tuple(
        KernelFile(f"{place}.cl", inlined(built).encode(), built.options)
        for place, built in enumerate(_programs(spec, program, "opencl", "opencl"))
    )


def cuda_kernels(
    spec: Spec, program: Program, build: Callable[[KernelProgram], Binary]
) -> tuple[KernelFile, ...]:
    """The cubin of each candidate; `build` is `Nvcc(arch).compile`, or `finish` of `Builds`.

    Raises what `build` does.
    """
    return tuple(
        KernelFile(f"{place}.cubin", build(built).data, built.options)
        for place, built in enumerate(_programs(spec, program, "cuda", "nvcc"))
    )


def _programs(
    spec: Spec, program: Program, language: str, compiler: str
) -> Iterator[KernelProgram]:
    space = Space(spec.tuned_for(compiler))
    for config in program.portfolio:
        yield make_program(spec, space, config, language)
