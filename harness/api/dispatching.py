"""Learn, judge and write a dispatcher from results."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from harness.api.dispatched_elsewhere import device_name, results_elsewhere, transfers
from harness.api.dispatched_program import program_launcher, program_notices
from harness.core.errors import UsageError
from harness.core.kept import Kept
from harness.core.records import Config
from harness.core.text import counted, suggestion
from harness.dispatch.candidates import matrix_of
from harness.dispatch.current_space import in_current_space
from harness.dispatch.dispatcher import KernelFile, Provenance
from harness.dispatch.elsewhere import DeviceTransfer
from harness.dispatch.formats import check_formats
from harness.dispatch.learnt import LearntSelector
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
from harness.dispatch.program_files import program_files, why_no_programs
from harness.dispatch.recorded import recorded_spec
from harness.dispatch.study import (
    AUTO,
    AUTOMATIC,
    CHOICES,
    TREE,
    Study,
    fits,
    learners,
    sentence,
    study,
)
from harness.dispatch.text import verdict_lines
from harness.dispatch.weighted import Coverage, weigh
from harness.measure.backends.cuda_compilers import NVCC, name_of, open_cuda_compiler
from harness.results import without_password
from harness.results.caveats import record_lines
from harness.results.tuned_space import TunedSpace
from harness.results.versions import EVERY
from harness.results.view import Results, read_results, the_one
from harness.space_file import Spec, load_spec
from harness.space_file.workload import read_workload
from harness.tuning.progress import Display


@dataclass(frozen=True)
class DispatchOptions:
    """What to learn from, and where to write it; None where the user left it open."""

    database: tuple[str, ...]
    output: Path
    space: str | None = None
    device: str | None = None
    spec: Path | Spec | None = None
    choice: str = AUTO
    arch: str | None = None
    force: bool = False
    seed: int = 0
    weights: Path | None = None
    format: tuple[str, ...] = ()

    # How messages spell the options that they advise.
    spec_option: ClassVar[str] = "--spec FILE"
    force_option: ClassVar[str] = "--force"
    choice_option: ClassVar[str] = "--choice {}"


@dataclass(frozen=True)
class DispatchArguments(DispatchOptions):
    """The same, given in Python."""

    spec_option: ClassVar[str] = "space=FILE"
    force_option: ClassVar[str] = "force=True"
    choice_option: ClassVar[str] = 'choice="{}"'


@dataclass(frozen=True)
class LearntDispatcher:
    """What was learnt from the results of one device, judged on held-out inputs.

    `name` is the dispatcher to write; `notices` say what was left out of the results.
    """

    options: DispatchOptions
    spec: Spec
    results: Results
    found: Study
    name: str
    arch: str
    notices: Sequence[str]
    elsewhere: Sequence[Results] = ()
    coverage: Coverage | None = None

    @cached_property
    def transfers(self) -> tuple[DeviceTransfer, ...]:
        """The dispatcher on the other devices that these databases have results of."""
        return transfers(self.found, self.name, self.elsewhere)

    @property
    def is_worth_it(self) -> bool:
        """Whether it is significantly faster than one configuration for all."""
        return self.found.gain(self.name).is_better

    @cached_property
    def learnt(self) -> Mapping[str, LearntSelector]:
        """Each dispatcher, learnt from all inputs."""
        return {name: self.found.learnt(name) for name in self.found.dispatchers}

    @property
    def _is_harmless_tree(self) -> bool:
        """Whether it is a tree that is not significantly slower than one configuration for all:
        who asks for a tree gets it."""
        return self.name == TREE and self.found.gain(TREE).ratio.low <= 1

    @property
    def _is_asked_for(self) -> bool:
        return self._is_harmless_tree and self.options.choice == TREE

    @property
    def why_not_written(self) -> str:
        """Say why it is not written, and what to do; empty where it is."""
        if self.is_worth_it or self._is_asked_for or self.options.force:
            return ""
        static = self.found.matrix.candidates[self.learnt[self.name].portfolio[0]]
        return _refusal(self.options, static, self._option(self._is_harmless_tree))

    @property
    def _why_written(self) -> str:
        """Say why it is written although it is not worth it; empty where it is worth it."""
        if self.is_worth_it:
            return ""
        option = self._option(self._is_asked_for)
        return f"; written with {option}: not significantly faster than one configuration for all"

    def _option(self, is_tree: bool) -> str:
        """Return what writes a dispatcher that is not worth it."""
        return self.options.choice_option.format(TREE) if is_tree else self.options.force_option

    @property
    def loss(self) -> str:
        """Say that the dispatcher that it replaces was learnt from more inputs; empty if not."""
        earlier, count = earlier_inputs(self.options.output) or 0, len(self.found.matrix.features)
        return _loss(self.options.output, count, earlier) if earlier > count else ""

    def how_to_run(self, files: Sequence[str]) -> str:
        """Say how to run the launcher, if these files have one; empty if not."""
        launcher = program_launcher(self.spec, self.results)
        if launcher is None:
            return ""
        compiled = f"run_{self.spec.name}"
        folder = self.options.output
        command = folder / compiled if compiled in files else f"python {folder / self.spec.name}"
        return f"To run the program that suits the input: {command} {launcher.line.usage}".rstrip()

    def write(self) -> list[str]:
        """Write the code and the kernels; return the files, relative to the folder."""
        options, matrix, results = self.options, self.found.matrix, self.results
        guards = dict.fromkeys(matrix.candidates, results.constraints)
        program = self.learnt[self.name].program(matrix.candidates, guards)
        choice = f"{self.name}, seed {options.seed}{self._why_written}"
        written = write_dispatcher(
            options.output,
            program,
            self.spec,
            _provenance(self, choice),
            kernels=_kernels(self.spec, program, results, self.arch),
            limits=results.limits,
            launcher=program_launcher(self.spec, results),
            formats=options.format,
        )
        root = options.output.resolve()
        return [path.relative_to(root).as_posix() for path in written]


def learn(options: DispatchOptions, display: Display) -> LearntDispatcher:
    """Learn and judge a dispatcher; nothing is written yet.

    Raises UsageError where nothing can be learnt, for an unknown choice, and for a folder that
    cannot be replaced.
    """
    if options.choice not in CHOICES:
        hint = suggestion(options.choice, CHOICES)
        raise UsageError(f"no choice `{options.choice}`; {hint}")
    check_folder(options.output)
    campaigns = read_results(options.database, options.space, builds=False, kernel_version=EVERY)
    spec = _spec(options, campaigns)
    check_formats(options.format, spec)
    results = _results(campaigns, spec, options)
    elsewhere = results_elsewhere(campaigns, results)
    arch = _arch(options.arch, results)
    notices, results = _notices(campaigns, results, spec)
    matrix = matrix_of(results)
    coverage = None
    if options.weights is not None:
        matrix, coverage = weigh(matrix, read_workload(options.weights, spec))
    try:
        check_candidates(matrix, results.constraints, spec, results.limits)
        found = _judged(results, matrix, options, display)
    except UsageError as error:  # what is left out may be the reason
        raise UsageError("\n".join([str(error), *notices])) from None
    name = found.best if options.choice == AUTO else options.choice
    return LearntDispatcher(options, spec, results, found, name, arch, notices, elsewhere, coverage)


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
    programs = program_notices(spec, results)
    return [*left_out, *record_lines(results), *notices, *programs], remaining


def _refusal(options: DispatchOptions, static: Config, option: str) -> str:
    out, automatic = options.output, options.choice_option.format(AUTO)
    others = "" if options.choice in (AUTO, TREE) else f", try {automatic}"
    stays = " The earlier dispatcher there stays." if out.exists() else ""
    return (
        f"Nothing is written to {out}: what was learnt chooses no better than one configuration "
        f"for all, ({static}). Tune more inputs{others}, or write it anyway with {option}.{stays}"
    )


def _loss(out: Path, count: int, earlier: int) -> str:
    return (
        f"This dispatcher was learnt from {counted(count, 'input')}; the one that it replaces in "
        f"{out} was learnt from {earlier}."
    )


def _spec(options: DispatchOptions, campaigns: Sequence[Results]) -> Spec:
    """Load the space of the results, unless it is there."""
    path = options.spec
    if isinstance(path, Spec):
        return path
    if path is None:
        by_name = {results.campaign.space_name: results for results in campaigns}
        results = the_one(list(by_name.values()), "choose one with --space NAME")
        if results.is_recorded:
            return recorded_spec(results)
        path = results.tuned_space.path
        if path is None:
            raise UsageError(_no_file(results.tuned_space, campaigns, options))
    if not path.is_file():
        raise UsageError(
            f"{path} not found; name the YAML file of the space with {options.spec_option}"
        )
    return load_spec(path)


def _no_file(tuned: TunedSpace, campaigns: Sequence[Results], options: DispatchOptions) -> str:
    if all(results.campaign.environment.backend == "replay" for results in campaigns):
        return (
            f"{campaigns[0].title} was replayed from a recording: there is no kernel to choose "
            f"for; name a space of this kernel with {options.spec_option}"
        )
    if tuned.is_in_python:
        return (
            f"the space {tuned.name} was built in Python and has no file: write its dispatcher "
            f"there, with harness.tune(space, ...).dispatcher({str(options.output)!r})"
        )
    return (
        f"{tuned.file}, which was tuned, is not here; go to the folder where you tuned, or name "
        f"the YAML file of {tuned.name} with {options.spec_option}"
    )


def _results(campaigns: Sequence[Results], spec: Spec, options: DispatchOptions) -> Results:
    """Choose the results of the space as it is now, on one device; of several drivers, compilers or
    campaigns the last.

    Raises UsageError where the kernel has changed since, and for several devices.
    """
    same = [
        results
        for results in campaigns
        if results.is_recorded
        or (
            results.campaign.space_name == spec.name
            and results.campaign.key.program_sha256 == spec.program_sha256
        )
    ]
    if not same:
        raise UsageError(_changed(campaigns, spec, options))
    device, latest = options.device, dict[tuple[str, ...], Results]()
    for results in sorted(same, key=lambda results: results.last_at, reverse=True):
        environment = results.campaign.environment
        if device is None or device.casefold() in device_name(environment).casefold():
            key = (environment.backend, device_name(environment), environment.platform)
            latest.setdefault(key, results)
    if not latest:
        known = "; ".join(dict.fromkeys(device_name(r.campaign.environment) for r in same))
        raise UsageError(f"nothing was measured on a device `{device}`; there are {known}")
    return the_one(list(latest.values()), "choose one with --device NAME")


def _changed(campaigns: Sequence[Results], spec: Spec, options: DispatchOptions) -> str:
    known = list(dict.fromkeys(results.campaign.space_name for results in campaigns))
    if spec.name not in known:
        return (
            f"nothing was measured of {spec.path}, whose name is {spec.name}; there are results of "
            f"{', '.join(known)}: name the YAML file of one with {options.spec_option}"
        )
    was = (
        "build it as it was"
        if spec.is_in_python
        else f"name the YAML file as it was with {options.spec_option}"
    )
    return (
        f"{spec.path} is not what was measured: the kernel, a file that it includes, the host "
        "module, the launch, an option or the verification has changed since; tune it again, or "
        f"{was}"
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


def _judged(results: Results, matrix: Matrix, options: DispatchOptions, display: Display) -> Study:
    names = AUTOMATIC if options.choice == AUTO else (options.choice,)
    wanted = learners(names)
    display.begin_stage("judged on held-out inputs", fits(matrix, wanted))
    try:
        return study(matrix, wanted, options.seed, display.step, Kept.in_cache())
    except ValueError as error:
        raise UsageError(
            f"{results.title}: nothing can be learnt across inputs: {error}; add inputs to "
            "the space and tune them"
        ) from None


def _provenance(learnt: LearntDispatcher, choice: str) -> Provenance:
    results, found, transfers = learnt.results, learnt.found, learnt.transfers
    lines = [sentence(found, learnt.name), *(one.sentence for one in transfers)]
    return Provenance(
        environment=results.campaign.environment,
        program_sha256=results.campaign.key.program_sha256,
        databases=tuple(map(without_password, results.databases)),
        inputs=len(found.matrix.features),
        choice=choice,
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        verdict=(*verdict_lines(found), "", *lines),
        transfers=transfers,
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
        name = name_of(results.campaign.environment.compiler) or NVCC
        return cuda_kernels(spec, program, open_cuda_compiler(name, arch).compile)
    if backend == "command" and not why_no_programs(spec):
        return program_files(spec, program)
    return ()
