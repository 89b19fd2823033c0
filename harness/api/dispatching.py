"""Learn, judge and write a dispatcher from results."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from harness.api.dispatched_results import describe, results_of, space_of
from harness.constraints.expression import Expression
from harness.core.config_diff import difference
from harness.core.errors import UsageError
from harness.core.program import PYTHON
from harness.core.text import counted, suggestion
from harness.dispatch import package
from harness.dispatch.choice import Choice, DispatchProgram
from harness.dispatch.dispatcher import KernelFile, Provenance
from harness.dispatch.matrix import Matrix
from harness.dispatch.single import Single
from harness.dispatch.study import AUTO, AUTOMATIC, CHOICES, Study, fits, learners
from harness.dispatch.text import verdict_lines, why_nothing
from harness.dispatch.vllm import vllm_files
from harness.display.progress import Display
from harness.measure.cuda.gpus import NVCC, name_of, open_cuda_compiler
from harness.measure.programs.building import backend_of
from harness.models.columns import tuned_range
from harness.options.dispatch import DispatchOptions
from harness.report.findings import Findings
from harness.results import without_password
from harness.results.caveats import record_lines
from harness.results.fitting import changed_data_lines
from harness.results.view import Results, read_results
from harness.space_file import Spec
from harness.space_file.program import CommandLine, NoLauncher, command_line


@dataclass(frozen=True)
class LearntDispatcher:
    """What was learnt from the results of one device, judged on held-out inputs.

    `name` is the choice by input to write, None to write the `single` configuration. `notices` say
    what was left out of the results. `launcher` is that of a program, None for kernels, replays,
    and where there can be none.
    """

    options: DispatchOptions
    spec: Spec
    findings: Findings
    single: Single
    name: str | None
    arch: str
    notices: Sequence[str]
    launcher: CommandLine | None

    @property
    def results(self) -> Results:
        """The results that it was learnt from."""
        return self.findings.results

    @property
    def study(self) -> Study | None:
        """The choices by input; None where none can be learnt."""
        return self.findings.across

    @property
    def matrix(self) -> Matrix:
        """The times that it was learnt from."""
        return self.findings.matrix if self.study is None else self.study.matrix

    @property
    def is_worth_it(self) -> bool:
        """Whether it chooses by input, significantly faster than one configuration for all."""
        study, name = self.study, self.name
        return study is not None and name is not None and study.gain(name).is_better

    @cached_property
    def sentence(self) -> str:
        """Say how good the choice by input is, or which configuration is used on every input."""
        if self.study is not None and self.name is not None:
            return self.study.sentence(self.name)
        return self.findings.advice

    @property
    def why_not_written(self) -> str:
        """Say why it is not written, and what to do; empty where it is."""
        if self.is_worth_it or not self.options.require_choice:
            return ""
        out = self.options.output
        stays = " The earlier dispatcher there stays." if out.exists() else ""
        return (
            f"Nothing is written to {out}: no choice by input is faster than one configuration for "
            f"all. Tune more inputs, or leave out --require-choice to write that one "
            f"({difference(self.single.config, self.results.default)}).{stays}"
        )

    @property
    def program(self) -> DispatchProgram:
        """What is written: the choice by input, or the single configuration. Where constraints rule
        all candidates out, the default stands in."""
        guards = dict.fromkeys(self.matrix.candidates, self.results.constraints)
        if self.study is not None and self.name is not None:
            made = self.study.learnt(self.name).program(self.matrix.candidates, guards)
        else:
            order = self.single.order[: self.options.most]
            made = DispatchProgram(
                columns=(),
                tuned=tuned_range(self.matrix.features),
                portfolio=order,
                choice=Choice.in_order(len(order)),
                guards=(self.results.constraints,) * len(order),
            )
        if not self._needs_default(made):
            return made
        return replace(
            made,
            portfolio=(*made.portfolio, self.results.default),
            choice=made.choice.with_last(),
            guards=(*made.guards, self.results.constraints),
        )

    def _needs_default(self, program: DispatchProgram) -> bool:
        """Whether constraints may rule out all that a program chooses from, but not the default,
        which works on every input."""
        default, index = self.results.default, self.matrix.default
        if not self.results.constraints or default in program.portfolio:
            return False
        if self.options.most is not None and len(program.portfolio) >= self.options.most:
            return False
        for constraint in map(Expression, self.results.constraints):
            if constraint.names <= default.keys() and not constraint.allows(default):
                return False
        return index is not None and not np.isinf(self.matrix.time_s[:, index]).any()

    def write(self) -> list[str]:
        """Write the code and the kernels; return the files, relative to the folder."""
        options, results, program, study = self.options, self.results, self.program, self.study
        choice = f"{self.name or 'one configuration for all'}, seed {options.seed}"
        if self.name is not None and not self.is_worth_it:
            choice += ", not significantly faster than one configuration for all"
        verdict = [] if study is None else [*verdict_lines(study), ""]
        provenance = Provenance(
            environment=results.campaign.environment,
            program_sha256=results.campaign.key.program_sha256,
            databases=tuple(map(without_password, results.databases)),
            inputs=len(self.matrix.features),
            choice=choice,
            date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            verdict=(*verdict, self.sentence),
            slowdowns=() if study is None else tuple(study.slowdowns.values()),
        )
        kernels = _kernels(self.spec, program, results, self.arch)
        dispatcher = package.dispatcher_of(
            program, self.spec, provenance, kernels, results.limits, self.launcher
        )
        tables = vllm_files(dispatcher, tuple(results.measured)) if options.format else {}
        written = package.write_dispatcher(options.output, dispatcher, tables)
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
    package.check_folder(options.output)
    campaigns = read_results(options.database, options.space, builds=False, all_versions=True)
    spec = space_of(options.spec, campaigns)
    results = results_of(campaigns, spec, options.device)
    arch = _arch(options.arch, results)
    others = [describe(other) for other in campaigns if other is not results]
    notices = [f"Learnt from {describe(results)}; left out: {'; '.join(others)}"] if others else []
    launcher, of_program = program_launcher(spec, results)
    if not results.is_recorded:
        results = results.of_spec(spec)
    notices += [*record_lines(results), *changed_data_lines(results.fitting.changed), *of_program]
    names = AUTOMATIC if options.choice == AUTO else (options.choice,)
    findings = Findings(
        results,
        weights=options.weights,
        learners=learners(names),
        seed=options.seed,
        most=options.most,
        step=display.step,
    )
    matrix = findings.matrix
    if findings.single is None:
        raise UsageError("\n".join([f"{results.title}: {findings.why_no_choice}", *notices]))
    package.check_candidates(matrix, results.constraints, spec, results.limits)
    if why_nothing(matrix) is None:
        display.begin_stage("judged on held-out inputs", fits(matrix, findings.learners))
    study = findings.across
    if study is None and options.choice != AUTO:
        raise UsageError("\n".join([f"{results.title}: {findings.why_no_choice}", *notices]))
    name = None
    if study is not None:
        name = study.best if options.choice == AUTO else options.choice
        if options.choice == AUTO and not study.gain(name).is_better:
            name = None
        else:
            notices = [*notices, *_failures(study, name)]
    return LearntDispatcher(options, spec, findings, findings.single, name, arch, notices, launcher)


def _failures(study: Study, name: str) -> Iterator[str]:
    """Name the first tuned input on which a choice by input takes what failed there, and the first
    on which it has nothing to take."""
    matrix = study.matrix
    chosen = study.learnt(name).indices(matrix.features, matrix.applies)
    has_failed = np.isinf(matrix.time_s[np.arange(len(chosen)), chosen]) & (chosen >= 0)
    for is_concerned, what in (
        (has_failed, f"The {name} chooses a configuration that failed when it was tuned"),
        (chosen < 0, f"None of at most {study.most} configurations applies: raise --most; this is"),
    ):
        rows = np.flatnonzero(is_concerned)
        if len(rows):
            features = matrix.features.iloc[int(rows[0])].items()
            first = ", ".join(f"{key}={value}" for key, value in features)
            yield f"{what} on {counted(len(rows), 'input')}, such as {first}."


def program_launcher(spec: Spec, results: Results) -> tuple[CommandLine | None, list[str]]:
    """Make the launcher of a program, and say what is missing, or other than measured.

    Raises BackendUnavailable without the compiler of the program.
    """
    environment = results.campaign.environment
    if spec.program is None or environment.backend != "command":
        return None, []
    notices = []
    here = backend_of(spec).identity
    if here != environment.compiler:
        notices.append(
            f"The programs are built with {here}, but were measured with {environment.compiler}: "
            "tune again if times matter."
        )
    try:
        return command_line(spec.program, spec.features), notices
    except NoLauncher as error:
        what = "The choice and the programs are written, but no launcher"
        if spec.program.why_not_built_once(spec.features):
            what = "Only the choice is written, no programs"
        return None, [*notices, f"{what}: {error}."]


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


def _kernels(
    spec: Spec, program: DispatchProgram, results: Results, arch: str
) -> tuple[KernelFile, ...]:
    """Make the files that candidates are launched from, for the backend that measured them; none
    for a replay."""
    backend = results.campaign.environment.backend
    if backend == "opencl":
        return package.opencl_kernels(spec, program)
    if backend == PYTHON:
        return package.python_kernels(spec, program)
    if backend == "cuda":
        name = name_of(results.campaign.environment.compiler) or NVCC
        return package.cuda_kernels(spec, program, open_cuda_compiler(name, arch).compile)
    plan = spec.program if backend == "command" else None
    is_built_once = plan is not None and not plan.why_not_built_once(spec.features)
    return package.program_files(spec, program) if is_built_once else ()
