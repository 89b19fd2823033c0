"""The files that candidates are launched from: complete OpenCL sources, or cubins."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.core.program import Binary, Program
from harness.dispatch.dispatcher import KernelFile
from harness.dispatch.program import DispatchProgram
from harness.source.inlining import inlined
from harness.space import ConstrainedSpace
from harness.space.program import make_program
from harness.space_file import Spec


def opencl_kernels(spec: Spec, program: DispatchProgram) -> tuple[KernelFile, ...]:
    """Make the source of each candidate, with its parameters and all included files, and its build
    options; raises BuildFailed where a source has changed since the spec was read."""
    return tuple(
        KernelFile(f"{index}.cl", inlined(built).encode(), built.options)
        for index, built in enumerate(_programs(spec, program, "opencl", "opencl"))
    )


def cuda_kernels(
    spec: Spec, program: DispatchProgram, build: Callable[[Program], Binary]
) -> tuple[KernelFile, ...]:
    """Make the cubin of each candidate; `build` compiles one, such as `Nvcc(arch).compile`.

    Raises what `build` does.
    """
    return tuple(
        KernelFile(f"{index}.cubin", build(built).data, built.options)
        for index, built in enumerate(_programs(spec, program, "cuda", "nvcc"))
    )


def _programs(
    spec: Spec, program: DispatchProgram, language: str, compiler: str
) -> Iterator[Program]:
    space = ConstrainedSpace(spec.tuned_for(compiler))
    for config in program.portfolio:
        yield make_program(spec, space, config, language)
