"""Equal devices that share a campaign: each input stays with one of them, where all is compared."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.records import DEVICE_UUID, Config, Input, Measurement, Outcome
from harness.core.text import first_few
from harness.measure.choose import fitted_to
from harness.measure.measurer import Measurer
from harness.measure.occasions import ONE_OCCASION
from harness.space import Space
from harness.space_file import Spec

if TYPE_CHECKING:  # it brings Dask, which few campaigns need
    from harness.fleet.measurers import Fleet

T = TypeVar("T")

MOST_FAULTS = 3
"""A device that fails so often in a row is not used any more."""

_MAYBE_FAULTS = (Outcome.CRASHED, Outcome.TIMEOUT, Outcome.LAUNCH_FAILED)
"""The outcomes that a broken device may have caused."""

_MOST_SHOWN = 8


class SharedDevice:
    """One of several equal devices, as a `Measurer` that counts its failures.

    `faults` are its failures in a row, and `failed` the configurations that failed in a row on it.
    The thread that serves it sets `wait_for`, which lets others work during a call that waits.
    """

    def __init__(self, name: str, measurer: Measurer, pool: DevicePool) -> None:
        self.name = name
        self._measurer = measurer
        self.environment = measurer.environment
        self.limits = measurer.limits
        self.compiler = measurer.compiler
        self.is_replay = measurer.is_replay
        self.faults = 0
        self.failed: list[tuple[Input, Config]] = []
        self.wait_for: Callable[[Callable[[], Any]], Any] = lambda call: call()
        self._pool = pool

    def __str__(self) -> str:
        """Return its name, and its UUID if known; of a part of a CPU this is in the name."""
        uuid = self.environment.notes.get(DEVICE_UUID, "")
        return self.name if uuid in self.name else f"{self.name} ({uuid})"

    @property
    def notices(self) -> Sequence[str]:
        """The notices of this device."""
        return self._measurer.notices

    def fitted(self, spec: Spec) -> Spec:
        """Return the space without the flags that the compiler does not know."""
        return fitted_to(spec, self._measurer)

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Announce what will be measured next."""
        expected = list(configs)
        self.wait_for(lambda: self._measurer.expect(space, expected))

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Announce earlier measurements of an input."""
        self._measurer.recall(problem, measured)

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        """Return the digest of an input's data; see `Measurer`."""
        digest: str | None = self.wait_for(lambda: self._measurer.data_sha256(problem, stored))
        return digest

    def weak_tests(self, problem: Input) -> Sequence[str]:
        """Return what verification would let pass; see `Measurer`."""
        weaknesses: Sequence[str] = self.wait_for(lambda: self._measurer.weak_tests(problem))
        return weaknesses

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Measure; see `Measurer`.

        Raises BackendUnavailable where the device fails again and again, and also with a
        configuration that worked before.
        """
        measured = self._measured(
            problem, lambda: self._measurer.measure(space, problem, config, best_s)
        )
        if measured.outcome is Outcome.OK and measured.shared_with is None:
            self._pool.worked[problem] = space, config
            self.failed.clear()
        elif measured.outcome in _MAYBE_FAULTS:
            self.failed.append((problem, config))
            self._check(problem, measured)
        return measured

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several; see `Measurer`."""
        return self._measured(
            problem,
            lambda: self._measurer.measure_interleaved(space, problem, configs, rounds, seeds),
        )

    def close(self) -> None:
        """End the worker processes."""
        self._measurer.close()

    def _measured(self, problem: Input, call: Callable[[], T]) -> T:
        """Measure on this device, where the input stays then; that it could is no fault."""
        self._pool.home[problem] = self
        measured: T = self.wait_for(call)
        self.faults = 0
        return measured

    def _check(self, problem: Input, last: Measurement) -> None:
        """Measure what worked before, after several failures: was it the device? Raises
        BackendUnavailable where it was."""
        pool = self._pool
        if len(self.failed) < MOST_FAULTS or not pool.worked or len(pool.left) == 1:
            return
        tried = problem if problem in pool.worked else next(reversed(pool.worked))
        space, config = pool.worked[tried]
        again = self.wait_for(lambda: self._measurer.measure(space, tried, config, None))
        if again.outcome is not Outcome.OK:
            self.faults = MOST_FAULTS
            raise BackendUnavailable(
                f"the last one ended as {last.outcome}: {last.message}; and ({config}), which "
                f"worked on ({tried}) before, ended as {again.outcome}: {again.message}"
            )
        self.failed.clear()


class DevicePool:
    """The equal devices of a campaign.

    The search of an input, its finals and everything else that is compared runs on one device, its
    `home`, as long as that is left. `left` are the devices that have not failed too often, and
    `worked` has for each input a configuration that worked last.
    """

    def __init__(self, measurers: Mapping[str, Measurer], joining: Fleet | None = None) -> None:
        """`measurers` are the devices' by their names; others may join. Raises UsageError for
        devices that are not equal."""
        self._joining = joining
        self._all = [SharedDevice(name, measurer, self) for name, measurer in measurers.items()]
        for other in self._all[1:]:
            if difference := _difference(self._all[0], other):
                raise UsageError(
                    f"{other} is not equal to {difference}. Their times cannot be compared: name "
                    "equal devices with --device, and run the command once for each model"
                )
        self.left = [*self._all]
        self.home: dict[Input, SharedDevice] = {}
        self.worked: dict[Input, tuple[Space, Config]] = {}
        self.of_thread = threading.local()
        self._is_closed = False

    def describe(self) -> str:
        """Say which devices there are."""
        names = first_few(map(str, self._all), ", ", _MOST_SHOWN)
        if len(self._all) == 1:
            return f"{names}; equal devices that join later take inputs as well"
        return f"{len(self._all)} equal devices share the inputs: {names}"

    @property
    def is_shared(self) -> bool:
        """Whether inputs are shared out: there are several devices, or there may be."""
        return len(self._all) > 1 or self._joining is not None

    @property
    def notices(self) -> Sequence[str]:
        """The notices of all devices, each once."""
        return tuple(dict.fromkeys(n for device in self._all for n in device.notices))

    @property
    def served(self) -> SharedDevice | None:
        """The device that the present thread serves, if any."""
        return getattr(self.of_thread, "device", None)

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        """Ask the first device that answers for the digest of an input's data: a worker may be lost
        before anything is measured."""
        for device in self.left[:-1]:
            with suppress(BackendUnavailable):
                return device.data_sha256(problem, stored)
        return self.left[-1].data_sha256(problem, stored)

    def joined(self, warn: Callable[[str], None]) -> Iterator[SharedDevice]:
        """Yield the devices that joined since the last call; close one that is not equal, and
        `warn` of all that are not used."""
        if self._joining is None:
            return
        for name, measurer in self._joining.joined().items():
            device = SharedDevice(name, measurer, self)
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

    def close(self) -> None:
        """End the worker processes of all devices; threads that wait for them get an exception."""
        if not self._is_closed:
            self._is_closed = True
            if self._joining is not None:
                self._joining.close()
            with ExitStack() as closing:  # the first last: it has the builds
                for device in self._all:
                    closing.callback(device.close)


def _difference(first: SharedDevice, other: SharedDevice) -> str:
    """Return in what another device differs from the first one; empty where they are equal."""
    for name, value in first.environment.compared.items():
        of_other = other.environment.compared[name]
        if of_other != value:
            return f"{first}: its {name} is `{of_other}`, not `{value}`"
    return ""
