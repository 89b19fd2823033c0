"""Remove from a space the flags that an installed compiler refuses.

Such a flag stays in the space with `absent` as its only value, so that it is not tuned: constraints
may still name it, and measurements are filed as before.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from harness.core.program import Binary, Program, family
from harness.core.records import Value
from harness.measure.backends.cuda_compilers import NVRTC, name_of
from harness.measure.backends.nvcc import find_nvcc, supported_archs
from harness.measure.flags.probe import ProbedBackend, ProbedCommand, ProbedCompiler, answers
from harness.space_file import Notice, Parameter, ProgramPlan, Spec
from harness.space_file.flag_expansion import NamedFlags
from harness.space_file.flags.catalogue import COMPILERS, catalogue_of
from harness.space_file.flags.model import ANY_FILE, Setting
from harness.space_file.flags.resolve import Declaration, resolve


def fitted_to_backend(
    spec: Spec, compiler: str, arch: str | None, identity: str, build: Callable[[Program], Binary]
) -> Spec:
    """Return the space with the flags that a backend's compiler accepts.

    `arch` is the architecture that nvcc and NVRTC compile for; None for OpenCL. `build` compiles
    for OpenCL and with NVRTC. Raises BackendUnavailable where the compiler refuses even an empty
    program.
    """
    if not _is_probed(spec, compiler):
        return spec
    if arch is not None and name_of(identity) != NVRTC:
        return _fitted(spec, compiler, ProbedCommand(compiler, find_nvcc(), arch))
    return _fitted(spec, compiler, ProbedBackend(compiler, identity, build))


def fitted_to_program(spec: Spec) -> Spec:
    """Return the space with the flags that the compiler of its program accepts.

    Keeps all flags, with a notice, where the build does not begin with that compiler, so that it
    cannot be probed.
    """
    compiler = spec.program_compiler
    if spec.program is None or compiler is None or not _is_probed(spec, compiler):
        return spec
    return _fitted(spec, compiler, _probed(spec.program, compiler))


def _probed(plan: ProgramPlan, compiler: str) -> ProbedCompiler | None:
    words = [word for template in plan.build for word in shlex.split(template.text)]
    if plan.shell or not words or family(Path(words[0]).name) != family(compiler):
        return None
    first = (
        words[0] if words[0] == Path(words[0]).name else str((plan.folder / words[0]).absolute())
    )
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


def _is_probed(spec: Spec, compiler: str) -> bool:
    """Whether some flags of a compiler depend on what it knows, and harness can ask it."""
    if _named(spec, compiler) is not None:
        return True
    return family(compiler) in COMPILERS and any(_flags_of_files(spec, compiler))


def _named(spec: Spec, compiler: str) -> NamedFlags | None:
    return next((n for n in spec.named_flags if n.compiler == compiler), None)


def _flags_of_files(spec: Spec, compiler: str) -> Iterator[Parameter]:
    """Yield the flags of a compiler whose values are files."""
    for parameter in spec.parameters:
        texts = {value for value in parameter.values if isinstance(value, str)}
        if parameter.compiler == compiler and texts & spec.flag_files.keys():
            yield parameter


def _fitted(spec: Spec, compiler: str, probed: ProbedCompiler | None) -> Spec:
    """Return the narrowed space; its notices say which flags were removed, and why."""
    named = _named(spec, compiler)
    fitted = spec if named is None else _with_known_flags(spec, named, probed)
    return fitted if probed is None else _without_unread_files(fitted, compiler, probed)


def _with_known_flags(spec: Spec, named: NamedFlags, probed: ProbedCompiler | None) -> Spec:
    """Keep of the flags that are named from a catalogue those that the compiler knows."""
    catalogue = catalogue_of(named.compiler)
    ask = None if probed is None else partial(answers, probed)
    known = resolve(catalogue, named.selection, ask, linked=named.linked)
    narrowed = {
        p.name: _narrowed(p, known.declarations.get(p.name))
        for p in spec.parameters
        if p.compiler == named.compiler and p.name in catalogue.flags
    }
    others = tuple(n for n in spec.notices if n.lasting or n.compiler != named.compiler)
    spec = dataclasses.replace(spec, notices=others)
    return _with_flags(spec, named.compiler, narrowed, known.notices)


def _without_unread_files(spec: Spec, compiler: str, probed: ProbedCompiler) -> Spec:
    """Remove the flags whose files the compiler does not read.

    Measurements show what it makes of each file.
    """
    asked = {p.name: Setting(_spelled(p, ANY_FILE)) for p in _flags_of_files(spec, compiler)}
    said = answers(probed, list(asked.values())) if asked else {}
    narrowed, notices = dict[str, Parameter](), list[str]()
    for flag in list(_flags_of_files(spec, compiler)):
        reason = said[asked[flag.name]]
        if reason is not None:
            narrowed[flag.name] = _narrowed(flag, None)
            spelled = " ".join(_spelled(flag, "FILE"))
            text = f"`{flag.name}` is left out: the compiler refuses {spelled}: {reason}"
            notices.append(text)
    return _with_flags(spec, compiler, narrowed, notices)


def _spelled(flag: Parameter, path: str) -> tuple[str, ...]:
    return tuple(word.replace("{value}", path) for word in (flag.option or "").split())


def _with_flags(
    spec: Spec, compiler: str, narrowed: Mapping[str, Parameter], notices: Iterable[str]
) -> Spec:
    """Return the space with narrowed flags of a compiler, and without baselines that set others."""
    parameters = tuple(
        narrowed.get(p.name, p) if p.compiler == compiler else p for p in spec.parameters
    )
    left = {p.name: p.values for p in parameters if p.compiler == compiler}
    baselines = tuple(
        b for b in spec.baselines if all(value in left.get(n, (value,)) for n, value in b.values)
    )
    return dataclasses.replace(
        spec,
        parameters=parameters,
        baselines=baselines,
        notices=(*spec.notices, *(Notice(compiler, text) for text in notices)),
    )


def _narrowed(parameter: Parameter, known: Declaration | None) -> Parameter:
    """Return the flag with only the accepted values; without a declaration only the default."""
    values: tuple[Value, ...] = (parameter.default,)
    if known is not None:
        left = known.get("values", parameter.values)
        values = tuple(v for v in parameter.values if v == parameter.default or v in left)
    return dataclasses.replace(parameter, values=values)
