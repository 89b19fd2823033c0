"""Remove from a space the flags that an installed compiler refuses.

The compiler is probed: it builds an empty program with each setting. Its answers are stored by its
identity. A flag that it refuses stays in the space with `absent` as its only value, so that it is
not tuned: constraints may still name it, and measurements are filed as before.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from harness.core.cache import Cache, content_key
from harness.core.errors import BackendUnavailable, BuildFailed
from harness.core.machine import find_program
from harness.core.program import Binary, Program, family
from harness.core.records import Value, shown
from harness.measure.builds.messages import conflicts
from harness.measure.cuda.gpus import NVRTC, name_of
from harness.measure.cuda.nvcc import ENVIRONMENT, find_nvcc, run_in_group, supported_archs
from harness.space_file import Notice, Parameter, Spec
from harness.space_file.baselines import Baseline
from harness.space_file.flags import NO_FLAG
from harness.space_file.flags.catalogue import catalogue_of

TIMEOUT_S = 60.0

# The empty program of each language. With PTX, nvcc's driver and ptxas check a setting without the
# front end, which takes twenty times as long.
_PTX = ".version {version}\n.target {target}\n.address_size 64\n.visible .entry f() {{ ret; }}\n"
_CUDA = "__global__ void f(int *x) { *x = 1; }\n"
_MAIN = "int main(void) { return 0; }\n"
_C = "int f(int *x, int n) { int s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }\n"
_OPENCL = "__kernel void f(__global int *x) { x[get_global_id(0)] = 1; }\n"
_STATUS = re.compile(r"\A\w+ ended with status \d+\n")  # what the compiler printed follows
_OF_BACKENDS = {"opencl": _OPENCL, "nvcc": _CUDA}


# ------------------------------------------------------------------------------ the space


class Setting(NamedTuple):
    """The words of a command line that set one flag to one value.

    What it does shows only when a program is `linked`, or in every build.
    """

    words: tuple[str, ...]
    linked: bool = False


def fitted_to_backend(
    spec: Spec, compiler: str, arch: str | None, identity: str, build: Callable[[Program], Binary]
) -> Spec:
    """Return the space with the flags that a backend's compiler accepts.

    `arch` is the architecture that nvcc and NVRTC compile for; None for OpenCL. `build` compiles
    for OpenCL and with NVRTC. Raises BackendUnavailable where the compiler refuses even an empty
    program.
    """
    if compiler not in spec.selected_flags:
        return spec
    if arch is not None and name_of(identity) != NVRTC:
        return _without_refused(spec, compiler, ProbedCommand(compiler, find_nvcc(), arch))
    return _without_refused(spec, compiler, _ProbedBackend(compiler, identity, build))


def fitted_to_program(spec: Spec) -> Spec:
    """Return the space with the flags that the compiler of its program accepts.

    Keeps all flags, with a notice, where the build does not begin with that compiler, so that it
    cannot be probed.
    """
    compiler = spec.program_compiler or ""
    plan = spec.program
    if plan is None or compiler not in spec.selected_flags or not plan.build:
        return spec
    words = [template.text for template in plan.build]
    path = find_program(words[0], plan.folder)
    if family(Path(words[0]).name) != family(compiler) or path is None:
        return spec
    arch = None
    if family(compiler) == "nvcc":
        # The architecture that the build names, else the newest that nvcc compiles for.
        named = re.search(r"\b(?:sm|compute)_(\d+[af]?)\b", " ".join(words))
        arch = f"sm_{named[1]}" if named else supported_archs(Path(path))[-1]
    return _without_refused(spec, compiler, ProbedCommand(compiler, Path(path), arch))


def _without_refused(spec: Spec, compiler: str, probed: _ProbedCompiler) -> Spec:
    """Return the space without the values that a compiler refuses of the flags that are selected
    from its catalogue, and without the baselines that set these; its notices say what was refused.

    Of a range, only the ends are tried; where one is refused, the flag is left out.
    """
    selected = spec.selected_flags[compiler].values
    flags = catalogue_of(compiler).flags
    tuned = {p.name: p for p in spec.parameters if p.compiler == compiler}
    settings: dict[tuple[str, Value], Setting] = {}
    for name, values in selected.items():
        is_linked = flags[name].needs == "linking"
        if isinstance(values, range):
            values = (values[0], values[-1])
        for value in values:
            settings[name, value] = Setting(tuned[name].options(value), is_linked)
    said = answers(probed, list(settings.values()))
    refused: dict[str, dict[Value, str]] = {}
    for (name, value), setting in settings.items():
        message = said[setting]
        if message is not None:
            refused.setdefault(name, {})[value] = message
    texts: list[str] = []
    left_out = 0
    for name, messages in refused.items():
        flag = tuned[name]
        accepted = [value for value in flag.values if value not in messages]
        values = selected[name]
        if isinstance(values, range) or len(messages) == len(values):
            accepted = [flag.default]
            left_out += 1
            value, message = next(iter(messages.items()))
            spelled = " ".join(flag.options(value))
            texts.append(f"`{name}` is left out: the compiler refuses {spelled}: {message}")
        else:
            for value, message in messages.items():
                texts.append(f"`{name}` is left without {shown(value)}: {message}")
        tuned[name] = replace(flag, values=tuple(accepted))
    if 0 < left_out == len(tuned):
        texts.append(NO_FLAG)
    parameters: list[Parameter] = []
    for parameter in spec.parameters:
        if parameter.compiler == compiler:
            parameter = tuned[parameter.name]
        parameters.append(parameter)
    baselines = [baseline for baseline in spec.baselines if _is_left(baseline, tuned)]
    notices = [n for n in spec.notices if n.lasting or n.compiler != compiler]
    notices += [Notice(compiler, text) for text in texts]
    return replace(
        spec,
        parameters=tuple(parameters),
        baselines=tuple(baselines),
        notices=tuple(notices),
    )


def _is_left(baseline: Baseline, tuned: Mapping[str, Parameter]) -> bool:
    """Say whether the flags still have the values that a baseline sets."""
    return all(value in tuned[name].values for name, value in baseline.values if name in tuned)


# ------------------------------------------------------------------------------ the compiler


class _ProbedCompiler(Protocol):
    """A compiler that can be probed: `at_once` settings at a time.

    `identity` is the key of its answers: compilers with different identities share none.
    """

    identity: str
    at_once: int

    def try_out(self, setting: Setting) -> str | None:
        """Build an empty program with a setting; return what the compiler prints where it refuses
        or ignores it."""


class ProbedCommand:
    """gcc, clang or nvcc as a program on this machine; `compiler` is the name in its catalogue.

    `arch` is the architecture that nvcc compiles for, such as `sm_90`. Raises BackendUnavailable
    where the program cannot be run.
    """

    at_once = os.cpu_count() or 1

    def __init__(self, compiler: str, executable: Path, arch: str | None = None) -> None:
        self._compiler = family(compiler)
        self._executable = executable.absolute()  # it runs in another folder
        self._arch = arch
        _, version = _output([str(self._executable), "--version"], Path.cwd())
        digest = hashlib.sha256(self._executable.read_bytes()).hexdigest()
        obeyed = [os.environ.get(name) for name in ENVIRONMENT]
        self.identity = f"{compiler} {arch} {digest} {obeyed} {version}"

    def try_out(self, setting: Setting) -> str | None:
        with tempfile.TemporaryDirectory(prefix="harness-flags-") as name:
            folder = Path(name)
            written = self._written(setting, folder)
            status, output = _output([str(self._executable), *setting.words, *written], folder)
        ignored = conflicts(self._compiler, output)
        if ignored:
            return ignored[0]
        return None if status == 0 else _first_line(output)

    def _written(self, setting: Setting, folder: Path) -> list[str]:
        """Write an empty program; return the words that build it."""
        if self._arch is None:
            (folder / "empty.c").write_text(_C + _MAIN)
            language = "c++" if self._compiler.endswith("++") else "c"
            kind = ["-o", "empty"] if setting.linked else ["-S", "-o", "empty.s"]
            return ["-x", language, "empty.c", *kind]
        arch = f"-arch={self._arch}"
        if setting.linked:
            (folder / "empty.cu").write_text(_CUDA + _MAIN)
            return [arch, "-rdc=true", "empty.cu", "-o", "empty"]
        # Every ptxas since 10.0 reads version 6.3; older architectures need 6.0.
        text = _PTX.format(version="6.3", target="sm_75")
        if int(re.sub(r"\D", "", self._arch) or 0) < 75:
            text = _PTX.format(version="6.0", target=self._arch)
        (folder / "empty.ptx").write_text(text)
        return [arch, "-cubin", "empty.ptx", "-o", "empty.cubin"]


class _ProbedBackend:
    """The compiler of a backend, such as OpenCL's for one device, or NVRTC for flags of nvcc.

    `build` builds a program, in another process where a driver's compiler may crash; `identity`
    is the compiler's own. A driver may not support several builds at a time.
    """

    at_once = 1

    def __init__(self, name: str, identity: str, build: Callable[[Program], Binary]) -> None:
        self._name = name
        self._build = build
        self.identity = f"{name} {identity}"

    def try_out(self, setting: Setting) -> str | None:
        try:
            self._build(Program(_OF_BACKENDS[self._name], setting.words, ()))
        except BuildFailed as error:
            ignored = conflicts(self._name, str(error))
            return ignored[0] if ignored else _first_line(_STATUS.sub("", str(error), count=1))
        return None


def _first_line(output: str) -> str:
    """Return the first line that has a text."""
    lines = (line.strip() for line in output.splitlines())
    return next(filter(None, lines), "refused without a message")


def answers(compiler: _ProbedCompiler, settings: Sequence[Setting]) -> dict[Setting, str | None]:
    """Return for each setting why the compiler refuses or ignores it; None where it obeys it.

    Raises BackendUnavailable where the compiler refuses even a program without any flag.
    """
    key = content_key("flags", compiler.identity, settings)
    return Cache.of_user().recall(key, partial(_asked, compiler, settings))


def _asked(compiler: _ProbedCompiler, settings: Sequence[Setting]) -> dict[Setting, str | None]:
    reason = compiler.try_out(Setting(())) if settings else None
    if reason is not None:
        raise BackendUnavailable(
            f"the compiler refuses an empty program, so its flags cannot be probed: {reason}. "
            "Repair it, or declare the flags one by one"
        )
    with ThreadPoolExecutor(compiler.at_once) as pool:
        return dict(zip(settings, pool.map(compiler.try_out, settings), strict=True))


def _output(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run a command; return its exit status and output. Raises BackendUnavailable."""
    try:
        status, output = run_in_group(command, folder, TIMEOUT_S)
    except OSError as error:
        raise BackendUnavailable(f"{command[0]} cannot be probed for its flags: {error}") from None
    if status is None:
        raise BackendUnavailable(f"{command[0]} did not end within {TIMEOUT_S:g} s")
    return status, output
