"""The launcher of a dispatched program, and what a user should know about it."""

from __future__ import annotations

from harness.dispatch.launcher import Launcher, make_launcher
from harness.dispatch.program_files import compiler_identity, why_no_programs
from harness.results.view import Results
from harness.space_file import Spec
from harness.space_file.command_line import NoLauncher


def program_launcher(spec: Spec, results: Results) -> Launcher | None:
    """Make the launcher of a program; None for kernels, replays, and where there can be none."""
    if spec.program is None or results.campaign.environment.backend != "command":
        return None
    try:
        return make_launcher(spec.program, spec.features)
    except NoLauncher:  # a notice says so
        return None


def program_notices(spec: Spec, results: Results) -> list[str]:
    """Say what is missing for a program, or other than measured.

    Raises BackendUnavailable without the compiler of the program.
    """
    environment = results.campaign.environment
    if spec.program is None or environment.backend != "command":
        return []
    notices = []
    here = compiler_identity(spec)
    if here != environment.compiler:
        notices.append(
            f"The programs are built with {here}, but were measured with {environment.compiler}: "
            "tune again if times matter."
        )
    why = why_no_programs(spec)
    if why:
        return [*notices, f"Only the choice is written, no programs: {why}."]
    try:
        make_launcher(spec.program, spec.features)
    except NoLauncher as error:
        notices.append(f"The choice and the programs are written, but no launcher: {error}.")
    return notices
