"""Remove from a space the flags that an installed compiler refuses.

The compiler is probed: it builds an empty program with each setting. Its answers are kept by its
identity. A flag that it refuses stays in the space with `absent` as its only value, so that it is
not tuned: constraints may still name it, and measurements are filed as before.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from harness.core.cache import Cache, content_key
from harness.core.errors import BackendUnavailable, BuildFailed
from harness.core.machine import find_program
from harness.core.program import Binary, Program, family
from harness.core.records import Value, shown
from harness.measure.builds.messages import conflicts
from harness.measure.cuda.gpus import NVRTC, name_of
from harness.measure.cuda.nvcc import ENVIRONMENT, find_nvcc, run_in_group, supported_archs
from harness.space_file import Notice, Parameter, ProgramPlan, Spec
from harness.space_file.flags import NO_FLAG, SelectedFlags
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

    def probed() -> _ProbedCompiler:
        if arch is not None and name_of(identity) != NVRTC:
            return ProbedCommand(compiler, find_nvcc(), arch)
        return _ProbedBackend(compiler, identity, build)

    return _fitted(spec, compiler, probed)


def fitted_to_program(spec: Spec) -> Spec:
    """Return the space with the flags that the compiler of its program accepts.

    Keeps all flags, with a notice, where the build does not begin with that compiler, so that it
    cannot be probed.
    """
    compiler, plan = spec.program_compiler, spec.program
    if plan is None or compiler is None:
        return spec
    return _fitted(spec, compiler, partial(_probed, plan, compiler))


def _probed(plan: ProgramPlan, compiler: str) -> _ProbedCompiler | None:
    words = [template.text for template in plan.build]
    if not words or family(Path(words[0]).name) != family(compiler):
        return None
    path = find_program(words[0], plan.folder)
    if path is None:
        return None
    executable = Path(path)
    arch = _arch(words, executable) if family(compiler) == "nvcc" else None
    return ProbedCommand(compiler, executable, arch)


def _arch(words: list[str], nvcc: Path) -> str:
    """Return the architecture that a build names; else the newest that nvcc compiles for."""
    match = re.search(r"\b(?:sm|compute)_(\d+[af]?)\b", " ".join(words))
    return f"sm_{match[1]}" if match else supported_archs(nvcc)[-1]


def _fitted(spec: Spec, compiler: str, open_compiler: Callable[[], _ProbedCompiler | None]) -> Spec:
    """Return the space without the catalogue's flags that its compiler does not know; its notices
    say which were removed, and why. The compiler is opened where harness can ask it.
    """
    selected = spec.selected_flags.get(compiler)
    probed = None if selected is None else open_compiler()
    if selected is None or probed is None:
        return spec
    return _with_known_flags(spec, compiler, selected, probed)


def _with_known_flags(
    spec: Spec, compiler: str, selected: SelectedFlags, probed: _ProbedCompiler
) -> Spec:
    """Keep of the flags that are selected from a catalogue those that the compiler knows, and of
    the baselines those that set no other; of a range, only its ends are tried."""
    flags = catalogue_of(compiler).flags
    tuned = {p.name: p for p in spec.parameters if p.compiler == compiler}
    asked = {
        name: {
            value: Setting(tuned[name].options(value), flags[name].needs == "linking")
            for value in ((values[0], values[-1]) if isinstance(values, range) else values)
        }
        for name, values in selected.values.items()
    }
    said = answers(probed, [setting for tried in asked.values() for setting in tried.values()])
    accepted, notices = dict[str, Sequence[Value]](), list[str]()
    for name, values in selected.values.items():
        refused = {v: message for v, s in asked[name].items() if (message := said[s]) is not None}
        if not refused:
            accepted[name] = values
        elif isinstance(values, range) or len(refused) == len(values):
            value, message = next(iter(refused.items()))
            spelled = " ".join(tuned[name].options(value))
            notices.append(f"`{name}` is left out: the compiler refuses {spelled}: {message}")
        else:
            accepted[name] = tuple(value for value in values if value not in refused)
            for value, message in refused.items():
                notices.append(f"`{name}` is left without {shown(value)}: {message}")
    if asked and not accepted and tuned.keys() == asked.keys():
        notices.append(NO_FLAG)
    narrowed = {name: _narrowed(tuned[name], accepted.get(name, ())) for name in asked}
    parameters = tuple(
        narrowed.get(p.name, p) if p.compiler == compiler else p for p in spec.parameters
    )
    left = {p.name: p.values for p in parameters if p.compiler == compiler}
    baselines = tuple(
        b for b in spec.baselines if all(value in left.get(n, (value,)) for n, value in b.values)
    )
    others = (n for n in spec.notices if n.lasting or n.compiler != compiler)
    return dataclasses.replace(
        spec,
        parameters=parameters,
        baselines=baselines,
        notices=(*others, *(Notice(compiler, text) for text in notices)),
    )


def _narrowed(parameter: Parameter, accepted: Sequence[Value]) -> Parameter:
    """Return the flag with only the accepted values and its default."""
    values = tuple(v for v in parameter.values if v == parameter.default or v in accepted)
    return dataclasses.replace(parameter, values=values)


# ------------------------------------------------------------------------------ the compiler


class _ProbedCompiler(ABC):
    """A compiler that can be probed: `at_once` settings at a time.

    `identity` is the key of its answers: compilers with different identities share none.
    """

    identity: str
    at_once = 1

    @abstractmethod
    def refusal(self, setting: Setting, folder: Path) -> str | None:
        """Build an empty program in a folder with a setting; return what the compiler prints where
        it refuses or ignores it."""

    def try_out(self, setting: Setting) -> str | None:
        """Return why the compiler refuses or ignores the setting; None where it obeys it."""
        with tempfile.TemporaryDirectory(prefix="harness-flags-") as folder:
            reason = self.refusal(setting, Path(folder))
        if reason is None:
            return None
        lines = (line.strip() for line in reason.splitlines())
        return next(filter(None, lines), "refused without a message")


class ProbedCommand(_ProbedCompiler):
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

    def refusal(self, setting: Setting, folder: Path) -> str | None:
        """Run the compiler on an empty program."""
        written = self._nvcc(setting, folder) if self._arch else self._c(setting, folder)
        status, output = _output([str(self._executable), *setting.words, *written], folder)
        lines = conflicts(self._compiler, output)
        if lines:
            return lines[0]
        return None if status == 0 else output

    def _c(self, setting: Setting, folder: Path) -> list[str]:
        """Write an empty program; return the words that build it."""
        language = "c++" if self._compiler.endswith("++") else "c"
        (folder / "empty.c").write_text(_C + _MAIN)
        kind = ["-o", "empty"] if setting.linked else ["-S", "-o", "empty.s"]
        return ["-x", language, "empty.c", *kind]

    def _nvcc(self, setting: Setting, folder: Path) -> list[str]:
        """Write an empty program; return the words that build it."""
        arch = f"-arch={self._arch}"
        (folder / "empty.cu").write_text(_CUDA + _MAIN)
        if setting.linked:
            return [arch, "-rdc=true", "empty.cu", "-o", "empty"]
        (folder / "empty.ptx").write_text(_empty_ptx(self._arch or ""))
        return [arch, "-cubin", "empty.ptx", "-o", "empty.cubin"]


def _empty_ptx(arch: str) -> str:
    number = int(re.sub(r"\D", "", arch) or 0)
    # Every ptxas since 10.0 reads version 6.3; older architectures need 6.0.
    version, target = ("6.3", "sm_75") if number >= 75 else ("6.0", arch)
    return _PTX.format(version=version, target=target)


class _ProbedBackend(_ProbedCompiler):
    """The compiler of a backend, such as OpenCL's for one device, or NVRTC for flags of nvcc.

    `build` builds a program, in another process where a driver's compiler may crash; `identity`
    is the compiler's own. A driver may not support several builds at a time.
    """

    def __init__(self, name: str, identity: str, build: Callable[[Program], Binary]) -> None:
        self._name = name
        self._build = build
        self.identity = f"{name} {identity}"

    def refusal(self, setting: Setting, folder: Path) -> str | None:
        """Build an empty program."""
        try:
            self._build(Program(_OF_BACKENDS[self._name], setting.words, ()))
        except BuildFailed as error:
            lines = conflicts(self._name, str(error))
            return lines[0] if lines else _STATUS.sub("", str(error), count=1)
        return None


def answers(compiler: _ProbedCompiler, settings: Sequence[Setting]) -> dict[Setting, str | None]:
    """Return for each setting why the compiler refuses or ignores it; None where it obeys it.

    Raises BackendUnavailable where the compiler refuses even a program without any flag.
    """
    different = list(dict.fromkeys(settings))
    key = content_key("flags", compiler.identity, different)
    return Cache.of_user().recall(key, partial(_asked, compiler, different))


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
