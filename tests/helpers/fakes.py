"""A device in memory with its own clock, and a backend of it for worker processes.

A program's text is a line for each kernel, such as `kernel twice`, with what it does in
KERNELS; `#error MESSAGE` does not compile.
"""

import dataclasses
import hashlib
import itertools
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from harness.core.errors import BuildFailed, LaunchFailed, OutOfDeviceMemory
from harness.core.program import Binary
from harness.core.records import WARM, Build, DeviceLimits, Environment
from harness.measure.cuda.nvcc import Nvcc
from harness.measure.device.arguments import Arguments, BoundArray
from harness.measure.device.clocks import ClockWatch
from harness.measure.device.launch_checks import values_of, why_unlaunchable
from harness.measure.device.launcher import Device
from harness.measure.device.memory import NumpyMemory
from harness.measure.devices import Backend
from harness.measure.process.child import ChildLost

LIMITS = DeviceLimits(256, (256, 256, 64), (1 << 16, 1 << 16, 1 << 16), 1 << 15, 4, 32)
IDENTITY = "fake compiler 1"
MAGIC = b"FAKE\n"


def twice(x, y):
    """Compute y = 2 x."""
    y[...] = 2 * x


def nothing(*_):
    """Change nothing."""


KERNELS = {"twice": twice, "nothing": nothing}


class FakeCompiler:
    """A compiler for texts that name known kernels."""

    identity = IDENTITY
    arch: str | None = None

    def compile(self, program):
        """Return the text itself, or raise BuildFailed with its `#error`."""
        for number, line in enumerate(program.text.splitlines(), start=1):
            if line.startswith("#error"):
                raise BuildFailed(f"kernel:{number}: {line}")
        build = Build(
            key=program.key(self.identity),
            options=" ".join(program.options),
            compiler=self.identity,
            compile_s=0.25,
        )
        return Binary(build, MAGIC + program.text.encode())


class FakeArguments(Arguments):
    """Arguments in memory. `written` is what a kernel, a Python function, says that it wrote around
    its arrays."""

    def __init__(self, errors):
        super().__init__(NumpyMemory(), errors)
        self.written = []

    def outside_writes(self):
        """Return the writes, once."""
        written, self.written = self.written, []
        return written + super().outside_writes()


class FakeDevice(Device):
    """A device in memory; each launch takes the next of `times_s` on its clock.

    The clock of its multiprocessors is the next of `clocks_mhz`, and unknown after the last.
    `launched` keeps the arguments' values of each launch as the kernel found them.
    """

    shares_cpu = False
    tick_s = 0.0
    limits = LIMITS
    _cache_bytes = 0

    def __init__(self, times_s=(), kernels=KERNELS, clocks_mhz=()):
        super().__init__(NumpyMemory(), "process", WARM)
        self.arguments = FakeArguments(self.errors)
        self.watch = ClockWatch(1000.0)
        self._clocks_mhz = iter(clocks_mhz)
        self.clock_s = 0.0
        self.launched = []
        self.launches = []
        self.unloads = 0
        self._times_s = itertools.chain(times_s, itertools.repeat(1e-3))
        self.kernels = kernels

    def environment(self, compiler):
        """Return a fake environment."""
        return Environment("fake", "fake device", "memory", "1", compiler)

    @property
    def bound(self):
        """The arguments, as kernels get them."""
        return {
            name: value.memory.view(value.dtype).reshape(value.shape)
            if isinstance(value, BoundArray)
            else value
            for name, value in self.arguments.bound.items()
        }

    def load(self, binary):
        """Return the names of the binary's kernels."""
        if not binary.data.startswith(MAGIC):
            raise LaunchFailed("the binary cannot be loaded: it is not of this device")
        lines = binary.data.decode().splitlines()
        return [line.split()[1] for line in lines if line.startswith("kernel ")]

    def unload(self):
        """Note that what was loaded is forgotten."""
        self.unloads += 1

    def launch(self, module, launches):
        """Run Python functions as kernels; return the sum of their times."""
        return sum(self._launch(module, launch) for launch in launches)

    def sm_clock_mhz(self):
        """Return the next clock."""
        return next(self._clocks_mhz, None)

    def _launch(self, module, launch):
        reason = why_unlaunchable(launch, self.limits)
        values_of(launch, self.arguments.bound)
        if reason or launch.function not in module:
            raise LaunchFailed(reason or f"{launch.function} is not there")
        bound = self.bound
        self.launches.append(launch)
        self.launched.append({name: bound[name].copy() for name in launch.arguments})
        self.kernels[launch.function](*[bound[name] for name in launch.arguments])
        elapsed_s = next(self._times_s)
        self.clock_s += elapsed_s
        return elapsed_s

    def _wait(self):
        """Nothing runs."""

    def _why_full(self, error, allocated_bytes):
        return f"harness holds {allocated_bytes:,} bytes"

    def _timed_fill(self, memory, size_bytes):
        return 0.0


@dataclasses.dataclass(frozen=True)
class FakeBackend(Backend):
    """A backend that writes each compilation and launch to `journal`: event, begin and end in s.

    The device's process is lost at the launch after `lives`. Arrays do not fit at the binds that
    `refused_binds` numbers, from 0 over all processes; at `broken_binds` the driver fails
    otherwise. A launch of a program whose text has the words `spoilt_by` breaks the device of that
    process, or never ends where the backend `hangs`. If it `hashes` binaries, the lines that name
    kernels are the machine code. A real `arch` is compiled
    by nvcc.
    """

    journal: Path = Path()
    shares_cpu: bool = False
    launch_s: float = 0.0
    compile_s: float = 0.0
    lives: int = 1_000_000
    refused_binds: tuple[int, ...] = ()
    broken_binds: tuple[int, ...] = ()
    spoilt_by: str | None = None
    hangs: bool = False
    hashes: bool = False

    @property
    def is_gpu(self):
        """Say no: nothing is warmed up."""
        return False

    def open_device(self):
        """Open a fake device that takes its time."""
        return _JournalDevice(self)

    def run_empty_kernel(self, device, compiler):
        """Run none on a device that lives: it would be in the journal."""
        if not self.lives:
            super().run_empty_kernel(device, compiler)

    def open_compiler(self):
        """Open a fake compiler that takes its time, or nvcc."""
        return _JournalCompiler(self) if self.arch is None else Nvcc(self.arch)


class _JournalCompiler(FakeCompiler):
    def __init__(self, backend):
        self._backend = backend

    def compile(self, program):
        with _noted(self._backend.journal, "compile"):
            time.sleep(self._backend.compile_s)
            binary = super().compile(program)
        if not self._backend.hashes:
            return binary
        build = dataclasses.replace(binary.build, binary_sha256=_code_sha256(program.text))
        return dataclasses.replace(binary, build=build)


def _code_sha256(text):
    kernels = [line for line in text.splitlines() if line.startswith("kernel ")]
    return hashlib.sha256("\n".join(kernels).encode()).hexdigest()


class _JournalDevice(FakeDevice):
    def __init__(self, backend):
        super().__init__()
        self._backend = backend
        self.shares_cpu = backend.shares_cpu

    def bind(self, *sets):
        wanted = sum(value.nbytes for arguments in sets for value in arguments.values())
        bind = self._binds()
        with _noted(self._backend.journal, "bind"):
            if bind in self._backend.broken_binds:
                raise LaunchFailed("the driver is confused")
            if bind in self._backend.refused_binds:
                raise OutOfDeviceMemory(f"{wanted} bytes do not fit")
        super().bind(*sets)

    def _binds(self):
        self._backend.journal.touch()
        return self._backend.journal.read_text().count("bind")

    def load(self, binary):
        """Return the names of its kernels; for a cubin, which fakes cannot read, all names."""
        if binary.data.startswith(b"\x7fELF"):
            return list(KERNELS)
        words = self._backend.spoilt_by
        is_spoiling = words is not None and words in binary.data.decode()
        return [*super().load(binary), *([words] if is_spoiling else [])]

    def launch(self, module, launches):
        if len(self.launched) == self._backend.lives:
            raise ChildLost("died of SIGSEGV")
        if self._backend.spoilt_by in module:
            if self._backend.hangs:
                raise ChildLost("", hung=True)
            self.answers = False
        if self.is_lost:
            raise LaunchFailed("the device is lost")
        with _noted(self._backend.journal, "launch"):
            time.sleep(self._backend.launch_s)
            return super().launch(module, launches)


class HereChild:
    """A fake of a child, whose process takes a second to start: it does all work right here, as if
    all threads shared one process. Work that raises ChildLost has lost it."""

    _working = threading.RLock()

    def __init__(self, make_worker):
        self._make_worker = make_worker
        self._worker = None

    def call(self, method, *args, timeout_s):
        """Call the method."""
        with self._working:
            self._worker = self._make_worker() if self._worker is None else self._worker
            try:
                return method(self._worker, *args)
            except ChildLost:
                self.replace()
                raise
            finally:
                if getattr(self._worker, "must_be_replaced", False):
                    self.replace()

    call_again = call

    @property
    def is_running(self):
        """Whether there is a worker."""
        return self._worker is not None

    def replace(self):
        """Make another worker."""
        self._worker = None

    close = replace


@contextmanager
def _noted(journal, what):
    begin = time.monotonic()
    try:
        yield
    finally:
        with journal.open("a") as file:
            file.write(f"{what} {begin} {time.monotonic()}\n")


def read_journal(journal):
    """Yield each event with the times of its begin and its end."""
    for line in journal.read_text().splitlines():
        what, begin, end = line.split()
        yield what, float(begin), float(end)


FAKE_SPACE = """\
name: fake
kernel: {function: twice, source: twice.cl, host: twice.py}
parameters:
  V: {type: integer, min: 1, max: 8, default: 1}
launch: {group: [4], grid: [1]}
inputs: {features: [n], values: [{n: 4}, {n: 5}]}
measure: {repeats: 4, min_repeats: 3}
"""
FAKE_HOST = """\
import numpy as np

def arguments(features, rng):
    x = rng.random(features["n"])
    return {"x": x, "y": np.zeros_like(x)}

def reference(arguments):
    return {"y": 2 * arguments["x"]}
"""
