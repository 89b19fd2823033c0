"""The frozen records that all rooms share; each checks its values when it is made.

Times are seconds, sizes are bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.observations import WorstElement

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

Value = bool | int | float | str | None
"""The value of a parameter; None is a compiler flag that is absent."""


def shown(value: Value) -> str:
    """Return a value as text: `absent` for a flag that is left out."""
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class _NamedValues(Mapping[str, "Value"]):
    """An immutable, hashable mapping from names to plain values."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        for name, value in values.items():
            if value is not None and type(value) not in (bool, int, float, str):
                kind = type(value).__name__
                raise TypeError(f"{name} must be a bool, int, float, str or None, but got a {kind}")
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} must be finite, but got {value}")
        self._values = dict(values)

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> CoreSchema:
        """Let pydantic make one of the data that it reads."""
        from pydantic_core import core_schema  # a fifth of the time in which a worker starts

        return core_schema.no_info_plain_validator_function(cls)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out what is cached: each process hashes texts by numbers that it draws."""
        return type(self), (self._values,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._identity == other._identity

    @cached_property
    def _identity(self) -> frozenset[tuple[str, type, Value]]:
        """The key of equality: 1, 1.0 and True are three different values of a parameter, and 0.0
        and -0.0 are two, as in the canonical text."""
        return frozenset(
            (name, type(value), repr(value) if type(value) is float else value)
            for name, value in self._values.items()
        )

    @cached_property
    def _hash(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def __str__(self) -> str:
        return ", ".join(f"{name}={shown(value)}" for name, value in self.items())

    @cached_property
    def json(self) -> str:
        """The canonical text, equal for equal values."""
        return json.dumps(self._values, sort_keys=True, separators=(",", ":"))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical text, hexadecimal."""
        return hashlib.sha256(self.json.encode()).hexdigest()


class SampleRole(str, Enum):
    """Whether a sample is reserved for judging trees, or trains them."""

    RESERVED = "reserved"
    TRAINING = "training"


class Outcome(str, Enum):
    """How a measurement ended; `implausible`: its results are right, but its time is too good to be
    true. `out_of_memory`: the device had no memory left, which other programs may hold."""

    OK = "ok"
    ILLEGAL = "illegal"
    BUILD_FAILED = "build_failed"
    LAUNCH_FAILED = "launch_failed"
    OUT_OF_MEMORY = "out_of_memory"
    WRONG_RESULT = "wrong_result"
    IMPLAUSIBLE = "implausible"
    TIMEOUT = "timeout"
    CRASHED = "crashed"

    def __str__(self) -> str:
        return self.value

    @property
    def repeats(self) -> bool:
        """Whether equal code with an equal launch ends the same way again; a timeout, a crash, a
        lack of memory or an implausible time may have been chance."""
        return self in (Outcome.OK, Outcome.WRONG_RESULT, Outcome.LAUNCH_FAILED)

    @property
    def settles(self) -> bool:
        """Whether this outcome of an interleaved measurement is final. A timeout, a crash or a lack
        of memory is not. An implausible time is: it was compared with the default's."""
        return self.repeats or self is Outcome.IMPLAUSIBLE


class Config(_NamedValues):
    """A configuration: one value for every parameter."""


class Input(_NamedValues):
    """An input: the numbers (features) that describe the problem that the kernel is run on."""


@dataclass(frozen=True)
class Build:
    """The result of compiling one configuration.

    Builds with the same `binary_sha256`, where it is set, run the same machine code. On PoCL it is
    the hash of the source that matters, so builds with different hashes may be equal, too.
    `registers` and `spill_bytes` are per work-item, `shared_bytes` (statically allocated) per
    work-group; None where the compiler does not report them. `cached` is True where an earlier
    build was found on disk and no compiler ran.
    """

    key: str
    options: str
    compiler: str
    compile_s: float
    binary_sha256: str | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None
    log: str = ""
    cached: bool = False


class StopReason(str, Enum):
    """The reason why sampling ended."""

    REPEATS = "repeats"
    PRECISE = "precise"
    WORSE = "worse"
    RECORDED = "recorded"
    INTERLEAVED = "interleaved"


class Statistic(str, Enum):
    """What makes one time of the samples of a configuration; configurations are compared by it."""

    MEDIAN = "median"
    MEAN = "mean"


@dataclass(frozen=True)
class Timing:
    """Raw samples in seconds, each one timed run of the kernel; the rest is derived.

    Samples of one occasion follow one load of the code and one allocation of the data.
    `occasions` has the number of samples of each occasion, in order; it is empty where the samples
    were not split into occasions. `statistic` makes `time_s` of the samples. A sample of a short
    kernel is the mean of several runs. The clock may put times off by `clock_error_s`, which no
    spread shows (`harness.measure.device.clocks`); 0 where nothing is known of it.
    """

    samples_s: tuple[float, ...]
    stopped: StopReason = StopReason.REPEATS
    occasions: tuple[int, ...] = ()
    statistic: Statistic = Statistic.MEDIAN
    clock_error_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.samples_s:
            raise ValueError("a timing needs one sample or more, but got none")
        for sample in self.samples_s:
            if not (math.isfinite(sample) and sample > 0):
                raise ValueError(f"samples must be finite and above 0 s, but got {sample!r}")
        if not 0 <= self.clock_error_s < math.inf:
            raise ValueError(
                f"the clock's error must be finite and 0 s or more, but got {self.clock_error_s!r}"
            )
        if self.occasions and (min(self.occasions) < 1 or sum(self.occasions) != self.count):
            raise ValueError(
                f"occasions must hold {self.count} samples in all, but got {self.occasions}"
            )

    @property
    def by_occasion(self) -> tuple[tuple[float, ...], ...]:
        """The samples of each occasion; all samples are one occasion where none are known."""
        sizes = self.occasions or (self.count,)
        ends = itertools.accumulate(sizes)
        pairs = zip(sizes, ends, strict=True)
        return tuple(self.samples_s[end - size : end] for size, end in pairs)

    @property
    def time_s(self) -> float:
        """The time by which configurations are compared: the median of the samples, or their mean
        where the space asks for it."""
        return self.mean_s if self.statistic is Statistic.MEAN else self.median_s

    @cached_property
    def median_s(self) -> float:
        """The median of the samples."""
        return statistics.median(self.samples_s)

    @cached_property
    def mean_s(self) -> float:
        """The arithmetic mean of the samples."""
        return statistics.fmean(self.samples_s)

    @cached_property
    def std_s(self) -> float:
        """The sample standard deviation; 0 for a single sample."""
        return float(np.std(self.samples_s, ddof=1)) if len(self.samples_s) > 1 else 0.0

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(self.samples_s)


@dataclass(frozen=True)
class Measurement:
    """One configuration, measured on one input.

    A timing is present exactly when the outcome is ok; everything else has a message.
    `observed` has other numbers by name, such as the occupancy. `host_read` has the parameters
    that the host module read, None where that is not known.
    `shared_with` is the digest of another configuration that was measured instead of this one: both
    compile to the same machine code and have the same launch. `data_sha256` is the digest of the
    input's data; None for programs, and where they differ each time.
    """

    config: Config
    input: Input
    outcome: Outcome
    timing: Timing | None = None
    build: Build | None = None
    worst_element: WorstElement | None = None
    message: str = ""
    warmup_s: tuple[float, ...] = ()
    wall_s: float = 0.0
    observed: Mapping[str, float] = field(default_factory=dict, hash=False)
    host_read: tuple[str, ...] | None = None
    shared_with: str | None = None
    data_sha256: str | None = None

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.OK) != (self.timing is not None):
            raise ValueError(
                f"a timing belongs to the outcome ok and to no other, but got {self.outcome} "
                f"with {'a' if self.timing else 'no'} timing"
            )
        if self.outcome is not Outcome.OK and not self.message:
            raise ValueError(f"the outcome {self.outcome} needs a message that says why")
        if self.worst_element is not None and self.outcome is not Outcome.WRONG_RESULT:
            raise ValueError(f"a worst element belongs to a wrong result, but got {self.outcome}")
        if self.shared_with is not None and not self.outcome.repeats:
            raise ValueError(f"the outcome {self.outcome} may be chance and is never shared")
        for name, value in self.observed.items():
            if not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, but got {value}")

    @property
    def time_s(self) -> float:
        """The time in seconds, by the timing's statistic; infinity unless the outcome is ok."""
        return self.timing.time_s if self.timing else math.inf

    def by(self, statistic: Statistic) -> Measurement:
        """Return the same samples with another statistic."""
        if self.timing is None or self.timing.statistic is statistic:
            return self
        return replace(self, timing=replace(self.timing, statistic=statistic))


@dataclass(frozen=True)
class DeviceLimits:
    """The limits of a device on work-groups (blocks) and grids; `compute_units` counts
    multiprocessors or cores.

    `max_local_bytes` bounds the local (shared) memory that a kernel declares with a fixed size.
    With dynamic memory, a group may have `opt_in_local_bytes` in all; None where that is no more.
    Where `is_cooperative`, the groups of a grid may wait for each other.
    """

    max_group_size: int
    max_group_dims: tuple[int, int, int]
    max_grid_dims: tuple[int, int, int]
    max_local_bytes: int
    compute_units: int
    warp_size: int
    opt_in_local_bytes: int | None = None
    is_cooperative: bool = False

    @property
    def max_shared_bytes(self) -> int:
        """The bytes of local (shared) memory that a group may have, dynamic memory included."""
        return max(self.max_local_bytes, self.opt_in_local_bytes or 0)

    def names(self) -> dict[str, int]:
        """Return the limits by the names that constraints use."""
        return {name: getattr(self, name) for name in LIMIT_NAMES}


LIMIT_NAMES = (
    "max_group_size",
    "max_local_bytes",
    "compute_units",
    "warp_size",
    "max_shared_bytes",
)
"""The device limits that constraints may name."""


WARM, COLD = "warm", "cold"
"""What the device's caches hold when a sample begins: what the run before left, or none of it."""

DEVICE_TIMER, HOST_TIMER = "device", "host"
"""Whose clock times launches: the device's, or the host's where the device's cannot be right."""

BOOST, SUSTAINED = "boost", "sustained"
"""At which clock a device is measured: its highest, or that which it keeps under lasting work."""

_OF_KERNELS = ("cuda", "opencl", "python")

DEVICE_UUID = "device_uuid"
"""The note of which of several devices of one name measured."""

OTHER_PROCESSES = "other_processes"
"""The note of who else used the device when it was opened."""


@dataclass(frozen=True)
class Environment:
    """The environment of a measurement; times from different environments are never compared.

    `cache` is WARM or COLD; only kernels can be measured cold. `timer` is DEVICE_TIMER or
    HOST_TIMER, `clock` BOOST or SUSTAINED. `notes` describe the machine but do not separate
    measurements.
    """

    backend: str
    device: str
    platform: str
    driver: str
    compiler: str
    cache: str = WARM
    timer: str = DEVICE_TIMER
    clock: str = BOOST
    notes: Mapping[str, str] = field(default_factory=dict, compare=False, hash=False)

    @property
    def caches(self) -> str:
        """What the caches hold, such as `cold caches`; empty for programs, which are not asked."""
        return f"{self.cache} caches" if self.backend in _OF_KERNELS else ""

    @property
    def conditions(self) -> list[str]:
        """How the device was measured, as far as it is worth a word."""
        words = [self.caches] if self.caches else []
        if self.timer == HOST_TIMER:
            words.append("timed by the host's clock")
        if self.clock == SUSTAINED:
            words.append("sustained clock")
        return words

    @property
    def name(self) -> str:
        """The device with its conditions, which count one device as several."""
        return ", ".join([self.device, *self.conditions])

    @property
    def compared(self) -> dict[str, Any]:
        """The fields that must agree, by their names."""
        return {name: getattr(self, name) for name in ENVIRONMENT_FIELDS}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the fields that must agree."""
        return hashlib.sha256("\x1f".join(self.compared.values()).encode()).hexdigest()

    def __str__(self) -> str:
        facts = [self.platform, f"driver {self.driver}", *self.conditions]
        return f"{self.device} ({', '.join(facts)})"


ENVIRONMENT_FIELDS = tuple(field.name for field in fields(Environment) if field.compare)
"""The fields of an environment that must agree."""


Interleaved = list[Measurement]
"""Configurations that were measured interleaved: the n-th samples of all of them are round n, and
only these may be compared sample by sample."""
