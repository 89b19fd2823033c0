"""Load a space from a file, or build it in Python."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

from harness.api.host_text import host_text
from harness.core.errors import UsageError
from harness.core.files import CACHE_ADVICE, cache_folder, write_file
from harness.core.text import nearest
from harness.space_file import Spec, load_spec, make_spec

_CUDA, _OPENCL = re.compile(r"\b__global__\b"), re.compile(r"\b(__)?kernel\b")


def load_space(path: str | Path) -> Spec:
    """Read and check a space file (YAML); raises SpecError with every fault and its line."""
    return load_spec(Path(path))


def make_space(*, folder: str | Path = ".", **keys: Any) -> Spec:
    """Build a space from the keys of a space file (docs/reference/space.md).

    Paths are relative to `folder`. In Python these are allowed as well:

    - `kernel["source"]`, or a source of one language, may be the text of the kernel.
    - `kernel["host"]` may be a module, the functions `[arguments, reference]`, or a mapping of
      names to functions and constants. Functions are copied, with what they use, into a file that
      the measuring process imports.
    - A parameter may be a list of values; its first value is the default.
    - `inputs` may be a mapping of features to values, for all combinations, or any iterable of
      mappings.

    Raises SpecError with every fault, each behind the keys that lead to it.
    """
    shapes: dict[str, Callable[[Any], object]] = {
        "kernel": _kernel,
        "parameters": _parameters,
        "inputs": _inputs,
    }
    data = {key: shapes[key](v) if key in shapes else v for key, v in keys.items()}
    return make_spec(data, Path(folder))


# -------------------------------------------------------------------------------- the kernel


def _kernel(kernel: object) -> object:
    """Put texts of the source and functions of the host into files of the cache."""
    if not isinstance(kernel, Mapping):
        return kernel
    shaped = dict(kernel)
    source = kernel.get("source")
    if _is_text(source):
        languages = _languages(source)
        shaped["source"] = {language: _kept(source, _file(language)) for language in languages}
    elif isinstance(source, Mapping):
        shaped["source"] = {
            language: _kept(text, _file(language)) if _is_text(text) else text
            for language, text in source.items()
        }
    if "host" in kernel:
        shaped["host"] = _host(kernel["host"])
    return shaped


def _is_text(source: object) -> TypeGuard[str]:
    """Say whether a source is a text, not the name of a file."""
    return isinstance(source, str) and ("\n" in source or "{" in source)


def _languages(source: str) -> list[str]:
    """Return the languages that a text is written in; one with neither's words may be both."""
    is_cuda, is_opencl = bool(_CUDA.search(source)), bool(_OPENCL.search(source))
    return ["cuda"] * (is_cuda or not is_opencl) + ["opencl"] * (is_opencl or not is_cuda)


def _file(language: str) -> str:
    return "kernel.cu" if language == "cuda" else "kernel.cl"


_HOST_NAMES = (
    "arguments",
    "reference",
    "launches",
    "arrange",
    "observe",
    "INOUT",
    "SCRATCH",
    "CONSTANT",
)


def _host(host: object) -> object:
    """Return the path of a host module; functions are written to one in the cache."""
    if isinstance(host, ModuleType):
        if host.__file__ is None:
            raise UsageError(f"kernel.host: the module {host.__name__} has no file")
        return str(Path(host.__file__).resolve())
    if isinstance(host, Mapping):
        for name in host:
            near = nearest(str(name), _HOST_NAMES)
            if name not in _HOST_NAMES and near is not None:
                raise UsageError(f"kernel.host: `{name}` is no name here; did you mean `{near}`?")
        return _kept(host_text(host), "host.py")
    if isinstance(host, (list, tuple)):
        for member in host:
            if not inspect.isfunction(member):
                raise UsageError(
                    f"kernel.host: lists functions such as [arguments, reference], but holds "
                    f"an object of the type {type(member).__name__}; to give other names or "
                    "constants, use a mapping"
                )
        return _kept(host_text({member.__name__: member for member in host}), "host.py")
    return host


def _kept(text: str, name: str) -> str:
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
    return {name: _parameter(values) for name, values in parameters.items()}


def _parameter(values: object) -> object:
    if isinstance(values, (Mapping, str)) or not isinstance(values, Iterable):
        return values
    listed = _listed(values)
    return {"values": listed, "default": listed[0]} if listed else {"values": listed}


def _inputs(inputs: object) -> object:
    """Return the `features` and `values` of inputs that are given in another way."""
    if isinstance(inputs, Mapping):
        if {"features", "values", "ranges"} & set(inputs):
            return inputs
        every = [_listed(values) for values in inputs.values()]
        features = list(inputs)
        combined = itertools.product(*every)
        values = (dict(zip(features, each, strict=True)) for each in combined)
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
