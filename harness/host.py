"""The Python file beside a kernel: its arguments for an input, and what they must give.

A host module defines

    arguments(features, rng) -> dict of numpy arrays and numpy scalars, in the kernel's order
    reference(arguments) -> dict of the expected arrays, by argument name: the outputs

and, where a kernel reads and overwrites the same array, INOUT = ("name", ...): such arrays
are restored before every run. Where a run takes several launches (`launch: host` in the space),

    launches(arguments, config) -> Launch and Read objects, one after the other

and, where the configuration chooses how the data lie in memory,

    arrange(arguments, config) -> dict of the arrays that lie otherwise than in arguments()

and, where more is known of a configuration than its time,

    observe(config) -> dict of numbers by name, kept with every measurement of it

It is a person's own code and runs as such; what it is given is read-only, and which parameters
it asks for is noted.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from harness.backends.base import Argument
from harness.backends.base import Launch as Launch  # host modules take it from here
from harness.errors import HostModuleError, LaunchFailed
from harness.modules import load_module
from harness.records import Config, Input, Value
from harness.verify import COMPARABLE, never_right

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Read:
    """A step between launches: `array = yield Read("name")` gives launches() a copy of an array
    argument as it now is on the device, which may decide what is launched next."""

    name: str


Steps = Generator[Launch | Read, Array | None, None]


class WatchedConfig(Mapping[str, Value]):
    """A configuration as host modules get it, which adds what they ask for to `asked`.

    Two configurations that agree in all that was asked for are one to the module. No subclass of
    dict: what reads a dict past its methods, as eval() does, would not be noted.
    """

    def __init__(self, config: Config, asked: set[str]) -> None:
        self._config = config
        self._asked = asked

    def __getitem__(self, name: str) -> Value:
        self._asked.add(str(name))  # also where there is none: another configuration may have one
        return self._config[name]

    def __iter__(self) -> Iterator[str]:
        self._asked.update(self._config)
        return iter(self._config)

    def __len__(self) -> int:
        self._asked.update(self._config)
        return len(self._config)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self) | dict(other)

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return dict(other) | dict(self)

    def copy(self) -> dict[str, Value]:
        """A dict to change."""
        return dict(self)


@dataclass
class Case:
    """One input made concrete: the arguments, the expected outputs, what a run overwrites."""

    arguments: Mapping[str, Argument]
    expected: Mapping[str, Array]
    inout: tuple[str, ...]
    host: HostModule | None = None
    of_twin: dict[Hashable, Mapping[str, Array] | None] = field(default_factory=dict)
    """The outputs that harness.measure holds others against bit for bit, by what gave them."""
    _placed: dict[str, Array] = field(default_factory=dict)

    def launches(
        self, config: Config, functions: Sequence[str], asked: set[str] | None = None
    ) -> Steps:
        """The steps of one run, where the host module tells them; only these kernels are
        launched. What goes wrong is this configuration's LaunchFailed. The parameters that the
        module asks for are added to `asked`."""
        assert self.host is not None
        with _as_launch_failed():
            yield from self.host.launches(self.arguments, config, functions, asked)

    def arranged(self, config: Config, asked: set[str] | None = None) -> dict[str, Array]:
        """The arrays that lie otherwise under this configuration; raises LaunchFailed. The
        parameters that the module asks for are added to `asked`."""
        if self.host is None:
            return {}
        with _as_launch_failed():
            return self.host.arrange(self.arguments, config, frozenset(self.expected), asked)

    def observed(self, config: Config) -> dict[str, float]:
        """What the host module tells of a configuration beside its time; raises LaunchFailed."""
        if self.host is None:
            return {}
        with _as_launch_failed():
            return self.host.observe(config)

    def to_place(self, arranged: Mapping[str, Array], in_turn: bool) -> dict[str, Array]:
        """What must be written for the device to hold this arrangement and no other.

        Configurations that take turns all write whatever one of them arranges, before each
        run: else only some would start on data that were just written.
        """
        wanted = {name: self._array(name) for name in self._placed} | dict(arranged)
        moved = {
            name: array
            for name, array in wanted.items()
            if in_turn or self._placed.get(name, self._array(name)) is not array
        }
        self._placed.update(moved)
        return moved

    def bound_anew(self) -> None:
        """The device holds the arguments as arguments() gave them, and no arrangement."""
        self._placed.clear()

    def before_first(self, arranged: Mapping[str, Array]) -> dict[str, Array]:
        """What every output holds before a verified run: in-out arrays their own content,
        the others what is right nowhere, so that an element never written shows."""
        return self.restored(arranged) | {
            name: never_right(expected, self._array(name).dtype)
            for name, expected in self.expected.items()
            if name not in self.inout
        }

    def restored(self, arranged: Mapping[str, Array]) -> dict[str, Array]:
        """The original content of what the kernel reads and overwrites."""
        return {name: arranged.get(name, self._array(name)) for name in self.inout}

    def _array(self, name: str) -> Array:
        return cast(Array, self.arguments[name])


def _watched(config: Config, asked: set[str] | None) -> WatchedConfig:
    return WatchedConfig(config, set() if asked is None else asked)


@contextlib.contextmanager
def _as_launch_failed() -> Iterator[None]:
    try:
        yield
    except HostModuleError as error:
        raise LaunchFailed(str(error)) from error


def make_case(path: Path, given: Input, seed: int = 0) -> Case:
    """Run a host module for an input; equal inputs and seeds give equal data.

    Raises HostModuleError for whatever is wrong with the module or with what it returns.
    """
    host = HostModule(path)
    digest = hashlib.sha256(f"{seed}:{given.json}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    return host.case(given, rng)


class HostModule:
    """A person's module, loaded; whatever goes wrong in it is told as a HostModuleError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._module = self._loaded()

    def case(self, given: Input, rng: np.random.Generator) -> Case:
        """Arguments and reference of an input, checked."""
        where = f"on the input ({given})"
        arguments = self._dict("arguments", where, dict(given), rng)
        for name, value in arguments.items():
            self._check_argument("arguments", name, value)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        expected = self._dict("reference", where, dict(arguments))
        arrays = {name: np.asarray(value) for name, value in expected.items()}
        for name, array in arrays.items():
            self._check_expected(name, array, arguments)
        return Case(arguments, arrays, self._inout(arguments), self)

    def launches(
        self,
        arguments: Mapping[str, Argument],
        config: Config,
        functions: Sequence[str],
        asked: set[str] | None = None,
    ) -> Steps:
        """What launches() gives, step by step, each checked before it is taken."""
        where = f"with ({config})"
        steps = self._called("launches", where, dict(arguments), _watched(config, asked))
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
                raise self._fault(f"launches() raised {self._told(error)} {where}") from error
            self._check_step(step, arguments, functions)
            launched = launched or isinstance(step, Launch)
            answer = yield step
        if not launched:
            raise self._fault(f"launches() gave nothing to launch {where}")

    def arrange(
        self,
        arguments: Mapping[str, Argument],
        config: Config,
        outputs: frozenset[str],
        asked: set[str] | None = None,
    ) -> dict[str, Array]:
        """What arrange() gives, checked; nothing where the module has no such function."""
        if not callable(getattr(self._module, "arrange", None)):
            return {}
        where = f"with ({config})"
        found = self._called("arrange", where, dict(arguments), _watched(config, asked))
        if not isinstance(found, dict):
            raise self._fault(f"arrange() must return a dict, but got {type(found).__name__}")
        return {
            name: self._arranged(name, array, arguments.get(name), outputs)
            for name, array in found.items()
        }

    def observe(self, config: Config) -> dict[str, float]:
        """What observe() tells, checked; nothing where the module has no such function."""
        if not callable(getattr(self._module, "observe", None)):
            return {}
        found = self._called("observe", f"with ({config})", _watched(config, None))
        if not isinstance(found, dict):
            raise self._fault(f"observe() must return a dict, but got {type(found).__name__}")
        for name, value in found.items():
            if type(value) not in (int, float) or not math.isfinite(value):
                raise self._fault(f"observe() gives `{name}` as {value!r}; use finite numbers")
        return {str(name): float(value) for name, value in found.items()}

    # ------------------------------------------------------------- calling the module

    def _loaded(self) -> ModuleType:
        try:
            module = load_module(self._path, "harness_host")
        except (Exception, SystemExit) as error:
            raise self._fault(self._told(error)) from error
        if module is None:
            raise self._fault("is not a Python file")
        for name in ("arguments", "reference"):
            if not callable(getattr(module, name, None)):
                raise self._fault(f"must define the function `{name}`")
        return module

    def _called(self, name: str, where: str, *values: object) -> Any:
        function = getattr(self._module, name, None)
        if not callable(function):
            raise self._fault(f"must define the function `{name}`")
        try:
            return function(*values)
        except (Exception, SystemExit) as error:
            raise self._fault(f"{name}() raised {self._told(error)} {where}") from error

    def _dict(self, name: str, where: str, *values: object) -> dict[str, Any]:
        result = self._called(name, where, *values)
        if not isinstance(result, dict) or not result:
            kind = type(result).__name__
            raise self._fault(f"{name}() must return a dict of arrays, but got {kind}")
        return result

    def _fault(self, text: str) -> HostModuleError:
        return HostModuleError(f"{self._path}: {text}")

    def _told(self, error: BaseException) -> str:
        """The error, and the line of the host module where it came up."""
        line, trace, own = 0, error.__traceback__, self._path.resolve()
        while trace is not None:
            if Path(trace.tb_frame.f_code.co_filename).resolve() == own:
                line = trace.tb_lineno
            trace = trace.tb_next
        return f"{type(error).__name__}: {error}" + (f" (line {line})" if line else "")

    # --------------------------------------------------------- checking what it returns

    def _check_argument(self, function: str, name: str, value: object) -> None:
        if not isinstance(value, (np.ndarray, np.generic)):
            raise self._fault(
                f"{function}() gives `{name}` the type {type(value).__name__}; use numpy "
                "arrays, and numpy scalars such as np.int32(n), whose width the kernel expects"
            )
        if value.dtype.kind not in COMPARABLE + "V" or not value.dtype.isnative:
            raise self._fault(
                f"{function}() gives `{name}` the dtype {value.dtype}, which no kernel reads; "
                "use numbers, or structures of numbers, in the machine's byte order"
            )
        if isinstance(value, np.ndarray) and (value.size == 0 or not value.flags.c_contiguous):
            raise self._fault(
                f"{function}() gives `{name}` as an array that is empty or not contiguous; pass a "
                "C-contiguous copy (np.ascontiguousarray)"
            )

    def _check_expected(self, name: str, expected: Array, arguments: Mapping[str, Any]) -> None:
        argument = arguments.get(name)
        if not isinstance(argument, np.ndarray):
            there = ", ".join(k for k, v in arguments.items() if isinstance(v, np.ndarray))
            raise self._fault(
                f"reference() gives `{name}`, which is no array argument; there are {there}"
            )
        if expected.shape != argument.shape:
            raise self._fault(
                f"reference() gives `{name}` the shape {expected.shape}, but the "
                f"argument has {argument.shape}"
            )
        for array in (expected, argument):
            if array.dtype.kind not in COMPARABLE:
                raise self._fault(
                    f"the output `{name}` has the dtype {array.dtype}; only numbers can be compared"
                )

    def _inout(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        names = getattr(self._module, "INOUT", ())
        if not isinstance(names, (tuple, list)):
            raise self._fault(f'INOUT must be a tuple such as ("y",), but got {names!r}')
        for name in names:
            if not isinstance(arguments.get(name), np.ndarray):
                raise self._fault(f"INOUT names `{name}`, which is no array argument")
        return tuple(names)

    def _check_step(
        self, step: object, arguments: Mapping[str, Argument], functions: Sequence[str]
    ) -> None:
        """A step of launches() is a Launch or a Read, and names what there is."""
        if isinstance(step, Launch):
            if step.function not in functions:
                there = f"kernel.function of the space lists {', '.join(functions)}"
                raise self._fault(f"launches() launches `{step.function}`, but {there}")
            named = [given for given in step.arguments if not isinstance(given, np.generic)]
        elif isinstance(step, Read):
            named = [step.name]
            if not isinstance(arguments.get(step.name, np.empty(0)), np.ndarray):
                raise self._fault(f"launches() reads `{step.name}`, which is no array")
        else:
            kind = type(step).__name__
            raise self._fault(f"launches() must yield Launch and Read objects, but got {kind}")
        for name in named:
            if name not in arguments:
                there = ", ".join(arguments)
                raise self._fault(f"launches() names `{name}`, but the arguments are {there}")

    def _arranged(
        self,
        name: str,
        array: object,
        argument: Argument | None,
        outputs: frozenset[str],
    ) -> Array:
        if not isinstance(argument, np.ndarray):
            raise self._fault(f"arrange() gives `{name}`, which is no array argument")
        if name in outputs:
            raise self._fault(
                f"arrange() gives `{name}`, which is verified: an output lies as reference() "
                "gives it"
            )
        self._check_argument("arrange", name, array)
        if not isinstance(array, np.ndarray) or (array.size, array.dtype) != (
            argument.size,
            argument.dtype,
        ):
            raise self._fault(
                f"arrange() gives `{name}` another size or dtype than arguments() does, "
                f"{argument.dtype}{list(argument.shape)}; make it there as large as it may get"
            )
        # The same bytes in the shape that the device knows it by.
        return array.reshape(argument.shape)
