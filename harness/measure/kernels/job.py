"""What the measurement of a kernel needs, besides its data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.core.errors import LaunchFailed
from harness.core.program import Binary, Launch
from harness.core.records import Config, Measurement, Outcome
from harness.measure.cuda.occupancy import observe_occupancy
from harness.measure.process.child import ChildLost
from harness.measure.trial.trial import Job, outcome_of
from harness.measure.trial.verify import Tolerance


@dataclass(frozen=True)
class Twin:
    """The same configuration without compiler flags, whose output must be equal bit for bit.

    With `must_repeat` the configuration fails where the twin's own output differs between runs.
    """

    config: Config
    binary: Binary
    launches: tuple[Launch, ...]
    must_repeat: bool

    def is_run_by(self, binary: Binary, launches: tuple[Launch, ...]) -> bool:
        """Say whether these launches are the twin's own, of the same machine code."""
        code = binary.build.binary_sha256
        return code is not None and (code, launches) == (
            self.binary.build.binary_sha256,
            self.launches,
        )


@dataclass(frozen=True, kw_only=True)
class KernelJob(Job):
    """What the measurement of a kernel needs.

    Where `launches` is empty, the host module yields the launches of a run, which may be of these
    `functions`. `arch` is the NVIDIA architecture that occupancy is computed for.
    """

    launches: tuple[Launch, ...]
    tolerance: Tolerance
    arch: str | None = None
    functions: tuple[str, ...] = ()
    twin: Twin | None = None

    def observed(self, blocks: Iterable[tuple[int, int]] = ()) -> dict[str, float]:
        """Return the occupancy of the build under its launches' blocks and these others."""
        every = (*(launch.block for launch in self.launches), *blocks)
        return observe_occupancy(self.arch, self.binary.build, every)


def failed_job(job: KernelJob, error: ChildLost | LaunchFailed, timeout_s: float) -> Measurement:
    """Return the measurement of a configuration whose process was lost, or whose device broke."""
    wall_s = 0.0
    if isinstance(error, LaunchFailed):
        outcome, message = outcome_of(error), str(error)
    elif error.hung:
        outcome, wall_s = Outcome.TIMEOUT, timeout_s
        message = f"it did not end within {timeout_s:g} s and was killed (measure.timeout_s)"
    else:
        outcome, message = Outcome.CRASHED, f"the kernel's process {error}"
    return Measurement(
        job.config,
        job.input,
        outcome,
        build=job.binary.build,
        message=message,
        wall_s=wall_s,
        observed=job.observed(),
    )
