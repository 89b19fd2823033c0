"""The Python file beside a kernel: its arguments for an input, and what they must give.

A host module defines

    arguments(features, rng) -> dict of numpy arrays and numpy scalars, in the kernel's order
    reference(arguments) -> dict of the expected arrays, by argument name: the outputs

and, where a kernel reads and overwrites the same array, INOUT = ("name", ...): such arrays
are restored before every launch. It is a person's own code and runs as such; reference() gets
the arguments read-only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.backends.base import Argument
from harness.errors import HostModuleError
from harness.records import Input
from harness.verify import COMPARABLE, never_right

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One input made concrete: the arguments, the expected outputs, what a launch overwrites."""

    arguments: Mapping[str, Argument]
    expected: Mapping[str, Array]
    inout: tuple[str, ...]

    def before_first(self) -> dict[str, Array]:
        """What every output holds before the verified launch: in-out arrays their own content,
        the others what is right nowhere, so that an element never written shows."""
        return self.restored() | {
            name: never_right(expected, self._array(name).dtype)
            for name, expected in self.expected.items()
            if name not in self.inout
        }

    def restored(self) -> dict[str, Array]:
        """The original content of what the kernel reads and overwrites."""
        return {name: self._array(name) for name in self.inout}

    def _array(self, name: str) -> Array:
        return np.asarray(self.arguments[name])


def make_case(path: Path, given: Input, seed: int = 0) -> Case:
    """Run a host module for an input; equal inputs and seeds give equal data.

    Raises HostModuleError for whatever is wrong with the module or with what it returns.
    """
    module = _module(path)
    digest = hashlib.sha256(f"{seed}:{given.json}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    arguments = _called(path, given, "arguments", module.arguments, dict(given), rng)
    for name, value in arguments.items():
        _check_argument(path, name, value)
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    expected = _called(path, given, "reference", module.reference, dict(arguments))
    arrays = {name: np.asarray(value) for name, value in expected.items()}
    for name, array in arrays.items():
        _check_expected(path, name, array, arguments)
    return Case(arguments, arrays, _inout(path, module, arguments))


def _inout(path: Path, module: ModuleType, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    names = getattr(module, "INOUT", ())
    if not isinstance(names, (tuple, list)):
        raise HostModuleError(f'{path}: INOUT must be a tuple such as ("y",), but got {names!r}')
    for name in names:
        if not isinstance(arguments.get(name), np.ndarray):
            raise HostModuleError(f"{path}: INOUT names `{name}`, which is no array argument")
    return tuple(names)


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"harness_host_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise HostModuleError(f"{path}: is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their own module up by its name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise HostModuleError(f"{path}: {_told(path, error)}") from error
    for name in ("arguments", "reference"):
        if not callable(getattr(module, name, None)):
            raise HostModuleError(f"{path}: must define the function `{name}`")
    return module


def _called(path: Path, given: Input, name: str, function: Any, *values: Any) -> dict[str, Any]:
    try:
        result = function(*values)
    except (Exception, SystemExit) as error:
        text = f"{name}() raised {_told(path, error)} on the input ({given})"
        raise HostModuleError(f"{path}: {text}") from error
    if not isinstance(result, dict) or not result:
        kind = type(result).__name__
        raise HostModuleError(f"{path}: {name}() must return a dict of arrays, but got {kind}")
    return result


def _told(path: Path, error: BaseException) -> str:
    """The error, and the line of the host module where it came up."""
    line, trace, own = 0, error.__traceback__, path.resolve()
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).resolve() == own:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}" + (f" (line {line})" if line else "")


def _check_argument(path: Path, name: str, value: Any) -> None:
    if not isinstance(value, (np.ndarray, np.generic)):
        raise HostModuleError(
            f"{path}: arguments() gives `{name}` the type {type(value).__name__}; use numpy "
            "arrays, and numpy scalars such as np.int32(n), whose width the kernel expects"
        )
    if value.dtype.kind not in COMPARABLE + "V" or not value.dtype.isnative:
        raise HostModuleError(
            f"{path}: arguments() gives `{name}` the dtype {value.dtype}, which no kernel reads; "
            "use numbers, or structures of numbers, in the machine's byte order"
        )
    if isinstance(value, np.ndarray) and (value.size == 0 or not value.flags.c_contiguous):
        raise HostModuleError(
            f"{path}: the array `{name}` is empty or not contiguous; pass a C-contiguous copy"
        )


def _check_expected(path: Path, name: str, expected: Array, arguments: Mapping[str, Any]) -> None:
    argument = arguments.get(name)
    if not isinstance(argument, np.ndarray):
        there = ", ".join(k for k, v in arguments.items() if isinstance(v, np.ndarray))
        raise HostModuleError(
            f"{path}: reference() gives `{name}`, which is no array argument; there are {there}"
        )
    if expected.shape != argument.shape:
        raise HostModuleError(
            f"{path}: reference() gives `{name}` the shape {expected.shape}, but the "
            f"argument has {argument.shape}"
        )
    for array in (expected, argument):
        if array.dtype.kind not in COMPARABLE:
            raise HostModuleError(
                f"{path}: the output `{name}` has the dtype {array.dtype}; only numbers can be "
                "compared"
            )
