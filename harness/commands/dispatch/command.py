"""Learn, judge and write a dispatcher."""

from __future__ import annotations

import argparse
import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.commands.run import options_of
from harness.core.errors import UsageError
from harness.core.kept import Kept
from harness.core.records import Config
from harness.core.text import counted
from harness.dispatch.candidates import matrix_of
from harness.dispatch.current_space import in_current_space
from harness.dispatch.dispatcher import KernelFile, Provenance
from harness.dispatch.matrix import Matrix
from harness.dispatch.package import (
    check_candidates,
    check_folder,
    cuda_kernels,
    earlier_inputs,
    opencl_kernels,
    write_dispatcher,
)
from harness.dispatch.program import DispatchProgram
from harness.dispatch.study import DISPATCHERS, Study, fits, learners, sentence, study
from harness.dispatch.text import verdict_lines, verdict_table
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.display.text import print_line, print_lines
from harness.measure.backends import base
from harness.measure.backends.nvcc import Nvcc
from harness.results import without_password
from harness.results.versions import EVERY
from harness.results.view import Results, left_out_lines, read_results, the_one
from harness.space_file import Spec, load_spec


@dataclass(frozen=True)
class DispatchOptions:
    """What to learn from, and where to write it; None where the user left it open."""

    database: tuple[str, ...]
    output: Path
    space: str | None
    device: str | None
    spec: Path | None
    choice: str
    arch: str | None
    force: bool
    seed: int


def run(args: argparse.Namespace) -> int:
    """Run the command with parsed options; return its exit code."""
    return dispatch(options_of(DispatchOptions, args))


def dispatch(options: DispatchOptions) -> int:
    """Learn, judge, and write a dispatcher; return 1 if none is worth writing, else 0."""
    console, out = make_console(), options.output
    campaigns = read_results(options.database, options.space, builds=False, kernel_version=EVERY)
    spec = _spec(options.spec, campaigns)
    results = _results(campaigns, spec, options.device)
    arch = _arch(options.arch, results)
    check_folder(out)
    earlier = earlier_inputs(out)
    notices, results = _notices(campaigns, results, spec)
    print_lines(console, notices)
    matrix = matrix_of(results)
    check_candidates(matrix, results.constraints, spec, results.limits)
    found = _judged(results, matrix, options)
    name = found.best if options.choice == "auto" else options.choice
    learnt = {other: found.learnt(other) for other in found.dispatchers}
    console.print(verdict_table(found, learnt))
    print_line(console, f"\n{sentence(found, name)}")
    is_worth_it = found.gain(name).is_better
    if not is_worth_it and not options.force:
        static = found.matrix.candidates[learnt[name].portfolio[0]]
        print_line(console, _refusal(out, static, options.choice))
        return 1
    count = len(found.matrix.features)
    if earlier is not None and earlier > count:
        print_line(console, _loss(out, count, earlier), "yellow")
    guards = dict.fromkeys(found.matrix.candidates, results.constraints)
    program = learnt[name].program(found.matrix.candidates, guards)
    forced = (
        ""
        if is_worth_it
        else ("; written with --force: not significantly faster than the best static configuration")
    )
    written = write_dispatcher(
        out,
        program,
        spec,
        _provenance(results, found, name, f"{name}, seed {options.seed}{forced}"),
        kernels=_kernels(spec, program, results, arch),
        limits=results.limits,
    )
    print_line(console, f"{out}: {', '.join(_relative(written, out))}")
    return 0


def _notices(
    campaigns: Sequence[Results], results: Results, spec: Spec
) -> tuple[list[str], Results]:
    """Say what is left out of the campaigns and of these results; also return the results that
    remain."""
    others = [_describe(other) for other in campaigns if other is not results]
    left_out = (
        [f"Learnt from {_describe(results)}; left out: {'; '.join(others)}"] if others else []
    )
    remaining, notices = in_current_space(results, spec)
    return [*left_out, *left_out_lines(results), *notices], remaining


def _refusal(out: Path, static: Config, choice: str) -> str:
    others = "" if choice == "auto" else ", try --choice auto"
    stays = " The earlier dispatcher there stays." if out.exists() else ""
    return (
        f"Nothing is written to {out}: what was learnt chooses no better than one configuration "
        f"for all, ({static}). Tune more inputs{others}, or write it anyway with --force.{stays}"
    )


def _loss(out: Path, count: int, earlier: int) -> str:
    return (
        f"This dispatcher was learnt from {counted(count, 'input')}; the one that it replaces in "
        f"{out} was learnt from {earlier}."
    )


def _spec(path: Path | None, campaigns: Sequence[Results]) -> Spec:
    """Load the space of the results."""
    if path is None:
        by_name = {results.campaign.space_name: results for results in campaigns}
        results = the_one(list(by_name.values()), "choose one with --space NAME")
        path = results.space_file
        if path is None:
            raise UsageError(_no_file(results.campaign.space_name, campaigns))
    if not path.is_file():
        raise UsageError(f"{path} not found; name the YAML file of the space with --spec FILE")
    return load_spec(path)


def _no_file(name: str, campaigns: Sequence[Results]) -> str:
    if all(results.campaign.environment.backend == "replay" for results in campaigns):
        return (
            f"{campaigns[0].title} was replayed from a recording: there is no kernel to choose "
            "for; name a space of this kernel with --spec FILE"
        )
    return f"spaces/{name}.yaml not found; name the YAML file of {name} with --spec FILE"


def _results(campaigns: Sequence[Results], spec: Spec, device: str | None) -> Results:
    """Choose the results of the space as it is now, on one device; of several drivers, compilers or
    campaigns the last.

    Raises UsageError where the kernel has changed since, and for several devices.
    """
    same = [
        results
        for results in campaigns
        if results.campaign.space_name == spec.name
        and results.campaign.key.program_sha256 == spec.program_sha256
    ]
    if not same:
        raise UsageError(_changed(campaigns, spec))
    latest: dict[tuple[str, str, str], Results] = {}
    for results in sorted(same, key=lambda results: results.last_at, reverse=True):
        environment = results.campaign.environment
        if device is None or device.casefold() in environment.device.casefold():
            key = (environment.backend, environment.device, environment.platform)
            latest.setdefault(key, results)
    if not latest:
        known = "; ".join(dict.fromkeys(r.campaign.environment.device for r in same))
        raise UsageError(f"nothing was measured on a device `{device}`; there are {known}")
    return the_one(list(latest.values()), "choose one with --device NAME")


def _changed(campaigns: Sequence[Results], spec: Spec) -> str:
    known = list(dict.fromkeys(results.campaign.space_name for results in campaigns))
    if spec.name not in known:
        return (
            f"nothing was measured of {spec.path}, whose name is {spec.name}; there are results of "
            f"{', '.join(known)}: name the YAML file of one with --spec FILE"
        )
    return (
        f"{spec.path} is not what was measured: the kernel, a file that it includes, the host "
        "module, the launch, an option or the verification has changed since; tune it again, or "
        "name the YAML file as it was with --spec FILE"
    )


def _describe(results: Results) -> str:
    key = results.campaign.key
    inputs = counted(len(results.measured), "input")
    return f"{results.title}, program {key.program_sha256[:8]}, campaign {key.campaign}, {inputs}"


def _arch(wanted: str | None, results: Results) -> str:
    """Choose the architecture of cubins, by default the measured one; empty except on CUDA."""
    environment = results.campaign.environment
    arch = wanted or next(iter(re.findall(r"\bsm_\w+", environment.compiler)), "")
    if wanted and environment.backend != "cuda":
        raise UsageError(
            f"--arch is for CUDA's cubins, but these results were measured with "
            f"{environment.backend}"
        )
    if environment.backend == "cuda" and not arch:
        raise UsageError(
            f"cubins need one architecture, and `{environment.compiler}` names none; give it, for "
            "example with --arch sm_90"
        )
    return arch


def _judged(results: Results, matrix: Matrix, options: DispatchOptions) -> Study:
    names = tuple(DISPATCHERS) if options.choice == "auto" else (options.choice,)
    wanted = learners(names)
    with ProgressDisplay(make_console(stderr=True)) as display:
        display.begin_stage("judged on held-out inputs", fits(matrix, wanted))
        try:
            return study(matrix, wanted, options.seed, display.step, Kept.in_cache())
        except ValueError as error:
            raise UsageError(
                f"{results.title}: nothing can be learnt across inputs: {error}; add inputs to "
                "the space and tune them"
            ) from None


def _provenance(results: Results, found: Study, name: str, choice: str) -> Provenance:
    return Provenance(
        environment=results.campaign.environment,
        program_sha256=results.campaign.key.program_sha256,
        databases=tuple(map(without_password, results.databases)),
        inputs=len(found.matrix.features),
        choice=choice,
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        verdict=(*verdict_lines(found), "", sentence(found, name)),
    )


def _kernels(
    spec: Spec, program: DispatchProgram, results: Results, arch: str
) -> tuple[KernelFile, ...]:
    """Make the files that candidates are launched from, for the backend that measured them; none
    for a replay."""
    backend = results.campaign.environment.backend
    if backend == "opencl":
        return opencl_kernels(spec, program)
    if backend == "cuda":
        nvcc: base.Compiler = Nvcc(arch)
        return cuda_kernels(spec, program, nvcc.compile)
    return ()


def _relative(written: Sequence[Path], folder: Path) -> list[str]:
    root = folder.resolve()
    return [path.relative_to(root).as_posix() for path in written]
