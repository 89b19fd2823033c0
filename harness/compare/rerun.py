"""Measure the best and the default of two databases again, now, side by side: nothing is tuned.

Two databases that were taken at different times differ by the noise of the machine between these
times. A rerun measures both sides within the same minutes, in occasions. An occasion measures each
side once, for a few rounds, in random order; each side loads its code and allocates its data anew.
So the offset of a load or of an allocation differs from occasion to occasion, like all other noise,
and what slows the machine down for longer than an occasion slows both sides. The differences
between the sides, one per occasion, are what harness.compare.statistics judges.

One process runs the kernels of both sides, or starts their programs. Of two processes with equal
code, one is often faster for longer than a rerun measures an input, so that more occasions would
not show it to be noise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harness.compare import OCCASIONS
from harness.compare.reading import InputResults, KernelResults, read_kernel_results
from harness.core.errors import HostModuleError, UsageError
from harness.core.machine import notes
from harness.core.records import Config, Environment, Input, Interleaved, Measurement
from harness.measure.choose import fitted_to
from harness.measure.measurer import Measurer
from harness.measure.occasions import join
from harness.results import COMPLETE, FINAL, RunPlan, Store, sqlite_path, without_password
from harness.results.notes import RERUN, Notes
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec

_LEAST_ROUNDS = 2  # of an occasion
_RELOADED = (1,)  # one occasion, with data of another seed than the search's: it is loaded anew

# ----------------------------------------------------------- the sources that both are built from


@dataclass(frozen=True)
class _PlannedSide:
    """The results of one kernel in one database, in each environment, and the space of the sources
    that they were measured with; those tuned last come first."""

    name: str
    database: str
    results: Sequence[KernelResults]
    spec: Spec

    def of(self, environment: Environment) -> KernelResults:
        """Return the results of an environment, or where there are none, those tuned last."""
        same = (results for results in self.results if results.environment == environment)
        return next(same, self.results[0])


Planned = tuple[_PlannedSide, _PlannedSide]
"""BASE and CANDIDATE of one kernel."""


def plan_rerun(
    base: str,
    candidate: str,
    spaces: Sequence[Path],
    base_spaces: Sequence[Path] = (),
    kernel: str | None = None,
) -> list[Planned]:
    """Find the sources of each kernel in both databases.

    `spaces` are those of CANDIDATE's sources, by default spaces/NAME.yaml of each kernel; with
    them, other kernels are left out. `base_spaces` are those of BASE's sources, where these differ.
    Raises UsageError where the sources of a side are not at hand.
    """
    specs = _loaded("--rerun", spaces)
    base_specs = _loaded("--base-space", base_spaces)
    if not spaces:
        specs = _default_specs(base, candidate, kernel)
    if kernel is not None:
        specs = {name: spec for name, spec in specs.items() if name == kernel}
    unused = sorted(base_specs.keys() - specs.keys())
    if unused:
        raise UsageError(
            f"--base-space: {', '.join(unused)} is no kernel of this rerun, which has "
            f"{', '.join(specs) or 'none'}; name its space with --rerun as well"
        )
    planned: list[Planned] = []
    for name, spec in specs.items():
        side = _PlannedSide("CANDIDATE", candidate, _results(candidate, spec), spec)
        planned.append((_base_side(base, spec, base_specs.get(name)), side))
    return planned


def check_rerun_database(database: str, others: Collection[str]) -> None:
    """Raise UsageError where a rerun would write into one of the databases that it compares."""
    path = sqlite_path(database)
    for other in others:
        compared = sqlite_path(other)
        is_same = path is not None and compared is not None and path.resolve() == compared.resolve()
        if is_same or database == other:
            raise UsageError(
                f"--rerun-database is {without_password(database)}, which is compared; name "
                "another file"
            )


def _loaded(option: str, paths: Sequence[Path]) -> dict[str, Spec]:
    """Load spaces by their names."""
    specs: dict[str, Spec] = {}
    for path in paths:
        spec = load_spec(path)
        if spec.name in specs:
            raise UsageError(
                f"{option}: {specs[spec.name].path} and {path} are both named {spec.name}; name "
                "one of them"
            )
        specs[spec.name] = spec
    return specs


def _default_specs(base: str, candidate: str, kernel: str | None) -> dict[str, Spec]:
    """Load spaces/NAME.yaml of each kernel that both databases hold."""
    of_base = {results.kernel for results in read_kernel_results(base, kernel)}
    names = [results.kernel for results in read_kernel_results(candidate, kernel)]
    both = [name for name in dict.fromkeys(names) if name in of_base]
    if not both:
        raise UsageError(
            f"BASE holds {', '.join(sorted(of_base))}, and CANDIDATE {', '.join(sorted(names))}: "
            "they have no kernel in common; tune the same space into both"
        )
    paths = {name: Path("spaces") / f"{name}.yaml" for name in both}
    for name, path in paths.items():
        if not path.is_file():
            raise UsageError(f"{path} not found; name the space of {name} with --rerun FILE")
    return _loaded("--rerun", list(paths.values()))


def _results(database: str, spec: Spec) -> list[KernelResults]:
    """Read the results of these sources."""
    return read_kernel_results(database, spec.name, {spec.name: spec.program_sha256})


def _base_side(base: str, spec: Spec, base_spec: Spec | None) -> _PlannedSide:
    """Read BASE's results of its own sources, or where none are named, of those of CANDIDATE.

    Raises UsageError where BASE was tuned last with other sources.
    """
    if base_spec is not None:
        return _PlannedSide("BASE", base, _results(base, base_spec), base_spec)
    results = read_kernel_results(base, spec.name)
    if results[0].program == spec.program_sha256:
        same = [of_base for of_base in results if of_base.program == spec.program_sha256]
        return _PlannedSide("BASE", base, same, spec)
    raise UsageError(
        f"{without_password(base)} has {spec.name} of other sources than {spec.path} (program "
        f"{results[0].program[:8]}, not {spec.program_sha256[:8]}), and a database keeps no "
        "sources. Check these out in a folder of their own, for example with `git worktree add "
        "../base REVISION`, and name their space with --base-space"
    )


# ------------------------------------------------------------------------ measured again


Open = Callable[[Spec, Measurer | None], Measurer]
"""Opens what measures a space; for the second side, beside the measurer of the first."""


@dataclass(frozen=True)
class RerunSide:
    """BASE or CANDIDATE: what was the best, the sources that it was measured with, and where it is
    measured now."""

    name: str
    database: str
    results: KernelResults
    spec: Spec
    measurer: Measurer

    def rounds(self, occasions: int) -> int:
        """Return the rounds of an occasion: twice the space's repeats, over all occasions."""
        return max(_LEAST_ROUNDS, math.ceil(2 * self.spec.measure.repeats / occasions))

    def space(self, problem: Input) -> ConstrainedSpace:
        """Return the legal configurations of an input."""
        limits = self.measurer.limits
        compiler = self.measurer.compiler
        return ConstrainedSpace.of(self.spec, problem, limits, compiler)

    def plan(self, problem: Input, campaign: int) -> RunPlan:
        """Return the plan of an input's run."""
        return RunPlan(
            spec=self.spec,
            environment=self.measurer.environment,
            problem=problem,
            technique=RERUN,
            seed=0,
            test_limit=0,
            parallelism=1,
            label=f"{RERUN} of {self.name}",
            campaign=campaign,
        )

    def configs(self, problem: Input) -> list[Config]:
        """Return the configurations that worked: the best, and the default.

        Raises UsageError where one is illegal in the space.
        """
        measured = self.results.inputs[problem].measured.values()
        configs = list(dict.fromkeys(m.config for m in measured if m.timing))
        space = self.space(problem)
        for config in configs:
            if reason := space.why_illegal(config):
                raise UsageError(
                    f"{self.spec.path}: ({config}) of {self.name} is illegal on ({problem}): "
                    f"{reason}; tune {self.database} again, or name the space that it was tuned "
                    "with"
                )
        return configs


@contextlib.contextmanager
def opened_sides(planned: Planned, open_: Open) -> Iterator[tuple[RerunSide, RerunSide]]:
    """Open the measurers of both sides, and close them at the end."""
    with contextlib.ExitStack() as stack:
        sides: list[RerunSide] = []
        for side in planned:
            measurer = open_(side.spec, sides[0].measurer if sides else None)
            stack.callback(measurer.close)
            results = side.of(measurer.environment)
            spec = fitted_to(side.spec, measurer)
            sides.append(RerunSide(side.name, side.database, results, spec, measurer))
        yield sides[0], sides[1]


@dataclass
class _SideRerun:
    """What one side measures: the configurations of each input, and what was measured of them."""

    side: RerunSide
    configs: Mapping[Input, list[Config]]
    run_ids: Mapping[Input, int]
    measured: dict[Input, dict[Config, list[Measurement]]] = field(default_factory=dict)

    def measure(self, problem: Input, rounds: int, rng: random.Random) -> Interleaved:
        """Measure an occasion; what fails is not measured again."""
        parts = self.measured.setdefault(problem, {})
        configs: list[Config] = []
        for config in self.configs[problem]:
            if all(m.timing for m in parts.get(config, ())):
                configs.append(config)
        if not configs:
            return []
        rng.shuffle(configs)
        side = self.side
        measured = side.measurer.measure_interleaved(
            side.space(problem), problem, configs, rounds, _RELOADED
        )
        for m in measured:
            parts.setdefault(m.config, []).append(m)
        return measured

    def results(self) -> KernelResults:
        """Return the results of the side, with the new measurements in place of the old ones."""
        inputs = dict(self.side.results.inputs)
        for problem, parts in self.measured.items():
            old = inputs[problem]
            measured = dict(old.measured)
            for subject, m in old.measured.items():
                if m.config in parts:
                    measured[subject] = join(parts[m.config])
            inputs[problem] = InputResults(measured, True, (), old.tried, is_rerun=True)
        environment = self.side.measurer.environment
        return dataclasses.replace(self.side.results, environment=environment, inputs=inputs)


def rerun_kernel(
    base: RerunSide,
    candidate: RerunSide,
    store: Store,
    occasions: int = OCCASIONS,
    step: Callable[[str], None] = lambda text: None,
    seed: int = 0,
) -> tuple[KernelResults, KernelResults]:
    """Measure both sides on every input that works on both, and store all that was measured.

    Return the results of both sides, where these inputs have the new measurements. An input whose
    data CANDIDATE cannot make is `broken` there. `step` is called after each input with its text.
    Raises UsageError where a configuration is illegal in its space, HostModuleError where BASE
    cannot make the data of an input.
    """
    old = base.results
    new = candidate.results
    broken = dict(new.broken)
    problems: list[Input] = []
    for problem in old.inputs:
        if problem in new.inputs and problem not in old.broken and problem not in broken:
            problems.append(problem)
    of_base = {problem: base.configs(problem) for problem in problems}
    of_candidate = {problem: candidate.configs(problem) for problem in problems}
    sides = (
        _SideRerun(base, of_base, _begin(store, base, problems)),
        _SideRerun(candidate, of_candidate, _begin(store, candidate, problems)),
    )
    rng = random.Random(seed)
    running = {*sides[0].run_ids.values(), *sides[1].run_ids.values()}
    with store.interrupting(running):
        for problem in problems:
            failed = _measure(sides, problem, store, occasions, rng)
            if failed:
                broken[problem] = failed
            for rerun in sides:
                store.end_run(rerun.run_ids[problem], COMPLETE)
                running.remove(rerun.run_ids[problem])
            step(str(problem))
    return sides[0].results(), dataclasses.replace(sides[1].results(), broken=broken)


def _measure(
    sides: Sequence[_SideRerun], problem: Input, store: Store, occasions: int, rng: random.Random
) -> str:
    """Measure all occasions of an input, and store each; return why CANDIDATE's data cannot be
    made, empty if it can. Raises HostModuleError where BASE's cannot."""
    for _ in range(occasions):
        group = uuid.uuid4().hex
        for rerun in rng.sample(sides, len(sides)):
            try:
                measured = rerun.measure(problem, rerun.side.rounds(occasions), rng)
            except HostModuleError as error:
                if rerun is sides[0]:
                    raise
                return str(error)
            run_id = rerun.run_ids[problem]
            plan = rerun.side.plan(problem, 0)
            store.transact(partial(store.add_measurements, run_id, plan, FINAL, measured, group))
    return ""


def _begin(store: Store, side: RerunSide, problems: Sequence[Input]) -> dict[Input, int]:
    """Begin the runs of a side, as a campaign of its own; return the id of each input's run."""
    number = store.choose_campaign(side.spec, side.measurer.environment, fresh=True)
    facts: Notes = {"facts": notes()}
    plans = {problem: side.plan(problem, number) for problem in problems}
    return store.transact(
        lambda: {problem: store.begin_run(plan, facts) for problem, plan in plans.items()}
    )
