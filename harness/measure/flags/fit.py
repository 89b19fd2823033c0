"""Remove from a space the flags that an installed compiler refuses.

Such a flag stays in the space with `absent` as its only value, so that it is not tuned: constraints
may still name it, and measurements are filed as before.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness.core.program import Binary, Program, family
from harness.core.records import Value
from harness.measure.backends.nvcc import find_nvcc, supported_archs
from harness.measure.flags.probe import ProbedBackend, ProbedCommand, ProbedCompiler, answers
from harness.space_file import Notice, Parameter, ProgramPlan, Spec
from harness.space_file.flag_expansion import NamedFlags
from harness.space_file.flags.catalogue import catalogue_of
from harness.space_file.flags.resolve import Declaration, resolve


def fitted_to_backend(
    spec: Spec, compiler: str, arch: str | None, identity: str, build: Callable[[Program], Binary]
) -> Spec:
    """Return the space with the flags that a backend's compiler accepts.

    `arch` is the architecture that nvcc compiles for; None for OpenCL, where `build` compiles.
    Raises BackendUnavailable where the compiler refuses even an empty program.
    """
    named = _named(spec, compiler)
    if named is None:
        return spec
    if arch is not None:
        return _fitted(spec, named, ProbedCommand(compiler, find_nvcc(), arch))
    return _fitted(spec, named, ProbedBackend(compiler, identity, build))


def fitted_to_program(spec: Spec) -> Spec:
    """Return the space with the flags that the compiler of its program accepts.

    Keeps all flags, with a notice, where the build does not begin with that compiler, so that it
    cannot be probed.
    """
    named = _named(spec, spec.program_compiler)
    if named is None or spec.program is None:
        return spec
    return _fitted(spec, named, _probed(spec.program, named.compiler))


def _probed(plan: ProgramPlan, compiler: str) -> ProbedCompiler | None:
    words = [word for template in plan.build for word in shlex.split(template.text)]
    if plan.shell or not words or family(Path(words[0]).name) != family(compiler):
        return None
    first = words[0] if words[0] == Path(words[0]).name else str(plan.folder / words[0])
    found = shutil.which(first)
    if found is None:
        return None
    executable = Path(found)
    arch = _arch(words, executable) if family(compiler) == "nvcc" else None
    return ProbedCommand(compiler, executable, arch)


def _arch(words: list[str], nvcc: Path) -> str:
    """Return the architecture that a build names; else the newest that nvcc compiles for."""
    found = re.search(r"\b(?:sm|compute)_(\d+[af]?)\b", " ".join(words))
    return f"sm_{found[1]}" if found else supported_archs(nvcc)[-1]


def _named(spec: Spec, compiler: str | None) -> NamedFlags | None:
    return next((n for n in spec.named_flags if n.compiler == compiler), None)


def _fitted(spec: Spec, named: NamedFlags, probed: ProbedCompiler | None) -> Spec:
    """Return the narrowed space; its notices say which flags were removed, and why."""
    catalogue = catalogue_of(named.compiler)
    ask = None if probed is None else partial(answers, probed)
    known = resolve(catalogue, named.selection, ask, linked=named.linked)
    parameters = tuple(
        _narrowed(p, known.declarations.get(p.name))
        if p.compiler == named.compiler and p.name in catalogue.flags
        else p
        for p in spec.parameters
    )
    others = tuple(notice for notice in spec.notices if notice.compiler != named.compiler)
    left = {p.name: p.values for p in parameters if p.compiler == named.compiler}
    baselines = tuple(
        b for b in spec.baselines if all(value in left.get(n, (value,)) for n, value in b.values)
    )
    return dataclasses.replace(
        spec,
        parameters=parameters,
        baselines=baselines,
        notices=(*others, *(Notice(named.compiler, text) for text in known.notices)),
    )


def _narrowed(parameter: Parameter, known: Declaration | None) -> Parameter:
    """Return the flag with only the accepted values; without a declaration only the default."""
    values: tuple[Value, ...] = (parameter.default,)
    if known is not None:
        left = known.get("values", parameter.values)
        values = tuple(v for v in parameter.values if v == parameter.default or v in left)
    return dataclasses.replace(parameter, values=values)
