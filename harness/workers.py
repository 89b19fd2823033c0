"""Where measure() runs: one isolated process for the device, others that compile for it.

A kernel that hangs, crashes or exhausts memory takes its process along, never the run: the
process is replaced, and the failure is the outcome of that one configuration. On a GPU,
builds overlap the running measurement; where kernels run on the CPU, the device waits until
nothing compiles, since it would be measured together with the compiler.
"""

from __future__ import annotations

import ctypes
import dataclasses
import logging
import multiprocessing
import os
import signal
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, TimeoutError
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pebble import ProcessExpired, ProcessPool

from harness.backends.base import Binary, Compiler, Device, Program
from harness.backends.choose import Backend
from harness.buildcache import BuildCache
from harness.errors import BuildFailed, ExpressionError, HostModuleError
from harness.host import Case, make_case
from harness.measure import Job, measure, measure_interleaved
from harness.records import Config, DeviceLimits, Environment, Input, Measurement, Outcome
from harness.space import Space
from harness.spec import Spec
from harness.timing import Sampling
from harness.verify import Tolerance

BUILD_TIMEOUT_S = 120.0
PREPARE_TIMEOUT_S = 600.0
_PR_SET_PDEATHSIG = 1


class Measurer(Protocol):
    """What the search needs of a machine; a replay of recorded measurements is one too."""

    @property
    def environment(self) -> Environment:
        """What the measurements may be compared with."""

    @property
    def limits(self) -> DeviceLimits | None:
        """What bounds legal configurations; None where that is not known."""

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Tell what will be measured next, so that it can be compiled meanwhile."""

    def measure(
        self, space: Space, given: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Measure one legal configuration on one input."""

    def measure_interleaved(
        self, space: Space, given: Input, configs: Sequence[Config], rounds: int
    ) -> list[Measurement]:
        """Measure several in turn, one sample of each a round."""

    def close(self) -> None:
        """End the worker processes."""


@dataclass(frozen=True)
class DeviceFacts:
    """What the device's process tells about the device."""

    environment: Environment
    limits: DeviceLimits
    shares_cpu: bool
    compiler: str


# ------------------------------------------------------------ in the worker processes

_device: Device | None = None
_compiler: Compiler | None = None
_case: tuple[Input, Case] | None = None


def _begin_worker() -> None:
    """Ctrl-C is the parent's affair; and no worker outlives a parent that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "sched_getaffinity"):  # Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _opened(backend: Backend) -> Device:
    global _device
    if _device is None:
        _device = backend.open_device()
    return _device


def _opened_compiler(backend: Backend) -> Compiler:
    global _compiler
    if _compiler is None:
        _compiler = backend.open_compiler()
    return _compiler


def _facts(backend: Backend) -> DeviceFacts:
    device, compiler = _opened(backend), _opened_compiler(backend).identity
    environment = dataclasses.replace(device.environment, compiler=compiler)
    return DeviceFacts(environment, device.limits, device.shares_cpu, compiler)


def _prepare(backend: Backend, host: Path, given: Input) -> tuple[str, ...]:
    """Make the input's data and bind it to the device; returns the arguments' names."""
    global _case
    case = make_case(host, given)
    _opened(backend).bind(case.arguments)
    _case = (given, case)
    return tuple(case.arguments)


def _run(backend: Backend, job: Job) -> tuple[Measurement | None, bool]:
    """The measurement, None where the input is not prepared here; is the device still good?"""
    if _case is None or _case[0] != job.input:
        return None, True
    device = _opened(backend)
    return measure(device, _case[1], job), device.healthy


def _run_interleaved(
    backend: Backend, jobs: Sequence[Job], rounds: int
) -> tuple[list[Measurement] | None, bool]:
    if _case is None or _case[0] != jobs[0].input:
        return None, True
    device = _opened(backend)
    return measure_interleaved(device, _case[1], jobs, rounds), device.healthy


def _compile(backend: Backend, program: Program) -> Binary:
    binary = _opened_compiler(backend).compile(program)
    BuildCache().put(binary)
    return binary


# ------------------------------------------------------------------ in the main process


class LocalMeasurer:
    """Measures on this machine: a device process, and builder processes on the other cores."""

    def __init__(self, spec: Spec, backend: Backend) -> None:
        """Opens the device; raises BackendUnavailable where that fails."""
        logging.getLogger("pebble").setLevel(logging.ERROR)
        self._spec = spec
        self._backend = backend
        self._cache = BuildCache()
        self._builds: dict[Config, Future[Binary]] = {}
        self._arguments: dict[Input, tuple[str, ...]] = {}
        self._device_pool = _pool(1)
        self._build_pool = _pool(max(1, (os.cpu_count() or 1) - 1))
        try:
            self._facts: DeviceFacts = self._on_device(_facts, timeout_s=PREPARE_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    @property
    def environment(self) -> Environment:
        """The device, as its own process told it."""
        return self._facts.environment

    @property
    def limits(self) -> DeviceLimits:
        """The device's limits."""
        return self._facts.limits

    def program(self, space: Space, config: Config) -> Program:
        """What the compiler gets for a configuration: parameters as macros, flags as options."""
        source = self._spec.sources[self._backend.language]
        macros = {p.name: config[p.name] for p in space.parameters if p.role != "flag"}
        flags = (p.options(config[p.name]) for p in space.parameters if p.role == "flag")
        return Program(
            text=source.with_macros(macros),
            options=tuple(sorted(option for options in flags for option in options)),
            include_dirs=source.include_dirs,
            includes=tuple(source.includes.values()),
        )

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Start the builds of these configurations, unless they are on disk or under way."""
        for config in configs:
            if config not in self._builds:
                self._builds[config] = self._start_build(self.program(space, config))

    def _start_build(self, program: Program) -> Future[Binary]:
        cached = self._cache.get(program.key(self._facts.compiler))
        if cached is not None:
            done: Future[Binary] = Future()
            done.set_result(cached)
            return done
        future: Future[Binary] = self._build_pool.schedule(
            _compile, args=[self._backend, program], timeout=BUILD_TIMEOUT_S
        )
        return future

    def _built(self, space: Space, config: Config) -> Binary:
        """Wait for a build; raises BuildFailed."""
        self.expect(space, [config])
        if self._facts.shares_cpu:
            self._wait_for_builds()
        try:
            return self._builds.pop(config).result()
        except TimeoutError:
            raise BuildFailed(f"the compiler did not end within {BUILD_TIMEOUT_S:g} s") from None
        except ProcessExpired as error:
            raise BuildFailed(f"the compiler {_how_it_died(error)}") from None

    def _wait_for_builds(self) -> None:
        for future in self._builds.values():
            future.exception()

    def measure(
        self, space: Space, given: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Build, launch, verify and time; every failure of the configuration is an outcome."""
        try:
            job = self._job(space, given, config, best_s)
        except BuildFailed as error:
            message = str(error) or "the compiler refused the configuration and said nothing"
            return Measurement(config, given, Outcome.BUILD_FAILED, message=message)
        except ExpressionError as error:
            return Measurement(config, given, Outcome.ILLEGAL, message=str(error))
        timeout_s = self._spec.measure.timeout_s
        try:
            measurement: Measurement = self._with_input(given, _run, (job,), timeout_s)
        except (TimeoutError, ProcessExpired) as error:
            return _lost(job, error, timeout_s)
        return measurement

    def measure_interleaved(
        self, space: Space, given: Input, configs: Sequence[Config], rounds: int
    ) -> list[Measurement]:
        """Measure in turn; where the process is lost, all of them are, with the reason."""
        jobs = [self._job(space, given, config, None) for config in configs]
        timeout_s = self._spec.measure.timeout_s * len(jobs) + PREPARE_TIMEOUT_S
        try:
            found: list[Measurement] = self._with_input(
                given, _run_interleaved, (jobs, rounds), timeout_s
            )
        except (TimeoutError, ProcessExpired) as error:
            return [_lost(job, error, timeout_s) for job in jobs]
        return found

    def _job(self, space: Space, given: Input, config: Config, best_s: float | None) -> Job:
        binary = self._built(space, config)
        if given not in self._arguments:
            self._prepare(given)
        launch = space.launch(config, self._spec.function, self._arguments[given])
        verify, sampling = self._spec.verify, self._spec.measure
        return Job(
            config,
            given,
            binary,
            (launch,),
            Tolerance(verify.rtol, verify.atol),
            Sampling(**sampling.model_dump(exclude={"timeout_s"})),
            best_s,
        )

    def _with_input(
        self, given: Input, function: Any, args: tuple[Any, ...], timeout_s: float
    ) -> Any:
        """Run on the device; a process that does not have the input's data gets it first."""
        result, healthy = self._on_device(function, *args, timeout_s=timeout_s)
        if result is None:
            self._prepare(given)
            result, healthy = self._on_device(function, *args, timeout_s=timeout_s)
        if not healthy:
            self._replace_device_process()
        return result

    def _prepare(self, given: Input) -> None:
        """Give the device's process the input's data.

        Raises HostModuleError: without data and a reference nothing can be measured.
        """
        try:
            self._arguments[given] = self._on_device(
                _prepare, self._spec.host, given, timeout_s=PREPARE_TIMEOUT_S
            )
        except TimeoutError:
            raise HostModuleError(
                f"{self._spec.host}: the data of ({given}) took over {PREPARE_TIMEOUT_S:g} s"
            ) from None
        except ProcessExpired as error:
            raise HostModuleError(
                f"{self._spec.host}: the process that made the data of ({given}) "
                f"{_how_it_died(error)}; is there enough memory?"
            ) from None

    def _on_device(self, function: Any, *args: Any, timeout_s: float) -> Any:
        future = self._device_pool.schedule(
            function, args=[self._backend, *args], timeout=timeout_s
        )
        return future.result()

    def _replace_device_process(self) -> None:
        """A failed launch can poison a CUDA context for good: only a new process helps."""
        _end(self._device_pool)
        self._device_pool = _pool(1)

    def close(self) -> None:
        """End all worker processes at once."""
        for pool in (self._device_pool, self._build_pool):
            _end(pool)


def _pool(size: int) -> ProcessPool:
    context = multiprocessing.get_context("spawn")
    return ProcessPool(max_workers=size, initializer=_begin_worker, context=context)


def _end(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()


def _lost(job: Job, error: TimeoutError | ProcessExpired, timeout_s: float) -> Measurement:
    """What it means for a configuration that its process was killed or died."""
    hung = isinstance(error, TimeoutError)
    message = (
        f"it did not end within {timeout_s:g} s (measure.timeout_s) and was killed"
        if hung
        else f"the kernel's process {_how_it_died(error)}"
    )
    outcome = Outcome.TIMEOUT if hung else Outcome.CRASHED
    return Measurement(job.config, job.input, outcome, build=job.binary.build, message=message)


def _how_it_died(error: BaseException) -> str:
    code = error.exitcode if isinstance(error, ProcessExpired) else None
    if code is None or code >= 0:
        return f"ended with exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"died of {name}" + (", as when memory runs out" if name == "SIGKILL" else "")
