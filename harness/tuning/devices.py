"""Equal devices as one measurer: each input stays with one of them, where all is compared."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.records import (
    DEVICE_UUID,
    ENVIRONMENT_FIELDS,
    Config,
    DeviceLimits,
    Environment,
    Input,
    Measurement,
    Outcome,
)
from harness.measure.measurer import Measurer
from harness.measure.trial.occasions import ONE_OCCASION
from harness.space import Space

MOST_FAULTS = 3
"""A device that fails so often in a row is not used any more."""

_MAYBE_FAULTS = (Outcome.CRASHED, Outcome.TIMEOUT, Outcome.LAUNCH_FAILED)
"""The outcomes that a broken device may have caused."""

_MOST_SHOWN = 8

T = TypeVar("T")


class Waiting(Protocol):
    """Lets other threads work while this one waits."""

    def wait_for(self, call: Callable[[], T]) -> T:
        """Return the result of a call that waits."""


class Joining(Protocol):
    """Opens devices that become available while a campaign runs."""

    def unused(self) -> Sequence[str]:
        """Say which devices joined since the last call and are not used, and why."""

    def joined(self) -> Mapping[str, Measurer]:
        """Return the measurers of devices that joined since the last call, by their names."""

    def close(self) -> None:
        """Open no more devices, and close those that nobody uses yet."""


@dataclass(eq=False)
class SharedDevice:
    """One of several equal devices.

    `faults` counts its failures in a row. `failed` are the configurations that failed in a row on
    it.
    """

    name: str
    measurer: Measurer
    faults: int = 0
    failed: list[tuple[Input, Config]] = field(default_factory=list)
    recalled: set[Input] = field(default_factory=set)

    def __str__(self) -> str:
        """Return its name, and its UUID if known; of a part of a CPU this is in the name."""
        uuid = self.measurer.environment.notes.get(DEVICE_UUID, "")
        return self.name if uuid in self.name else f"{self.name} ({uuid})"


class EqualDevices:
    """A `Measurer` of several equal devices.

    The search of an input, its finals and everything else that is compared runs on one device, its
    home. A thread that works for one device (harness.tuning.sharing) measures there.
    """

    is_replay = False

    def __init__(
        self,
        measurers: Mapping[str, Measurer],
        joining: Joining | None = None,
    ) -> None:
        """`measurers` are the devices' by their names; others may join. Raises UsageError for
        devices that are not equal."""
        self._joining = joining
        self.left = [SharedDevice(name, measurer) for name, measurer in measurers.items()]
        _require_equal(self.left)
        self._all = list(self.left)
        self._home: dict[Input, SharedDevice] = {}
        self._measured: dict[Input, list[Measurement]] = {}
        self._worked: dict[Input, tuple[Space, Config]] = {}
        self._thread = threading.local()
        self._is_closed = False

    def describe(self) -> str:
        """Say which devices there are."""
        names = ", ".join(map(str, self._all[:_MOST_SHOWN]))
        more = "" if len(self._all) <= _MOST_SHOWN else ", ..."
        if len(self._all) == 1 and self._joining is None:
            return names
        if len(self._all) == 1:
            return f"{names}; equal devices that join later take inputs as well"
        return f"{len(self._all)} equal devices share the inputs: {names}{more}"

    @property
    def first(self) -> Measurer:
        """The measurer of the first device."""
        return self._all[0].measurer

    def work_for(self, device: SharedDevice, waiting: Waiting) -> None:
        """Measure on this device whatever the present thread measures from now on."""
        self._thread.device, self._thread.waiting = device, waiting

    @property
    def current(self) -> SharedDevice | None:
        """The device that the present thread works for; None where it works for no single one."""
        return getattr(self._thread, "device", None)

    def home_of(self, problem: Input) -> SharedDevice | None:
        """Return the device on which an input is measured; None before its first measurement."""
        return self._home.get(problem)

    def joined(self, warn: Callable[[str], None]) -> Iterator[SharedDevice]:
        """Yield the devices that joined since the last call; close one that is not equal, and
        `warn` of all that are not used."""
        if self._joining is None:
            return
        for name, measurer in self._joining.joined().items():
            device = SharedDevice(name, measurer)
            difference = _difference(self._all[0], device)
            if difference:
                measurer.close()
                warn(f"{device} has joined and is not used: it is not equal to {difference}")
                continue
            self._all.append(device)
            self.left.append(device)
            yield device
        for text in self._joining.unused():
            warn(text)

    def take_out(self, device: SharedDevice) -> None:
        """Use a device no more; its inputs may go to any other one, without its last failures."""
        self.left.remove(device)
        self._home = {problem: home for problem, home in self._home.items() if home is not device}
        for problem in {problem for problem, _ in device.failed}:
            found = self._measured[problem]
            self._measured[problem] = [m for m in found if (problem, m.config) not in device.failed]

    # ------------------------------------------------------------------- as a Measurer

    @property
    def environment(self) -> Environment:
        """The environment of the present thread's device; all are equal but for their notes."""
        return (self.current or self.left[0]).measurer.environment

    @property
    def limits(self) -> DeviceLimits | None:
        """The limits of each device."""
        return self.first.limits

    @property
    def compiler(self) -> str | None:
        """The compiler whose flags are tuned."""
        return self.first.compiler

    @property
    def notices(self) -> Sequence[str]:
        """The notices of all devices, each once."""
        return tuple(dict.fromkeys(n for device in self._all for n in device.measurer.notices))

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Announce what will be measured next on the present thread's device."""
        device, configs = self.current or self.left[0], list(configs)
        self._wait_for(lambda: device.measurer.expect(space, configs))

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Keep earlier measurements for the device on which the input will be measured."""
        self._measured.setdefault(problem, []).extend(measured)

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Measure on the input's device; see `Measurer`.

        Raises BackendUnavailable where the device fails again and again, and also with a
        configuration that worked before.
        """
        device = self._settled(problem)
        found = self._wait_for(lambda: device.measurer.measure(space, problem, config, best_s))
        self._measured.setdefault(problem, []).append(found)
        device.faults = 0
        if found.outcome is Outcome.OK and found.shared_with is None:
            self._worked[problem] = space, config
            device.failed.clear()
        elif found.outcome in _MAYBE_FAULTS:
            device.failed.append((problem, config))
            self._check(device, problem, found)
        return found

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several on the input's device; see `Measurer`."""
        device = self._settled(problem)
        found = self._wait_for(
            lambda: device.measurer.measure_interleaved(space, problem, configs, rounds, seeds)
        )
        device.faults = 0
        return found

    def close(self) -> None:
        """End the worker processes of all devices; threads that wait for them get an exception."""
        if not self._is_closed:
            self._is_closed = True
            if self._joining is not None:
                self._joining.close()
            with ExitStack() as closing:  # the first last: it has the builds
                for device in self._all:
                    closing.callback(device.measurer.close)

    def _settled(self, problem: Input) -> SharedDevice:
        """Return the device of an input, which knows the input's earlier measurements."""
        device = self.current or self._home.get(problem, self.left[0])
        self._home[problem] = device
        if problem not in device.recalled:
            device.recalled.add(problem)
            device.measurer.recall(problem, self._measured.get(problem, ()))
        return device

    def _wait_for(self, call: Callable[[], T]) -> T:
        waiting: Waiting | None = getattr(self._thread, "waiting", None)
        return call() if waiting is None else waiting.wait_for(call)

    def _check(self, device: SharedDevice, problem: Input, found: Measurement) -> None:
        """Measure what worked before, after several failures: was it the device? Raises
        BackendUnavailable where it was."""
        is_due = len(device.failed) >= MOST_FAULTS and self.current is device
        if not is_due or not self._worked or len(self.left) == 1:
            return
        tried = problem if problem in self._worked else next(reversed(self._worked))
        space, config = self._worked[tried]
        again = self._wait_for(lambda: device.measurer.measure(space, tried, config, None))
        if again.outcome is not Outcome.OK:
            device.faults = MOST_FAULTS
            raise BackendUnavailable(
                f"the last one ended as {found.outcome}: {found.message}; and ({config}), which "
                f"worked on ({tried}) before, ended as {again.outcome}: {again.message}"
            )
        device.failed.clear()


def _require_equal(devices: Sequence[SharedDevice]) -> None:
    for other in devices[1:]:
        difference = _difference(devices[0], other)
        if difference:
            raise UsageError(
                f"{other} is not equal to {difference}. Their times cannot be compared: name equal "
                "devices with --device, and run the command once for each model"
            )


def _difference(first: SharedDevice, other: SharedDevice) -> str:
    """Return in what another device differs from the first one; empty where they are equal."""
    one, two = first.measurer.environment, other.measurer.environment
    if one.fingerprint == two.fingerprint:
        return ""
    name = next(n for n in ENVIRONMENT_FIELDS if getattr(one, n) != getattr(two, n))
    return f"{first}: its {name} is `{getattr(two, name)}`, not `{getattr(one, name)}`"
