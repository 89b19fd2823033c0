"""Explore and measure one campaign of stencils: a database of all points of all programs and sizes.

Campaigns draw different points, so the spread between them is that of points and of times.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.commands.run import EXIT_INTERRUPTED, run
from harness.core.errors import UsageError
from harness.core.records import Environment
from harness.results.view import Results, read_results

explore_command, tune_command = partial(run, "stencil"), partial(run, "tune")

_FOLDER = Path(__file__).parents[1] / "kernels" / "stencils"
PROGRAMS = {path.stem: path for path in sorted(_FOLDER.glob("*.py"))}
"""The file of each stencil."""


@dataclass(frozen=True)
class Campaign:
    """A campaign's folder of spaces with their database; its number seeds the exploration."""

    folder: Path
    number: int

    @property
    def database(self) -> Path:
        """Return the path of the database."""
        return self.folder / "stencil.db"

    def measure(self, args: argparse.Namespace) -> None:
        """Measure all points that the database does not have yet: `count` points of each program at
        each size."""
        for size in args.sizes:
            for program in args.programs:
                self._measure(program, size, args)

    def read(self) -> list[Results]:
        """Read the database; raise UsageError if there are no results."""
        return read_results([str(self.database)], all_campaigns=True)

    def _measure(self, program: str, size: int, args: argparse.Namespace) -> None:
        drawn = f"--count {args.count} --threads {args.threads} --designs {args.designs}"
        space = self.folder / f"{program}_{size}" / f"{program}.yaml"
        if not space.exists():
            options = ["--size", str(size), *drawn.split()]
            options += ["--seed", str(self.number), "-o", str(space.parent)]
            code = explore_command(["explore", str(PROGRAMS[program]), *options])
            _check_ended(code, f"{program} cannot be explored at size {size}")
        explored = re.search(
            r"--count \d+ --threads \d+ --designs \w+", space.read_text(encoding="utf-8")
        )
        if explored and explored[0] != drawn:
            raise UsageError(
                f"{space.parent} was explored with {explored[0]}; use that, or name another "
                "folder with --output"
            )
        options = ["--technique", "UniformRandom", "--test-limit", str(args.count), "--quiet"]
        options += ["--backend", args.backend, "--repeats", str(args.repeats)]
        options += ["--finalists", str(args.finalists), "--database", str(self.database)]
        code = tune_command([str(space), *options])
        _check_ended(code, f"{space} cannot be tuned; the database is {self.database}")


def _check_ended(code: int, message: str) -> None:
    """Check a command's exit code; 1 says that no configuration worked, which is a result too."""
    if code >= EXIT_INTERRUPTED:  # or by another signal
        raise KeyboardInterrupt
    if code not in (0, 1):
        raise UsageError(message)


def only_environment(campaigns: Sequence[Campaign]) -> Environment:
    """Return the environment of all campaigns; times of two devices have no common best."""
    first: tuple[Environment, Path] | None = None
    for campaign in campaigns:
        for results in campaign.read():
            environment = results.campaign.environment
            first = first or (environment, campaign.database)
            if environment != first[0]:
                raise UsageError(
                    f"{campaign.database} has times of {environment}, and {first[1]} of "
                    f"{first[0]}; measure each into its own folder with --output"
                )
    assert first is not None  # read_results refuses a database without results
    return first[0]
