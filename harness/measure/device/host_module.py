"""The Python file next to a kernel, which makes its arguments and the expected outputs.

A host module defines

    arguments(features, rng) -> dict of numpy arrays and numpy scalars, in the kernel's order
    reference(arguments) -> dict of the expected output arrays, by argument name

and, where a kernel reads and overwrites the same array, INOUT = ("name", ...): such arrays
are restored before every run. SCRATCH = ("name", ...) names the arrays that a run writes and
reads again, and whose content means nothing before and after it. A run may write no other arrays
than these and the outputs. Where it takes several launches (`launch: host` in the space),

    launches(arguments, config) -> Launch and Read objects, one after the other

and, where the layout of the data depends on the configuration,

    arrange(arguments, config) -> dict of the arrays with another layout than in arguments()

and, where more is known of a configuration than its time,

    observe(config) -> dict of numbers by name, kept with every measurement of it

It is the user's own code, and runs without a sandbox. Its arguments are read-only, and harness
records which parameters it reads.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from harness.core.errors import HostModuleError
from harness.core.modules import load_module, shown_path
from harness.core.program import Argument, Read
from harness.core.program import Launch as Launch
from harness.core.records import Config, Input, Value
from harness.measure.device.verify import Array, is_comparable

Arguments = Mapping[str, Argument]
Steps = Generator[Launch | Read, Array | None, None]


class HostModule:
    """A loaded host module; every mistake in it is raised as a HostModuleError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._module = load_host(path, "harness_host", ("arguments", "reference"))

    def arguments(self, problem: Input, rng: np.random.Generator) -> dict[str, Argument]:
        """Return the checked, read-only arguments of an input."""
        arguments = self._dict("arguments", f"on the input ({problem})", dict(problem), rng)
        for name, value in arguments.items():
            self._check_argument("arguments", name, value)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        return arguments

    def reference(self, problem: Input, arguments: Arguments) -> dict[str, Array]:
        """Return the checked expected outputs of an input with these arguments."""
        returned = self._dict("reference", f"on the input ({problem})", dict(arguments))
        if not returned:
            raise self._fault("reference() must return a dict of arrays, but it is empty")
        expected = {name: np.asarray(value) for name, value in returned.items()}
        for name, array in expected.items():
            self._check_expected(name, array, arguments)
        return expected

    def inout(self, arguments: Arguments) -> tuple[str, ...]:
        """Return the checked names of the arguments that a run reads and overwrites."""
        return self._names("INOUT", arguments)

    def scratch(self, arguments: Arguments, outputs: Mapping[str, Array]) -> tuple[str, ...]:
        """Return the checked names of the arguments whose content outside of a run is nothing."""
        names = self._names("SCRATCH", arguments)
        for name in names:
            if name in outputs or name in self._names("INOUT", arguments):
                other = "reference() returns" if name in outputs else "INOUT names"
                raise self._fault(
                    f"SCRATCH names `{name}`, which {other} too; name it in one of them alone"
                )
        return names

    def constants(self, arguments: Arguments, writable: Collection[str]) -> tuple[str, ...]:
        """Return the checked names of the arguments that fill variables of a CUDA module."""
        names = self._names("CONSTANT", arguments)
        written = sorted(set(names) & set(writable))
        if written:
            raise self._fault(
                f"CONSTANT names `{written[0]}`, which a run may write: it is an output, or INOUT "
                "or SCRATCH names it too"
            )
        return names

    def _names(self, what: str, arguments: Arguments) -> tuple[str, ...]:
        names = getattr(self._module, what, ())
        if not isinstance(names, (tuple, list)):
            raise self._fault(f'{what} must be a tuple such as ("y",), but got {names!r}')
        for name in names:
            if not isinstance(arguments.get(name), np.ndarray):
                raise self._fault(f"{what} names `{name}`, which is no array argument")
        return tuple(names)

    def launches(
        self, arguments: Arguments, config: TrackedConfig, functions: Sequence[str]
    ) -> Steps:
        """Yield the checked steps of launches()."""
        where = f"with ({config.untracked})"
        steps = self._called("launches", where, dict(arguments), config)
        if not isinstance(steps, Iterable):
            kind = type(steps).__name__
            raise self._fault(f"launches() must yield Launch and Read objects, but got {kind}")
        iterator = iter(steps)
        answer: Array | None = None
        launched = False
        while True:
            try:
                step = iterator.send(answer) if isinstance(iterator, Generator) else next(iterator)
            except StopIteration:
                break
            except (Exception, SystemExit) as error:
                raise self._raised("launches", error, where) from error
            self._check_step(step, arguments, functions)
            launched = launched or isinstance(step, Launch)
            answer = yield step
        if not launched:
            raise self._fault(f"launches() yielded no Launch {where}")

    def arrange(
        self, arguments: Arguments, config: TrackedConfig, outputs: frozenset[str]
    ) -> dict[str, Array]:
        """Return the checked arrays of arrange(); none where the module does not define it."""
        arranged: dict[str, Array] = {}
        if not hasattr(self._module, "arrange"):
            return arranged
        where = f"with ({config.untracked})"
        for name, array in self._dict("arrange", where, dict(arguments), config).items():
            argument = arguments.get(name)
            if not isinstance(argument, np.ndarray):
                raise self._fault(f"arrange() returns `{name}`, which is no array argument")
            if name in outputs:
                raise self._fault(
                    f"arrange() returns `{name}`, which is verified: an output has the layout that "
                    "reference() returns"
                )
            self._check_argument("arrange", name, array)
            if array.size != argument.size or array.dtype != argument.dtype:
                raise self._fault(
                    f"arrange() returns `{name}` with another size or dtype than arguments(), "
                    f"{argument.dtype}{list(argument.shape)}; make it there as large as it may get"
                )
            # The same bytes in the shape that the device has bound.
            arranged[name] = array.reshape(argument.shape)
        return arranged

    def observe(self, config: Config) -> dict[str, float]:
        """Return the checked numbers of observe(); none where the module does not define it."""
        observed: dict[str, float] = {}
        if not hasattr(self._module, "observe"):
            return observed
        returned = self._dict("observe", f"with ({config})", TrackedConfig(config))
        for name, value in returned.items():
            if type(value) not in (int, float) or not math.isfinite(value):
                raise self._fault(f"observe() returns `{name}` as {value!r}; use finite numbers")
            observed[str(name)] = float(value)
        return observed

    # ------------------------------------------------------------- calling the module

    def _called(self, name: str, where: str, *values: object) -> Any:
        function = getattr(self._module, name, None)
        if not callable(function):
            raise self._fault(f"must define the function `{name}`")
        try:
            return function(*values)
        except (Exception, SystemExit) as error:
            raise self._raised(name, error, where) from error

    def _dict(self, name: str, where: str, *values: object) -> dict[str, Any]:
        result = self._called(name, where, *values)
        if not isinstance(result, dict):
            raise self._fault(f"{name}() must return a dict, but got {type(result).__name__}")
        return result

    def _raised(self, name: str, error: BaseException, where: str) -> HostModuleError:
        described = describe_error(error, self._path, f"{name}() raised ")
        return HostModuleError(f"{described} {where}")

    def _fault(self, text: str) -> HostModuleError:
        return HostModuleError(f"{shown_path(self._path)}: {text}")

    # --------------------------------------------------------- checking what it returns

    def _check_argument(self, function: str, name: str, value: object) -> None:
        if not isinstance(value, (np.ndarray, np.generic)):
            raise self._fault(
                f"{function}() returns `{name}` with the type {type(value).__name__}; use numpy "
                "arrays, and numpy scalars such as np.int32(n), whose width the kernel expects"
            )
        is_number = is_comparable(value.dtype)
        if not (is_number or value.dtype.kind == "V") or not value.dtype.isnative:
            raise self._fault(
                f"{function}() returns `{name}` with the dtype {value.dtype}, which no kernel "
                "reads; use numbers, or structures of numbers, in the machine's byte order"
            )
        if isinstance(value, np.ndarray) and (value.size == 0 or not value.flags.c_contiguous):
            raise self._fault(
                f"{function}() returns `{name}` as an array that is empty or not contiguous; pass "
                "a C-contiguous copy (np.ascontiguousarray)"
            )

    def _check_expected(self, name: str, expected: Array, arguments: Mapping[str, Any]) -> None:
        argument = arguments.get(name)
        if not isinstance(argument, np.ndarray):
            there = ", ".join(k for k, v in arguments.items() if isinstance(v, np.ndarray))
            raise self._fault(
                f"reference() returns `{name}`, which is no array argument; there are {there}"
            )
        if expected.shape != argument.shape:
            raise self._fault(
                f"reference() returns `{name}` with the shape {expected.shape}, but the "
                f"argument has {argument.shape}"
            )
        for array in (expected, argument):
            if not is_comparable(array.dtype):
                raise self._fault(
                    f"the output `{name}` has the dtype {array.dtype}; only numbers can be compared"
                )

    def _check_step(self, step: object, arguments: Arguments, functions: Sequence[str]) -> None:
        """Raise unless a step is a Launch or a Read of known functions and arguments."""
        if isinstance(step, Launch):
            if step.function not in functions:
                there = f"kernel.function of the space lists {', '.join(functions)}"
                raise self._fault(f"launches() launches `{step.function}`, but {there}")
            names = [name for name in step.arguments if not isinstance(name, np.generic)]
        elif isinstance(step, Read):
            names = [step.name]
        else:
            kind = type(step).__name__
            raise self._fault(f"launches() must yield Launch and Read objects, but got {kind}")
        for name in names:
            if name not in arguments:
                there = ", ".join(arguments)
                raise self._fault(f"launches() names `{name}`, but the arguments are {there}")
        if isinstance(step, Read) and not isinstance(arguments[step.name], np.ndarray):
            raise self._fault(f"launches() reads `{step.name}`, which is no array")


def load_host(path: Path, prefix: str, functions: Sequence[str]) -> ModuleType:
    """Load a person's file that defines these functions; raises HostModuleError."""
    try:
        module = load_module(path, prefix)
    except (Exception, SystemExit) as error:
        raise HostModuleError(describe_error(error, path)) from error
    if module is None:
        raise HostModuleError(f"{path}: is not a Python file")
    for name in functions:
        if not callable(getattr(module, name, None)):
            raise HostModuleError(f"{shown_path(path)}: must define the function `{name}`")
    return module


def describe_error(error: BaseException, path: Path, what: str = "") -> str:
    """Return the error behind the file and the line that raised it, and `what` before the error.

    In a copy of functions the lines have other numbers: the text of the line stands behind.
    """
    name = shown_path(path)
    steps = traceback.extract_tb(error.__traceback__)
    lines = [step for step in steps if Path(step.filename).resolve() == path.resolve()]
    described = f"{what}{type(error).__name__}: {error}"
    if not lines:
        return f"{name}: {described}"
    if name != str(path):
        return f"{name}: {described}, at `{lines[-1].line}`"
    return f"{name}:{lines[-1].lineno}: {described}"


class TrackedConfig(Mapping[str, Value]):
    """A configuration for host modules; `read` holds the names of the parameters that they read.

    Two configurations that agree in all of these are the same to the module. It is no subclass of
    dict, since eval() and others read a dict without its methods.
    """

    def __init__(self, config: Config) -> None:
        self.untracked = config
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Value:
        self.read.add(str(name))  # even if missing here: another configuration may have it
        return self.untracked[name]

    def __iter__(self) -> Iterator[str]:
        self.read.update(self.untracked)
        return iter(self.untracked)

    def __len__(self) -> int:
        self.read.update(self.untracked)
        return len(self.untracked)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self) | dict(other)

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return dict(other) | dict(self)

    def copy(self) -> dict[str, Value]:
        """Return a dict to change."""
        return dict(self)
