"""Load a space from a file, or build it in Python."""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeGuard

from harness.core.errors import UsageError
from harness.core.files import CACHE_ADVICE, cache_folder, write_file
from harness.core.text import kind_of, nearest
from harness.space_file import Spec, load_spec, make_spec

_WORDS = {"cuda": re.compile(r"\b__global__\b"), "opencl": re.compile(r"\b(__)?kernel\b")}
"""What only the sources of a language have."""


def load_space(path: str | Path) -> Spec:
    """Read and check a space file (YAML); raises SpecError with every fault and its line."""
    return load_spec(Path(path))


def make_space(*, folder: str | Path = ".", **keys: Any) -> Spec:
    """Build a space from the keys of a space file (docs/reference/space.md).

    Paths are relative to `folder`. In Python these are allowed as well:

    - `kernel["source"]`, or a source of one language, may be the text of the kernel.
    - `kernel["host"]` may be a module, the functions `[arguments, reference]`, or a mapping of
      names to functions and constants, and so may `kernel["python"]`, with `build` as well.
      Functions are copied, with what they use and their decorators, into a file that the
      measuring process imports.
    - A parameter may be a list of values; its first value is the default.
    - `inputs` may be a mapping of features to values, for all combinations, or any iterable of
      mappings.

    Raises SpecError with every fault, each behind the keys that lead to it.
    """
    for key, shaped in (("kernel", _kernel), ("parameters", _parameters), ("inputs", _inputs)):
        if key in keys:
            keys[key] = shaped(keys[key])
    return make_spec(keys, Path(folder))


# -------------------------------------------------------------------------------- the kernel


def _kernel(kernel: object) -> object:
    """Put texts of the source and functions of the host into files of the cache."""
    if not isinstance(kernel, Mapping):
        return kernel
    shaped = dict(kernel)
    source = kernel.get("source")
    if _is_text(source):
        source = dict.fromkeys(_languages(source), source)
    if isinstance(source, Mapping):
        shaped["source"] = {language: _source(text, language) for language, text in source.items()}
    for key in ("host", "python"):
        if key in kernel:
            shaped[key] = _host(kernel[key], key)
    return shaped


def _source(text: object, language: str) -> object:
    """Return the path of a source, whose text is written to the cache."""
    name = "kernel.cu" if language == "cuda" else "kernel.cl"
    return _cached(text, name) if _is_text(text) else text


def _is_text(source: object) -> TypeGuard[str]:
    """Say whether a source is a text, not the name of a file."""
    return isinstance(source, str) and ("\n" in source or "{" in source)


def _languages(source: str) -> list[str]:
    """Return the languages that a text is written in; one with neither's words may be both."""
    languages = [language for language, words in _WORDS.items() if words.search(source)]
    return languages or list(_WORDS)


_HOST_NAMES = (
    "arguments",
    "reference",
    "launches",
    "arrange",
    "observe",
    "INOUT",
    "SCRATCH",
    "CONSTANT",
    "FRAMEWORK",
    "build",
)


def _host(host: object, key: str) -> object:
    """Return the path of a host module; functions are written to one in the cache."""
    named = f"kernel.{key}"
    if isinstance(host, ModuleType):
        if host.__file__ is None:
            raise UsageError(f"{named}: the module {host.__name__} has no file")
        return str(Path(host.__file__).resolve())
    if isinstance(host, Mapping):
        for name in host:
            near = nearest(str(name), _HOST_NAMES)
            if name not in _HOST_NAMES and near is not None:
                raise UsageError(f"{named}: `{name}` is no name here; did you mean `{near}`?")
        members = host
    elif isinstance(host, (list, tuple)):
        for member in host:
            if not inspect.isfunction(member):
                raise UsageError(
                    f"{named}: lists functions such as [arguments, reference], but holds "
                    f"{kind_of(member)}; to give other names or constants, use a mapping"
                )
        members = {member.__name__: member for member in host}
    else:
        return host
    return _cached(host_text(members, named), f"{key}.py")


def _cached(text: str, name: str) -> str:
    """Return the path of a file of the cache with this text, the same for the same text."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = cache_folder("python") / digest / name
    if not path.is_file():
        write_file(path, text, parents=True, advice=CACHE_ADVICE)
    return str(path.resolve())


# ------------------------------------------------------------------------ parameters and inputs


def _parameters(parameters: object) -> object:
    """Complete parameters that are given as lists of values."""
    if not isinstance(parameters, Mapping):
        return parameters
    shaped = dict(parameters)
    for name, values in parameters.items():
        if isinstance(values, Iterable) and not isinstance(values, (Mapping, str)):
            listed = list(values)
            shaped[name] = {"values": listed}
            if listed:
                shaped[name]["default"] = listed[0]
    return shaped


def _inputs(inputs: object) -> object:
    """Return the `features` and `values` of inputs that are given in another way."""
    if isinstance(inputs, Mapping):
        if {"features", "values", "ranges"} & set(inputs):
            return inputs
        features = list(inputs)
        combined = itertools.product(*map(_listed, inputs.values()))
        values = (dict(zip(features, point, strict=True)) for point in combined)
        return {"features": features, "values": values}
    if isinstance(inputs, str) or not isinstance(inputs, Iterable):
        return inputs
    listed = iter(inputs)
    first = list(itertools.islice(listed, 1))
    features = list(first[0]) if first and isinstance(first[0], Mapping) else []
    return {"features": features, "values": itertools.chain(first, listed)}


def _listed(values: object) -> list[object]:
    """Return the values of a feature; one alone is a list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return [values]
    return list(values)


_ADVICE = "or write the functions to a file, and give its path instead"


def host_text(members: Mapping[str, object], key: str = "kernel.host") -> str:
    """Return the text of a module that defines these functions and constants by their names.

    `key` is that of the kernel. Raises UsageError for what cannot be copied: a function without
    source or with variables of a function around it, and a value that is not plain data.
    """
    copier = _Copier({f.__module__ for f in map(_undecorated, members.values()) if f is not None})
    for name, member in members.items():
        copier.add(name, member, key)
    return copier.text


class _Copier:
    """Collects the text of functions and of what they use."""

    def __init__(self, modules: set[str]) -> None:
        """`modules` are those whose functions are copied; others are imported."""
        self._modules = modules
        self._imports: list[str] = ["from __future__ import annotations\n"]
        self._constants: list[str] = []
        self._functions: list[str] = []
        self._added: dict[str, object] = {}

    @property
    def text(self) -> str:
        """The module's text."""
        parts = ("".join(self._imports), "".join(self._constants), *self._functions)
        return "\n\n".join(part for part in parts if part)

    def add(self, name: str, value: object, used_by: str) -> None:
        """Add a name and what its value needs, once."""
        if name in self._added:
            if self._added[name] is not value:
                raise UsageError(f"{used_by}: two files define `{name}`; rename one, {_ADVICE}")
            return
        self._added[name] = value
        function = _undecorated(value)
        if isinstance(value, ModuleType):
            self._imports.append(f"import {value.__name__} as {name}\n")
        elif function is not None and function.__module__ in self._modules:
            self._add_function(name, value, function, used_by)
        elif _is_importable(value):
            imported = getattr(value, "__name__", "")
            self._imports.append(f"from {value.__module__} import {imported} as {name}\n")
        else:
            self._constants.append(f"{name} = {_literal(name, value, used_by)}\n")

    def _add_function(self, name: str, value: object, function: FunctionType, used_by: str) -> None:
        defined = function.__name__
        if name != defined:
            self.add(defined, value, used_by)
            self._functions.append(f"{name} = {defined}\n")
            return
        text, tree = _source_of(function, used_by)
        if function is not value and not tree.decorator_list:
            raise UsageError(
                f"{used_by}: `{name}` was made of {name}() by a call; write that as a decorator of "
                f"{name}(), {_ADVICE}"
            )
        for used in _names_in(function, tree):
            if used != name and used in function.__globals__:
                self.add(used, function.__globals__[used], f"{name}()")
        self._functions.append(text)


def _undecorated(value: object) -> FunctionType | None:
    """Return a function, or the one that Numba, Triton, Warp or functools has wrapped."""
    for name in ("py_func", "fn", "func", "__wrapped__"):
        if hasattr(value, name):
            value = getattr(value, name)
            break
    return value if isinstance(value, FunctionType) else None


def _source_of(function: FunctionType, used_by: str) -> tuple[str, ast.FunctionDef]:
    """Return a function's source, with its decorators, and its syntax tree."""
    name = function.__name__
    try:
        text = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        raise UsageError(f"{used_by}: the source of `{name}` is not known; {_HOW}") from None
    if not isinstance(tree, ast.FunctionDef):
        raise UsageError(f"{used_by}: `{name}` is not a plain function (`def`); {_HOW}")
    if function.__closure__:
        outer = ", ".join(function.__code__.co_freevars)
        raise UsageError(
            f"{used_by}: {name}() uses {outer} of the function around it; pass plain functions, "
            f"{_ADVICE}"
        )
    return text, tree


_HOW = f"define it with `def` in a notebook's cell or a script, {_ADVICE}"


def _names_in(function: FunctionType, tree: ast.FunctionDef) -> Iterable[str]:
    """Return the global names that a function reads, also for its defaults and decorators, which
    may read annotations; else these stay text.

    The compiler knows which names are local: one of them may be that of a notebook's variable.
    """
    parts: list[ast.AST] = [*tree.decorator_list, *tree.args.defaults]
    parts += filter(None, tree.args.kw_defaults)
    if tree.decorator_list:
        parts.append(tree.args)
    names = [n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)]
    return dict.fromkeys([*names, *_globals_of(function.__code__)])


def _globals_of(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_of(inner)


def _is_importable(value: object) -> bool:
    """Say whether a function or class can be imported from its module by its name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return False
    return getattr(sys.modules.get(module), name, None) is value


def _literal(name: str, value: object, used_by: str) -> str:
    """Return the text of plain data."""
    text = repr(value)
    try:
        if ast.literal_eval(text) == value:
            return text
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    raise UsageError(
        f"{used_by} uses `{name}`, {kind_of(value)}, which cannot be "
        f"copied to the process that measures; make it inside the function, {_ADVICE}"
    )
