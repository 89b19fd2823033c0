"""Results of a small space, from which dispatchers are learnt."""

import math

from harness.core.records import (
    DeviceLimits,
    Environment,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.results import COMPLETE
from harness.results.notes import limit_notes
from harness.space import ConstrainedSpace
from tests.helpers.results_examples import begin_search, make_plan, opened

SPACE = """\
name: small
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 64], default: 16}
constraints: [BLOCK <= n * compute_units]
launch: {group: [BLOCK], grid: ["min(compute_units * 4, ceil_div(n, BLOCK))"]}
inputs: {features: [n], values: [INPUTS]}
""".replace("INPUTS", ", ".join(f"{{n: {2**e}}}" for e in range(4, 16)))
LIMITS_HERE = DeviceLimits(1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 49152, 2, 32)
DEVICE = Environment("replay", "a device", "a platform", "1.0", "a compiler")


def by_size(given, config):
    """Small inputs want small blocks, large ones large blocks; in between it matters less."""
    n = given["n"]
    assert isinstance(n, int)
    wrong = 1.05 if 512 <= n <= 1024 else 3
    return 1e-3 * (1 if config["BLOCK"] == (16 if n < 1024 else 64) else wrong)


def always_16(given, config):
    """There is nothing to choose."""
    return 1e-3 * (1 if config["BLOCK"] == 16 else 3)


def fill(place, spec, environment=DEVICE, times=by_size):
    """All legal configurations of all inputs."""
    with opened(place) as store:
        for given in spec.inputs:
            plan = make_plan(given, spec=spec, environment=environment)
            notes = {**limit_notes(spec, LIMITS_HERE), "space_file": str(spec.path)}
            search = begin_search(store, plan, notes=notes)
            for config in ConstrainedSpace.of(spec, given, LIMITS_HERE, spec.program_compiler):
                time_s = times(given, config)
                found = Measurement(config, given, Outcome.WRONG_RESULT, message="wrong")
                if math.isfinite(time_s):
                    samples_s = (time_s, time_s * 1.001, time_s * 0.999)
                    timing = Timing(samples_s, StopReason.RECORDED)
                    found = Measurement(config, given, Outcome.OK, timing)
                search.test(found)
            store.end_run(search.run_id, COMPLETE)
    return place
