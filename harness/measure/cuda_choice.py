"""Choose the compiler of a space's CUDA kernels, and say why.

An application is built with nvcc more often than with NVRTC, and the two make different code of
some kernels, even in the same release. So where both can compile a space, NVRTC is taken only if
it makes the same machine code of the default configuration, in less time. The compiler is part of
the environment: a database that has measurements of one compiler keeps it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

from harness.core.errors import BackendUnavailable, BuildFailed
from harness.core.program import Binary
from harness.measure.backends.choose import Backend
from harness.measure.backends.cubin import loaded_code
from harness.measure.backends.cuda_compilers import NVCC, NVRTC, name_of, why_unusable
from harness.measure.build_cache import BuildCache
from harness.measure.build_queue import BuildQueue
from harness.measure.flags.fit import refused_flag
from harness.space import ConstrainedSpace
from harness.space.launches import make_program
from harness.space_file import Spec
from harness.space_file.compiler import AUTO

_TITLES = {NVCC: "nvcc", NVRTC: "NVRTC"}
Measured = Callable[[], Sequence[str]]
"""Returns the compilers of earlier measurements of a space, last used first."""


def with_named_compiler(spec: Spec, backend: Backend) -> Backend:
    """Return the backend with the compiler that a space names, if it names one.

    Raises BackendUnavailable where that compiler cannot be used.
    """
    name = spec.cuda_compiler
    if name == AUTO or backend.language != "cuda" or name == backend.cuda_compiler:
        return backend
    reason = why_unusable(name, backend.arch or "")
    if reason is not None:
        raise BackendUnavailable(
            f"{spec.path} says `compiler: {{cuda: {name}}}`, but it cannot be used here: {reason}"
        )
    return dataclasses.replace(backend, cuda_compiler=name)


def with_cuda_compiler(spec: Spec, backend: Backend, measured: Measured = tuple) -> Backend:
    """Return the backend with the compiler for a space; its `why` says why it was chosen.

    `backend` has the first compiler that can be used. Builds the default configuration with both
    where both can be. Raises BackendUnavailable where the one that the space names cannot be.
    """
    if backend.language != "cuda":
        return backend
    if spec.cuda_compiler != AUTO:
        backend = with_named_compiler(spec, backend)
        name, why = backend.cuda_compiler, "the space says so"
    else:
        name, why = _chosen(spec, backend, measured)
    why = f"{backend.why}; {_TITLES[name]} compiles: {why}"
    return dataclasses.replace(backend, cuda_compiler=name, why=why)


def _chosen(spec: Spec, backend: Backend, measured: Measured) -> tuple[str, str]:
    """Return the compiler's name, and why it was chosen."""
    name = backend.cuda_compiler
    missing = why_unusable(NVRTC if name == NVCC else NVCC, backend.arch or "")
    if missing is not None:
        return name, _first_sentence(missing)
    kept = next(filter(None, map(name_of, measured())), None)
    if kept is not None:
        return kept, "the database has measurements of its code"
    return _compared(spec, backend)


def _first_sentence(text: str) -> str:
    return text.partition("\n")[0].partition(": ")[0].partition(" (")[0]


def _compared(spec: Spec, backend: Backend) -> tuple[str, str]:
    """Build the default configuration with both compilers, and compare the builds."""
    space = ConstrainedSpace(spec.tuned_for(backend.compiler))
    program = make_program(spec, space, space.default, backend.language)
    by_nvrtc = dataclasses.replace(backend, cuda_compiler=NVRTC)
    identity = by_nvrtc.open_compiler().identity
    with closing(BuildQueue(by_nvrtc, identity, at_once=1)) as builds:
        refused = refused_flag(spec, backend.compiler, identity, builds.finish)
        if refused is not None:
            return NVCC, f"NVRTC does not know the flag {refused}"
        try:
            other = builds.finish(program)
        except BuildFailed as error:
            return NVCC, f"NVRTC does not compile the default: {_error_line(str(error))}"
    try:
        nvcc = dataclasses.replace(backend, cuda_compiler=NVCC).open_compiler()
        key = program.key(nvcc.identity)
        built = BuildCache().get_or_build(key, partial(nvcc.compile, program))
    except BuildFailed as error:
        return NVRTC, f"nvcc does not compile the default: {_error_line(str(error))}"
    return _judged(built, other)


def _judged(built: Binary, other: Binary) -> tuple[str, str]:
    """Compare the build of nvcc and the `other` one, of NVRTC."""
    if loaded_code(built.data) != loaded_code(other.data):
        return NVCC, (
            "NVRTC makes other machine code of the default configuration; if your application uses "
            "NVRTC, write `compiler: {cuda: nvrtc}`"
        )
    took_s, other_s = built.build.compile_s, other.build.compile_s
    times = f"{other_s:.2f} s a build, and nvcc {took_s:.2f} s"
    equal = "both make the same machine code of the default configuration"
    faster = NVRTC if other_s < took_s else NVCC
    return faster, f"{equal}; NVRTC takes {times}"


def _error_line(text: str) -> str:
    """Return the line of a compiler's log with the first error."""
    lines = [line.strip() for line in text.splitlines()]
    return next((line for line in lines if "error" in line.lower() and ":" in line), lines[0])
