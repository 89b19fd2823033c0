"""What the measurement of a kernel needs: its job; and the data of one input, the arguments that a
host module makes and the outputs that it expects."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.observations import SPILL_BYTES
from harness.core.program import Argument, Binary, Contents, Fill, Launch
from harness.core.records import Config, Input, Measurement, Outcome
from harness.measure.cuda.occupancy import observe_occupancy
from harness.measure.device.host_module import HostModule, Steps, TrackedConfig
from harness.measure.device.verify import NAN, Array, Tolerance, size_of
from harness.measure.failures import outcome_of
from harness.measure.occasions import SEARCH_SEED
from harness.measure.process.child import ChildLost
from harness.stats.timing import Sampling


@dataclass
class KernelData:
    """The arguments of one input, the expected outputs, and which other arrays a run may write.

    A run reads and overwrites arrays of `inout`; of `scratch` it reads only what it has written.
    In CUDA, `constants` are not passed: they fill the module's variables of their names. `made_s`
    are the seconds that arguments() and reference() took. `bits` are those of the outputs of
    configurations, by the keys of their builds.
    """

    arguments: Mapping[str, Argument]
    expected: Mapping[str, Array]
    inout: tuple[str, ...]
    scratch: tuple[str, ...] = ()
    host: HostModule | None = None
    constants: tuple[str, ...] = ()
    made_s: float = 0.0
    bits: dict[tuple[str, Config], float] = field(default_factory=dict)
    _on_device: dict[str, Array] = field(default_factory=dict)  # as arrange() returned them

    @property
    def unread(self) -> frozenset[str]:
        """The arguments whose content no run sees, as a fill replaces it."""
        return frozenset({*self.expected, *self.scratch}.difference(self.inout))

    @cached_property
    def sha256(self) -> str:
        """The digest of the arguments, of what runs see."""
        return sha256_of(argument_digests(self.arguments, self.unread), self.unread)

    @cached_property
    def sizes(self) -> dict[str, float]:
        """The size of each expected output, which the default tolerance follows."""
        return {name: size_of(expected) for name, expected in self.expected.items()}

    def launches(self, config: TrackedConfig, functions: Sequence[str]) -> Steps:
        """Yield the steps of one run that the host module yields, which may launch `functions`.

        Raises LaunchFailed for a mistake of the module, which concerns this configuration alone.
        """
        assert self.host is not None
        with _as_launch_failed():
            yield from self.host.launches(self.arguments, config, functions)

    def arranged(self, config: TrackedConfig) -> dict[str, Array]:
        """Return the arrays with another layout under this configuration; raises LaunchFailed."""
        if self.host is None:
            return {}
        with _as_launch_failed():
            return self.host.arrange(self.arguments, config, frozenset(self.expected))

    def observed(self, config: Config) -> dict[str, float]:
        """Return what the host module observes of a configuration; raises LaunchFailed."""
        if self.host is None:
            return {}
        with _as_launch_failed():
            return self.host.observe(config)

    def to_write(self, arranged: Mapping[str, Array], interleaved: bool) -> dict[str, Array]:
        """Return what must be written so that the device holds this arrangement and no other.

        Interleaved configurations all write whatever one of them arranges, before each run: else
        only some of them would start on data that were just written.
        """
        wanted = {name: self._array(name) for name in self._on_device}
        wanted.update(arranged)
        changed = {}
        for name, array in wanted.items():
            if interleaved or self._on_device.get(name, self._array(name)) is not array:
                changed[name] = array
        self._on_device.update(changed)
        return changed

    def bound_again(self) -> None:
        """Note that the device holds the arguments as arguments() returned them."""
        self._on_device.clear()

    def fresh(self, arranged: Mapping[str, Array], fill: Fill) -> dict[str, Contents]:
        """Return what the arrays that a run may write hold before every run, timed or not.

        In-out arrays hold their original content. Outputs hold a fill, so that an element that is
        never written is found; scratch arrays hold none that an earlier run left, so that no run
        can do the work of the next.
        """
        contents: dict[str, Contents] = dict.fromkeys(self.scratch, NAN)
        for name in self.expected:
            contents[name] = fill
        for name in self.inout:
            contents[name] = arranged.get(name, self._array(name))
        return contents

    def read_only(self) -> dict[str, Array]:
        """Return what the arrays that no run may write hold on the device now."""
        writable = {*self.inout, *self.scratch, *self.expected}
        arrays = {}
        for name, value in self.arguments.items():
            if isinstance(value, np.ndarray) and name not in writable:
                arrays[name] = self._on_device.get(name, value)
        return arrays

    def _array(self, name: str) -> Array:
        return cast(Array, self.arguments[name])


@contextlib.contextmanager
def _as_launch_failed() -> Iterator[None]:
    try:
        yield
    except HostModuleError as error:
        raise LaunchFailed(str(error)) from error


def make_kernel_data(path: Path, problem: Input, seed: int = 0) -> KernelData:
    """Run a host module for an input; equal inputs and seeds give equal data.

    Raises HostModuleError for every mistake of the module, and of what it returns.
    """
    host = HostModule(path)
    began_s = time.perf_counter()
    arguments = make_arguments(host, problem, seed)
    expected = host.reference(problem, arguments)
    made_s = time.perf_counter() - began_s
    inout, scratch = host.inout(arguments), host.scratch(arguments, expected)
    constants = host.constants(arguments, {*expected, *inout, *scratch})
    return KernelData(arguments, expected, inout, scratch, host, constants=constants, made_s=made_s)


def argument_digests(
    arguments: Mapping[str, Argument], unread: Collection[str] = ()
) -> dict[str, tuple[str, str]]:
    """Return the type and shape of each argument, and the digest of its content if it is read."""
    digests = {}
    for name, value in arguments.items():
        kind = repr((isinstance(value, np.ndarray), value.dtype.descr, value.shape))
        content = ""
        if name not in unread:
            flat = np.atleast_1d(value).reshape(-1).view(np.uint8)  # also of structures
            content = hashlib.sha256(flat.data).hexdigest()
        digests[name] = kind, content
    return digests


def sha256_of(digests: Mapping[str, tuple[str, str]], unread: Collection[str]) -> str:
    """Return the digest of all arguments, without the content of the unread ones."""
    parts = []
    for name, (kind, content) in digests.items():
        parts.append([name, kind, "" if name in unread else content])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def make_arguments(host: HostModule, problem: Input, seed: int) -> dict[str, Argument]:
    """Make the arguments of an input; raises HostModuleError."""
    digest = hashlib.sha256(f"{seed}:{problem.json}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    return host.arguments(problem, rng)


def present_sha256(
    path: Path, problem: Input, stored: Collection[str], unread: dict[Path, frozenset[str]]
) -> str | None:
    """Return the digest of the search's data of an input as they are now; None where they differ
    each time. Raises HostModuleError.

    The host module is asked for the arguments alone where their digest is a stored one. Else they
    are made again with the outputs, which are no data and may differ between inputs; `unread`
    remembers those of the last input by host module.
    """
    first = argument_digests(make_arguments(HostModule(path), problem, SEARCH_SEED))
    if path in unread:
        sha256 = sha256_of(first, unread[path])
        if sha256 in stored:
            return sha256
    again = make_kernel_data(path, problem, SEARCH_SEED)
    unread[path] = again.unread
    is_same = again.sha256 in {*stored, sha256_of(first, again.unread)}
    return again.sha256 if is_same else None


@dataclass(frozen=True)
class BitsOf:
    """The configuration whose outputs must be equal bit for bit, which its `job` runs; `name` says
    which it is. With `must_repeat`, its outputs may not differ from run to run."""

    name: str
    job: KernelJob
    must_repeat: bool


@dataclass(frozen=True, kw_only=True)
class KernelJob:
    """What the measurement of a configuration needs besides the device and the input's data.

    Where `launches` is empty, the host module yields the launches of a run, which may be of these
    `functions`. `arch` is the NVIDIA architecture that occupancy is computed for. The energy is
    measured for `energy_s` seconds.
    """

    config: Config
    input: Input
    binary: Binary
    sampling: Sampling
    launches: tuple[Launch, ...]
    tolerance: Tolerance
    best_s: float | None = None
    arch: str | None = None
    functions: tuple[str, ...] = ()
    same_bits_as: BitsOf | None = None
    energy_s: float = 0.0

    def observed(self, blocks: Iterable[tuple[int, int]] = ()) -> dict[str, float]:
        """Return the occupancy of the build under its launches' blocks and these others, and what
        it spills."""
        build = self.binary.build
        every = [launch.block for launch in self.launches]
        every.extend(blocks)
        observed: dict[str, float] = {}
        if self.arch is not None:
            observed.update(observe_occupancy(self.arch, build, every))
        if build.spill_bytes:
            observed[SPILL_BYTES] = float(build.spill_bytes)
        return observed

    def failed(self, error: ChildLost | LaunchFailed, timeout_s: float) -> Measurement:
        """Return the measurement of a configuration whose process was lost, or whose device
        broke."""
        wall_s = 0.0
        if isinstance(error, LaunchFailed):
            outcome = outcome_of(error)
            message = str(error)
        elif error.hung:
            outcome = Outcome.TIMEOUT
            message = f"it did not end within {timeout_s:g} s and was killed (measure.timeout_s)"
            wall_s = timeout_s
        else:
            outcome = Outcome.CRASHED
            message = f"the kernel's process {error}"
        return Measurement(
            self.config,
            self.input,
            outcome,
            build=self.binary.build,
            message=message,
            wall_s=wall_s,
            observed=self.observed(),
        )
