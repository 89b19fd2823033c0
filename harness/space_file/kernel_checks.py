"""Check the kernel of a space: its sources, its host module, and that parameters are used."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.constraints.expression import Expression
from harness.core.errors import SpecError
from harness.core.files import nearest_file
from harness.core.kernel_name import plain_name, words_of
from harness.core.modules import shown_path, with_imports
from harness.core.program import PYTHON
from harness.core.records import shown
from harness.core.text import suggestion
from harness.source.kernel_source import Source, read_source, read_text
from harness.space_file.compiler import COMPILERS, CompilersModel, check_compiler_options
from harness.space_file.document import Document, Location
from harness.space_file.model import LaunchPlan, PythonSpaceFile, Sources, SpaceFile
from harness.space_file.parameters import Parameter


def kernel_parts(
    document: Document,
    model: SpaceFile,
    parameters: Sequence[Parameter],
    sizes: Sequence[Expression],
) -> dict[str, Any]:
    """Check what spaces of kernels have, with these launch sizes; return their fields of a spec.

    Raises SpecError.
    """
    check_compiler_options(document, model.compiler, model.parameters)
    sources = _sources(document, model)
    host = document.folder_of("kernel") / model.kernel.host
    module = read_module(document, ("kernel", "host"), host, ("arguments", "reference"))
    if module is not None:
        _check_launches(document, host, _defined_in(module[1]), model)
    launch = model.launch if isinstance(model.launch, LaunchPlan) else None
    for key, message in (
        ("cooperative", "OpenCL has no cooperative launches"),
        ("carveout", "OpenCL cannot prefer shared memory"),
    ):
        if "opencl" in sources and getattr(launch, key, None) not in (None, False):
            text = f"{message}: write `source: {{cuda: FILE}}` in kernel"
            document.fault(("launch", key), text)
    if document.faults or module is None:
        raise SpecError(document.faults)
    _check_use(document, model, parameters, sources, sizes, module[1])
    return {
        "launch": launch,
        "work": model.work,
        "sources": sources,
        "host": host,
        "host_text": module[0],
        "host_imports": _imports_of(document, ("kernel", "host"), host),
        "compilers": model.compiler,
    }


FRAMEWORKS = ("numpy", "numba", "torch", "cupy", "warp")
"""What FRAMEWORK may be: whose arrays a Python callable takes, and what compiles it."""


def python_parts(document: Document, model: PythonSpaceFile) -> dict[str, Any]:
    """Check the module of a Python callable, without running it; return the fields of a spec.

    Raises SpecError.
    """
    location: Location = ("kernel", "python")
    path = document.folder_of("kernel") / model.kernel.python
    read = read_module(document, location, path, ("build", "arguments", "reference"))
    if read is None:
        raise SpecError(document.faults)
    text, module = read
    file = shown_path(path)
    for name in sorted(_defined_in(module) & {"launches", "arrange", "CONSTANT"}):
        fault = f"{file} defines `{name}`, which is for kernels in CUDA and OpenCL; remove it"
        document.fault(location, fault)
    framework = _framework_in(module)
    if framework not in FRAMEWORKS:
        fault = f"{file} says FRAMEWORK = {framework!r}; expected one of {', '.join(FRAMEWORKS)}"
        document.fault(location, fault)
    imports = _imports_of(document, location, path)
    trees = [module, *map(ast.parse, imports.values())]
    words = frozenset[str]().union(*map(_texts_in, trees), *map(_names_in, trees))
    for name in (name for name in model.parameters if name not in words):
        fault = f"nothing uses it: `{name}` does not stand in {file}; read it in build(), or remove"
        document.fault(("parameters", name), f"{fault} it")
    return {
        "launch": LaunchPlan.model_validate({"group": [1], "grid": [1]}),
        "work": model.work,
        "sources": {PYTHON: Source(path, text, {})},
        "host": path,
        "host_text": text,
        "host_imports": imports,
        "framework": framework,
    }


def _framework_in(module: ast.Module) -> object:
    """Return the value of FRAMEWORK, which is a text; `numpy` where it is not set."""
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FRAMEWORK":
            return node.value.value if isinstance(node.value, ast.Constant) else None
    return "numpy"


def _names_in(module: ast.Module) -> frozenset[str]:
    """Return the names that a module uses: variables, parameters of functions, and keywords."""
    nodes = list(ast.walk(module))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    keywords = {node.arg or "" for node in nodes if isinstance(node, (ast.arg, ast.keyword))}
    return frozenset(names | keywords)


# -------------------------------------------------------------------------------------- files


def _sources(document: Document, model: SpaceFile) -> dict[str, Source]:
    """Read the sources by language, and note those that do not have the kernels."""
    folder = document.folder_of("kernel")
    named = {
        language: (location, folder / name, _include_folders(document, model.compiler, language))
        for language, (location, name) in _named_sources(model.kernel.source)
    }
    at: Location = ("kernel", "function")
    is_alone = isinstance(model.kernel.function, str)
    functions = [
        (at if is_alone else (*at, index), plain_name(name))
        for index, name in enumerate(model.functions)
    ]
    read = {place: _source(document, *place, functions) for place in dict.fromkeys(named.values())}
    return {language: source for language, place in named.items() if (source := read[place])}


def _include_folders(document: Document, model: CompilersModel, language: str) -> tuple[Path, ...]:
    """Return the include folders of a language, and note those that are no folders."""
    compiler, folder = COMPILERS[language], document.folder_of("compiler")
    folders = [folder / name for name in model.of(language).include]
    for index, path in enumerate(folders):
        if not path.is_dir():
            text = f"{path} is not a folder; paths are relative to the space file"
            document.fault(("compiler", compiler, "include", index), text)
    return tuple(path for path in folders if path.is_dir())


def _named_sources(source: str | Sources) -> Iterator[tuple[str, tuple[Location, str]]]:
    """Yield each language with the location and the name of its source file.

    One file is for both languages; its name says where it is for CUDA alone.
    """
    location: Location = ("kernel", "source")
    if isinstance(source, str):
        is_cuda = source.lower().endswith((".cu", ".cuh"))
        for language in ("cuda",) if is_cuda else ("cuda", "opencl"):
            yield language, (location, source)
        return
    for language, name in source:
        if name is not None:
            yield language, ((*location, language), name)


def _source(
    document: Document,
    location: Location,
    path: Path,
    folders: tuple[Path, ...],
    functions: Sequence[tuple[Location, str]],
) -> Source | None:
    try:
        source = read_source(path, folders)
    except (OSError, ValueError) as error:
        document.fault(location, f"{path} {reason(error, path)}")
        return None
    for where, word in functions:
        if not source.mentions(word):
            text = f"`{word}` does not occur in {path}; name the kernel as the source does"
            document.fault(where, text)
    return source


def reason(error: OSError | ValueError, path: Path) -> str:
    """Return why a file cannot be used, as text that follows its path."""
    if isinstance(error, FileNotFoundError):
        near = nearest_file(path)
        hint = f" (did you mean `{near}`?)" if near else ""
        return f"does not exist{hint}; paths are relative to the space file"
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)


def read_module(
    document: Document, location: Location, path: Path, needed: Sequence[str]
) -> tuple[str, ast.Module] | None:
    """Return the text and the syntax tree of a Python file, which is not run and must define the
    needed functions.

    Notes the faults; returns None where it cannot be read.
    """
    if path.suffix != ".py":
        document.fault(location, f"{path} is not a Python file; its name must end in .py")
        return None
    try:
        text = read_text(path)
        module = ast.parse(text)
    except SyntaxError as error:
        document.fault(location, f"{path}:{error.lineno or 1} is not Python: {error.msg}")
    except (RecursionError, MemoryError):
        document.fault(location, f"{path} is not Python: it is nested too deep")
    except (OSError, ValueError) as error:
        document.fault(location, f"{path} {reason(error, path)}")
    else:
        defined = _defined_in(module)
        for function in (function for function in needed if function not in defined):
            there = ", ".join(sorted(defined)) or "nothing"
            message = f"must define the function `{function}`, but defines {there}"
            document.fault(location, f"{shown_path(path)} {message}")
        return text, module
    return None


def _imports_of(document: Document, location: Location, path: Path) -> dict[Path, str]:
    """Return the files beside a module that it imports, directly or not, with their texts."""
    texts = {}
    for imported in with_imports(path)[1:]:
        read = read_module(document, location, imported, ())
        if read is not None:
            texts[imported] = read[0]
    return texts


def _check_launches(document: Document, path: Path, defined: set[str], model: SpaceFile) -> None:
    """Check that either the space gives launch sizes or the host module gives the launches."""
    location: Location = ("launch",)
    if model.launch == "host":
        if "launches" not in defined:
            text = f"`host` needs the function `launches` in {path}, which defines "
            document.fault(location, text + ", ".join(sorted(defined)))
        return
    if "launches" in defined:
        text = f"{path} defines launches(), which is only used with `launch: host`; "
        document.fault(location, text + "write that, or remove the function")
    if len(model.functions) > 1:
        text = "several kernels need `launch: host`, and launches() in the host module"
        document.fault(("kernel", "function"), text)


def _defined_in(module: ast.Module) -> set[str]:
    """Return the names that a module defines or imports at its top level."""
    names: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


# ---------------------------------------------------------------------------------------- use


def _check_use(
    document: Document,
    model: SpaceFile,
    parameters: Sequence[Parameter],
    sources: Mapping[str, Source],
    sizes: Iterable[Expression],
    host: ast.Module,
) -> None:
    """Check that tuning each parameter changes something: it occurs in a source, in a launch size
    or, as a text, in the host module that gives the launches, and nothing fixes its value."""
    used = {name for size in sizes for name in size.names}
    in_functions = frozenset[str]().union(*map(words_of, model.functions))
    used |= in_functions if "cuda" in sources else frozenset()
    from_host = model.launch == "host"
    used |= _texts_in(host) if from_host else frozenset()
    elsewhere = Path(model.kernel.host).name if from_host else "a launch size"
    there = ", ".join(sorted({source.path.name for source in sources.values()}))
    _check_template_names(document, parameters, sources.get("cuda"), in_functions)
    for parameter in parameters:
        name, location = parameter.name, ("parameters", parameter.name)
        in_source = any(source.uses(name) for source in sources.values())
        if parameter.role != "flag" and name not in used and not in_source:
            is_defined = any(source.mentions(name) for source in sources.values())
            where = (
                f"stands in {there} only where it is defined, or in comments"
                if is_defined
                else f"stands neither in {there} nor in {elsewhere}"
            )
            text = (
                f"nothing uses it: `{name}` {where}, so "
                "tuning it would change nothing; spell it as the source does, or remove it"
            )
            document.fault(location, text)
        for reason in dict.fromkeys(source.why_fixed(name) for source in sources.values()):
            if reason is not None:
                document.fault(location, f"cannot be tuned: {reason}")
    for source in {source.path: source for source in sources.values()}.values():
        _check_pragmas(document, source, {parameter.name: parameter for parameter in parameters})


def _check_template_names(
    document: Document,
    parameters: Sequence[Parameter],
    source: Source | None,
    in_functions: frozenset[str],
) -> None:
    """Check that no macro has the name of a template's parameter: it would break the template's
    head. A parameter in the kernel's name is no macro in the source."""
    declared = source.template_names if source is not None else frozenset()
    for name in sorted(declared - in_functions):
        if any(name == parameter.name for parameter in parameters if parameter.role != "flag"):
            text = (
                f"`{name}` is the name of a template's parameter in the CUDA source, which the "
                f"macro `{name}` would break; give the template its arguments in kernel.function, "
                f"such as `scale<{name}>`, or rename one of the two"
            )
            document.fault(("parameters", name), text)


def _check_pragmas(document: Document, source: Source, parameters: Mapping[str, Parameter]) -> None:
    """Check that no pragma has a typing error, since compilers would ignore it, and that the loops
    of each `#pragma tile` can be tiled, by whole sizes from 0."""
    faults = source.pragma_faults()
    document.faults += faults
    for nest in () if faults else source.nests:
        for size in sorted({loop.size for loop in nest.loops}):
            where = f"{source.path}:{nest.line}: `{size}` in `#pragma tile`"
            if size in parameters:
                wrong = _wrong_sizes(parameters[size])
                if wrong:
                    text = f"{where} needs sizes from 0 (not tiled), but has the value {wrong}"
                    document.fault(("parameters", size), text)
            elif not source.defines(size):
                hint = suggestion(size, parameters)
                text = f"{where} is neither a parameter nor a `#define`; {hint}"
                document.fault(("kernel", "source"), text)


def _wrong_sizes(parameter: Parameter) -> str:
    """Return the first value that is no size of a tile, as text; empty where there is none."""
    values = parameter.values
    listed = values[:1] if isinstance(values, range) else values
    return next((shown(v) for v in listed if type(v) is not int or v < 0), "")


def _texts_in(module: ast.Module) -> frozenset[str]:
    """Return the string constants of a host module, such as the "BLOCK" of `config["BLOCK"]`."""
    constants = (node.value for node in ast.walk(module) if isinstance(node, ast.Constant))
    return frozenset(value for value in constants if isinstance(value, str))
