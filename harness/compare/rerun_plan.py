"""Which sources both sides of a rerun are built from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.compare.reading import KernelResults, read_kernel_results
from harness.core.errors import UsageError
from harness.core.records import Environment
from harness.results import campaigns, reading, sqlite_path, without_password
from harness.results.campaigns import read_runs
from harness.space_file import Spec, load_spec


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
    specs, base_specs = _loaded("--rerun", spaces), _loaded("--base-space", base_spaces)
    if not spaces:
        specs = _default_specs(base, candidate, kernel)
    if kernel is not None:
        specs = {name: spec for name, spec in specs.items() if name == kernel}
    if stray := sorted(base_specs.keys() - specs.keys()):
        raise UsageError(
            f"--base-space: {', '.join(stray)} is no kernel of this rerun, which has "
            f"{', '.join(specs) or 'none'}; name its space with --rerun as well"
        )
    return [
        (
            _base_side(base, spec, base_specs.get(name)),
            _PlannedSide("CANDIDATE", candidate, _results(candidate, spec), spec),
        )
        for name, spec in specs.items()
    ]


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
    raise UsageError(_without_sources(base, results[0], spec))


def _without_sources(base: str, results: KernelResults, spec: Spec) -> str:
    fact = f"{without_password(base)} has {spec.name} of other sources than {spec.path}"
    digests = f"program {results.program[:8]}, not {spec.program_sha256[:8]}"
    revision = _revision(base, spec.name, results.program)
    checked_out = revision.removesuffix("-dirty") or "REVISION"
    dirty = ", with changes that were not committed" if revision.endswith("-dirty") else ""
    where = f" It was tuned at revision {checked_out}{dirty}." if revision else ""
    return (
        f"{fact} ({digests}), and a database keeps no sources.{where} Check these out next to "
        f"this folder, for example with `git worktree add ../base {checked_out}`, and name their "
        f"space: --base-space ../base/{_relative(spec.path)}"
    )


def _relative(path: Path) -> str:
    """Return a path below the current folder, or its name where it lies elsewhere."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.name


def _revision(database: str, kernel: str, program: str) -> str:
    """Return the revision of the folder in which a program was tuned last; empty if unknown."""
    with reading(database) as engine, engine.connect() as connection:
        same = [
            campaign
            for campaign in campaigns(connection)
            if campaign.space_name == kernel and campaign.key.program_sha256 == program
        ]
        runs = [run for campaign in same[:1] for run in read_runs(connection, campaign)]
    last = max(runs, key=lambda run: run.last_at, default=None)
    return last.notes.get("facts", {}).get("revision", "") if last else ""
