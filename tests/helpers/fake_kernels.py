"""Spaces, jobs and workers of the fake device, and programs that this process measures."""

import dataclasses
from contextlib import ExitStack, contextmanager

import numpy as np

from harness.core.program import Launch, Program
from harness.core.records import Config, Input
from harness.measure.choose import open_kernels
from harness.measure.device.verify import Tolerance
from harness.measure.kernels.data import KernelData, KernelJob
from harness.measure.kernels.trial import measure_interleaved
from harness.space_file import load_spec
from harness.stats.timing import Sampling
from tests.helpers.fakes import (
    FAKE_HOST,
    FAKE_SPACE,
    KERNELS,
    FakeBackend,
    FakeCompiler,
    FakeDevice,
    HereChild,
)
from tests.helpers.planted import space_of

FOUR, FIVE = Input({"n": 4}), Input({"n": 5})
X = np.arange(1, 5, dtype=np.float32)
DATA = KernelData({"x": X, "y": np.zeros(4, np.float32)}, {"y": 2.0 * X}, ())
"""The data of FOUR for `twice`."""


def write_fake(folder, kernel="V\nkernel twice", space=FAKE_SPACE, host=FAKE_HOST):
    """Write and load a space for fake devices.

    The path makes the source another one for each test: nothing is in the cache.
    """
    (folder / "twice.cl").write_text(f"// {folder}\n{kernel}\n")
    (folder / "twice.py").write_text(host)
    (folder / "fake.yaml").write_text(space)
    return load_spec(folder / "fake.yaml")


@contextmanager
def opening_fakes(folder, spec):
    """Open measurers of fake devices with traits, whose journal is in a folder, and close them."""
    with ExitStack() as opened:

        def measurer(spec=spec, **traits):
            named = {"language": "opencl", "compiler": "opencl", "journal": folder / "journal"}
            kind = DeviceBackend if "opened" in traits else FakeBackend
            local = open_kernels(spec, kind(why="a fake", **{**named, **traits}))
            opened.callback(local.close)
            return local, space_of(spec, local, FOUR)

        yield measurer


def fake_job(kernel="twice", **changes):
    """Make a job that runs a kernel once on x and y of four elements."""
    job = KernelJob(
        config=Config({"KERNEL": kernel}),
        input=FOUR,
        binary=FakeCompiler().compile(Program(f"kernel {kernel}", (kernel,), ())),
        launches=(Launch(kernel, (4,), (1,), ("x", "y")),),
        tolerance=Tolerance(),
        sampling=Sampling(repeats=4, min_repeats=2, precision=0.0),
    )
    return dataclasses.replace(job, **changes)


@dataclasses.dataclass(frozen=True)
class DeviceBackend(FakeBackend):
    """A backend that opens the given device."""

    opened: FakeDevice = dataclasses.field(default_factory=FakeDevice)

    def open_device(self):
        """Return the device."""
        return self.opened


def bound_device(kernel=None, times_s=(), clocks_mhz=(), kind=FakeDevice):
    """Make a device whose kernel `twice` is this one, with DATA bound."""
    device = kind(times_s, KERNELS | ({"twice": kernel} if kernel else {}), clocks_mhz)
    device.bind(DATA.arguments)
    return device


def interleaved(*args, **options):
    """Measure jobs interleaved, and return their measurements."""
    return measure_interleaved(*args, **options).measured


def measure_kernels_here(monkeypatch):
    """Let this process build and run kernels of fake devices."""
    for module in ("kernels.process", "builds.queue"):
        monkeypatch.setattr(f"harness.measure.{module}.Child", HereChild)


def measure_programs_here(monkeypatch):
    """Let this process build and run programs, which takes no time to start."""
    for module in ("programs.measurer", "builds.queue"):
        monkeypatch.setattr(f"harness.measure.{module}.Child", HereChild)
    for module in ("building", "trial"):
        ends = f"harness.measure.programs.{module}.end_programs_when_terminated"
        monkeypatch.setattr(ends, lambda: None)
