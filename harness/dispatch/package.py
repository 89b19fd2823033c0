"""Write a dispatcher as a folder of files that need nothing but a compiler or Python.

    NAME.h                the choice for C and C++, but of a Python callable
    NAME/NAME.json        the choice as data
    NAME/__init__.py      the choice for Python, which reads it, and load()
    NAME/_opencl.py       what load() returns: builds, launches (or _cuda.py, _python.py)
    NAME/_trying.py       beside it: what both share; tries shortlists where that is asked for
    NAME/_pocl_cpu.py     beside _opencl.py: lets PoCL build on processors newer than its LLVM
    NAME/_expressions.py  beside it: evaluates conditions and launch sizes
    NAME/_workload.py     counts the calls by their inputs, where that is asked for
    NAME/torch_op.py      makes operators of PyTorch
    NAME/kernels/         what each configuration is launched from
    NAME/programs/        in place of kernels: the program of each configuration
    NAME/tables/          the choice as vLLM reads it, where that is asked for
    NAME/flag_files/      the files that flags of configurations pass to the compiler
    NAME/_command.py      the launcher of a program: it finds the features of an input, and runs
                          what was chosen, as G-ADAPT selects among versions of whole programs
                          (Liu et al., IPDPS 2009)
    NAME/__main__.py      starts it: `python NAME ARGUMENTS`
    dispatch.json         the files written here, with their digests

The folder is written next to its final place and then renamed, so that nobody finds half of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType

from harness.core.config_diff import difference
from harness.core.errors import BuildFailed, ExpressionError, UsageError
from harness.core.files import check_writable, write_folder
from harness.core.kernel_name import plain_name
from harness.core.machine import usable_cores
from harness.core.program import PYTHON, Binary, Program
from harness.core.records import Config, Environment, Input, Value
from harness.dispatch.c_code import c_header
from harness.dispatch.choice import Choice, DispatchProgram
from harness.dispatch.dispatcher import Dispatcher, KernelFile, Provenance
from harness.dispatch.document import document_text
from harness.dispatch.features import features_of
from harness.dispatch.guards import check_exact
from harness.dispatch.matrix import Matrix
from harness.measure.builds.queue import BuildQueue
from harness.measure.cuda.cubin import kernel_symbol
from harness.measure.opencl import pocl_cpu
from harness.measure.programs.building import backend_of, command_build
from harness.models.columns import tuned_range
from harness.source.inlining import inlined
from harness.space import ConstrainedSpace
from harness.space.constrained import make_program
from harness.space_file import ProgramPlan, Spec
from harness.space_file.program import LISTS, SOURCE, CommandLine, names_of

MANIFEST = "dispatch.json"
_ADVICE = "name another folder with -o"

_LOADERS = Path(__file__).parent / "loaders"
_MODULES = {
    "__init__.py": "runtime",
    "_expressions.py": "expressions",
    "_workload.py": "workload",
    "torch_op.py": "torch_op",
}
_OF_BACKEND = {
    "opencl": (_LOADERS / "opencl.py", Path(pocl_cpu.__file__)),
    "cuda": (_LOADERS / "cuda.py",),
    "command": (_LOADERS / "command.py",),
    PYTHON: (_LOADERS / "python.py",),
}
_IMPORT = re.compile(r"^from harness\.[\w.]*?(\w+) import", re.MULTILINE)

_MAIN = '''\
"""Run {name} on an input: `python {name} ARGUMENTS`."""

import importlib.util
import sys
from pathlib import Path

# Under another name: a space may be called like a module of Python's, which the loader imports.
_folder = Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location("dispatched", _folder / "__init__.py")
_module = importlib.util.module_from_spec(_spec)
_module.__path__ = [str(_folder)]
sys.modules["dispatched"] = _module
_spec.loader.exec_module(_module)
_module.load().execute(sys.argv[1:])
'''

_NOWHERE = Provenance(
    Environment("", "", "", "", ""), "", (), 0, "", "", ()
)  # for programs that are only checked


def write_dispatcher(
    out: Path, dispatcher: Dispatcher, tables: Mapping[str, bytes] = MappingProxyType({})
) -> list[Path]:
    """Write a dispatcher into a folder, and return the files; `tables` are those of another format,
    by their names. A dispatcher's folder is replaced.

    Raises UsageError if the folder holds anything else, and ExpressionError for a constraint or
    launch size that cannot be written exactly.
    """
    files, name = files_of(dispatcher), dispatcher.name
    files |= {f"{name}/tables/{file}": content for file, content in tables.items()}
    executables = [file for file in files if file.startswith(f"{name}/programs/")]
    out = Path(os.path.realpath(out))
    check_folder(out)
    digests = {file: _digest(content) for file, content in files.items()}
    files[MANIFEST] = f"{json.dumps({'dispatcher_files_sha256': digests}, indent=4)}\n".encode()
    write_folder(out, files, executables=executables, advice=_ADVICE)
    return [out / file for file in files]


def check_candidates(
    matrix: Matrix, constraints: Sequence[str], spec: Spec, limits: Mapping[str, int]
) -> None:
    """Raise now what `write_dispatcher` would raise whatever is learnt: ExpressionError for
    constraints and launch sizes that cannot be written exactly for any candidate, UsageError for
    features."""
    refused: list[ExpressionError] = []
    choice, tuned = Choice.in_order(1), tuned_range(matrix.features)
    for config in matrix.candidates if len(matrix.features) else ():
        program = DispatchProgram((), tuned, (config,), choice, (tuple(constraints),))
        try:
            made = dispatcher_of(program, spec, _NOWHERE, (), limits)
            _ = made.guards, made.sizes
            sizes = [e.text for part in spec.launch.sizes for e in part] if spec.launch else []
            check_exact([*constraints, *sizes], {**made.constants, **config}, matrix.features)
            return
        except ExpressionError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def dispatcher_of(
    program: DispatchProgram,
    spec: Spec,
    provenance: Provenance,
    kernels: Sequence[KernelFile] = (),
    limits: Mapping[str, int] = MappingProxyType({}),
    launcher: CommandLine | None = None,
) -> Dispatcher:
    """Make the dispatcher of a space.

    `kernels` are those of the candidates; without them only the choice is written. `limits` are the
    device's numbers that launch sizes may name (`DeviceLimits.names()`).
    """
    return Dispatcher(
        name=spec.name,
        title=spec.title,
        functions=tuple(map(plain_name, spec.functions)),
        features=features_of(program, spec.features, spec.inputs),
        program=program,
        provenance=provenance,
        launch=spec.launch,
        constants={p.name: p.default for p in spec.parameters} | dict(limits),
        kernels=tuple(kernels),
        flag_files=tuple(dict.fromkeys(f for c in program.portfolio for f in spec.files_of(c))),
        launcher=launcher,
    )


def files_of(dispatcher: Dispatcher) -> dict[str, bytes]:
    """Return the content of each file, by its path in the folder."""
    name, backend = dispatcher.name, dispatcher.provenance.environment.backend
    modules = _module_files(backend if dispatcher.has_loader else "")
    files = {} if backend == PYTHON else {f"{name}.h": c_header(dispatcher).encode()}
    files |= {
        f"{name}/{name}.json": document_text(dispatcher).encode(),
        **{f"{name}/{file}": content for file, content in modules.items()},
    }
    if dispatcher.launcher is not None:
        files[f"{name}/__main__.py"] = _MAIN.format(name=name).encode()
    folder = f"{name}/{dispatcher.item}s"
    files |= {f"{folder}/{kernel.name}": kernel.content for kernel in dispatcher.kernels}
    passed = dispatcher.flag_files
    return files | {f"{name}/flag_files/{file.mark}": file.read() for file in passed}


def _module_files(backend: str) -> dict[str, bytes]:
    """Return the content of a dispatcher's modules, by the names in its folder: what chooses, what
    counts its calls, what makes operators of PyTorch, and the loader of a backend with what it
    imports."""
    paths = {file: _LOADERS / f"{name}.py" for file, name in _MODULES.items()}
    beside = (*_OF_BACKEND.get(backend, ()), _LOADERS / "trying.py")
    paths |= {f"_{path.name}": path for path in beside}
    texts = {file: path.read_text(encoding="utf-8") for file, path in paths.items()}
    return {file: _IMPORT.sub(r"from ._\1 import", text).encode() for file, text in texts.items()}


def check_folder(out: Path) -> None:
    """Raise UsageError if a folder holds anything that a person put there or changed, lies within
    a dispatcher's folder, or cannot be written."""
    outer = next((above for above in out.absolute().parents if (above / MANIFEST).exists()), None)
    if outer is not None:
        raise UsageError(f"{out} is inside {outer}, a dispatcher's folder; name another")
    check_writable(out, _ADVICE, parents=True)
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder; {_ADVICE}")
    known = {}
    with suppress(OSError, ValueError, LookupError, TypeError):  # of something else
        known = dict(json.loads((out / MANIFEST).read_bytes())["dispatcher_files_sha256"])
    for path in out.rglob("*"):
        name = path.relative_to(out).as_posix()
        is_ours = path.is_dir() or path.parent.name == "__pycache__" or (known and name == MANIFEST)
        if path.is_symlink() or not (is_ours or known.get(name) == _digest(path.read_bytes())):
            raise UsageError(
                f"{out} is replaced only if it holds a dispatcher as it was written, but {name} is "
                "not part of one, or was changed; move it away, or name another folder with -o"
            )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def opencl_kernels(spec: Spec, program: DispatchProgram) -> tuple[KernelFile, ...]:
    """Make the source of each candidate, with its parameters and all included files, and its build
    options; raises BuildFailed where a source has changed since the spec was read."""
    return tuple(
        KernelFile(f"{index}.cl", inlined(built).encode(), built.options)
        for index, built in enumerate(_programs(spec, program, "opencl", "opencl"))
    )


def python_kernels(spec: Spec, program: DispatchProgram) -> tuple[KernelFile, ...]:
    """Return the module of a Python callable, which builds each candidate."""
    return (KernelFile(spec.host.name, spec.host_text.encode()),) * len(program.portfolio)


def cuda_kernels(
    spec: Spec, program: DispatchProgram, build: Callable[[Program], Binary]
) -> tuple[KernelFile, ...]:
    """Make the cubin of each candidate; `build` compiles one, such as `Nvcc(arch).compile`.

    Raises what `build` does, and BuildFailed where a kernel is not in its cubin.
    """
    files = []
    for index, source in enumerate(_programs(spec, program, "cuda", "nvcc")):
        cubin = build(source).data
        try:
            symbols = tuple(kernel_symbol(cubin, name) for name in spec.functions)
        except LookupError as error:
            raise BuildFailed(str(error)) from None
        files.append(KernelFile(f"{index}.cubin", cubin, source.options, symbols))
    return tuple(files)


def _programs(
    spec: Spec, program: DispatchProgram, language: str, compiler: str
) -> Iterator[Program]:
    space = ConstrainedSpace(spec.tuned_for(compiler))
    for config in program.portfolio:
        yield make_program(spec, space, config, language)


# ---------------------------------------------------------------------------- programs

_MOST_NAME = 80
_NO_INPUT = Input({})


def program_files(spec: Spec, program: DispatchProgram) -> tuple[KernelFile, ...]:
    """Make the file that each configuration runs: a build, from the build cache where it is there,
    or the source of a program that is not built; none if `run` names neither.

    Several programs are built at once. Raises BackendUnavailable without the compiler, and
    BuildFailed.
    """
    backend = backend_of(spec)
    plan = backend.plan
    if not plan.build:
        return _sources(plan, program)
    used = names_of(plan.build)
    built = [p for p in spec.tuned_for(backend.compiler) if p.role == "flag" or p.name in used]
    defaults = {parameter.name: parameter.default for parameter in built}
    space = ConstrainedSpace(spec.tuned_for(backend.compiler))
    device, identity = backend.device_here, backend.identity
    builds = [command_build(spec, space, config, _NO_INPUT, device) for config in program.portfolio]
    names: dict[str, str] = {}
    files = []
    with closing(BuildQueue(backend, identity, at_once=usable_cores())) as queue:
        for build in builds:
            queue.start(build)
        contents: dict[str, bytes] = {}
        for index, (config, build) in enumerate(zip(program.portfolio, builds, strict=True)):
            key = build.key(identity)
            names.setdefault(key, _file_name(index, config, defaults))
            if key not in contents:
                try:
                    contents[key] = queue.finish(build).data
                except BuildFailed as error:
                    raise BuildFailed(f"({config}) does not build: {error}") from None
            files.append(KernelFile(names[key], contents[key], build.options))
    return tuple(files)


def _file_name(index: int, config: Config, defaults: Mapping[str, Value]) -> str:
    """Name a program by its number and its changes from the default: `2-TILE=16-level=3`."""
    own = Config({name: value for name, value in config.items() if name in defaults})
    words = re.sub(r"[^A-Za-z0-9_.=+]+", "-", difference(own, defaults)).strip("-")
    name = f"{index}-{words}"
    return name if len(name) <= _MOST_NAME else name[:_MOST_NAME].rpartition("-")[0]


def _sources(plan: ProgramPlan, program: DispatchProgram) -> tuple[KernelFile, ...]:
    if not names_of(plan.run) & {SOURCE, *LISTS} or len(plan.sources) != 1:
        return ()
    path = plan.sources[0].path
    file = KernelFile(path.name, path.read_bytes())
    return (file,) * len(program.portfolio)
