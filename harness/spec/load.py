"""A space file -> Spec: the frozen description of a space that every other room works with."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from harness.errors import Fault, SpecError, UsageError
from harness.expression import Expression
from harness.records import Config, Input
from harness.sources import Source
from harness.spec import checks, messages, program_checks
from harness.spec.baselines import Baseline, Levels, baselines_of, check_baselines, normalised
from harness.spec.catalogued import NamedFlags, Notice, expand_flags
from harness.spec.checks import Expressions
from harness.spec.document import Document, read_document
from harness.spec.files import Files, check_files
from harness.spec.model import Measure, Search, SpaceFile, Verify
from harness.spec.parameters import Parameter, parameters_of
from harness.spec.program import ProgramPlan
from harness.spec.program_checks import check_program
from harness.spec.program_model import ProgramSpaceFile
from harness.spec.relevance import check_relevance
from harness.spec.solutions import by_compiler, check_solutions

Shape = TypeVar("Shape", SpaceFile, ProgramSpaceFile)


@dataclass(frozen=True)
class Constraint:
    """A relation that legal configurations satisfy, and the line where it stands."""

    expression: Expression
    line: int


@dataclass(frozen=True)
class LaunchPlan:
    """Group and grid sizes as expressions, one per dimension."""

    group: tuple[Expression, ...]
    grid: tuple[Expression, ...]


@dataclass(frozen=True)
class Spec:
    """A space, validated: nothing after it doubts what it says.

    It tunes either kernels or, where `program` is there, a program: then there are no functions,
    no kernel's sources, no launch, and `host` is the space itself.
    """

    path: Path
    name: str
    title: str
    functions: tuple[str, ...]  # several only where the host module tells the launches
    sources: Mapping[str, Source]  # by language: cuda, opencl
    host: Path
    parameters: tuple[Parameter, ...]
    constraints: tuple[Constraint, ...]
    launch: LaunchPlan | None  # None: launches() of the host module tells
    features: tuple[str, ...]
    inputs: tuple[Input, ...]
    verify: Verify
    measure: Measure
    search: Search
    host_text: str = field(repr=False)
    program: ProgramPlan | None = None
    baselines: tuple[Baseline, ...] = ()
    named_flags: tuple[NamedFlags, ...] = ()  # selected from catalogues
    notices: tuple[Notice, ...] = ()  # what a person has to know of them

    def baselines_for(self, compiler: str | None) -> dict[str, Config]:
        """The baselines of a backend by name, beside the default; those that set flags of other
        compilers are left out. They are not canonical, and may be illegal on an input."""
        tuned = self.tuned_for(compiler)
        found = {baseline.name: baseline.config(tuned) for baseline in self.baselines}
        return {name: config for name, config in found.items() if config is not None}

    @property
    def program_compiler(self) -> str | None:
        """The compiler whose flags a program tunes; None where it tunes none."""
        return next((p.compiler for p in self.parameters if p.compiler is not None), None)

    def is_bit_exact(self, compiler: str | None) -> bool:
        """Whether a kernel must give the very bits that it gives without flags of this compiler:
        where the space says so, or names flags of a catalogue that change no values."""
        if self.program is not None or self._against == "reference":
            return False
        named = [n for n in self.named_flags if n.compiler == compiler]
        return self.must_be_bit_exact or (bool(named) and not named[0].changes_values)

    @property
    def must_be_bit_exact(self) -> bool:
        """Whether the space itself says so."""
        return self._against == "baseline" and self.program is None

    @property
    def _against(self) -> object:
        return getattr(self.verify, "against", None)

    def tuned_for(self, compiler: str | None) -> tuple[Parameter, ...]:
        """The parameters of a backend: left out are flags of other compilers, and those that
        its own compiler does not know (harness.flags.fitting)."""
        return tuple(
            p
            for p in self.parameters
            if p.compiler is None or (p.compiler == compiler and len(p.values) > 1)
        )

    def with_measure(self, changes: Mapping[str, object]) -> Spec:
        """The same spec with other measurement options; raises UsageError for a bad value."""
        given = self.measure.model_dump(exclude_unset=True) | dict(changes)
        try:
            measure = Measure.model_validate(given)
        except ValidationError as error:
            told = messages.told(error.errors(), {"measure": given}, ("measure",))
            raise UsageError("; ".join(told.values())) from None
        return dataclasses.replace(self, measure=measure)

    @cached_property
    def program_sha256(self) -> str:
        """What is measured: sources, host module, launch and verification.

        Two spaces that agree here may share measurements, whatever their ranges are.
        """
        parts: list[str] = [*self.functions, self.host_text]
        for language, source in sorted(self.sources.items()):
            parts += [language, source.text, *source.includes.values()]
        if self.launch is not None:
            parts += [e.text for e in (*self.launch.group, *self.launch.grid)]
        parts += [p.option or "" for p in self.parameters]
        parts += self.program.sha256_parts() if self.program is not None else []
        # What is not said is not told: spaces of before keep their measurements.
        unsaid = {"against"} if self._against is None else None
        parts.append(self.verify.model_dump_json(exclude=unsaid))
        if any(self.is_bit_exact(named.compiler) for named in self.named_flags):
            parts.append("bit for bit")
        return _sha256(parts)

    @cached_property
    def space_sha256(self) -> str:
        """What is searched: the program, the parameters with their values, the constraints."""
        parts = [self.program_sha256]
        for p in self.parameters:
            values = _ends(p.values) if isinstance(p.values, range) else list(p.values)
            parts.append(json.dumps([p.name, p.kind, p.role, p.default, values]))
        parts += [c.expression.text for c in self.constraints]
        parts += [f"{p.name} when {p.when.text}" for p in self.parameters if p.when]
        return _sha256(parts)


def _ends(values: range) -> list[int]:
    return [values.start, values.stop, values.step]


def _sha256(parts: Sequence[str]) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


def load_spec(path: Path) -> Spec:
    """Read and validate a space file; raises SpecError with every fault that it has."""
    document = read_document(path)
    named, notices = expand_flags(document)
    load = _load_program if "program" in document.data else _load_kernel
    levels: Levels = {
        (n.compiler, name): values for n in named for name, values in n.levels.items()
    }
    return dataclasses.replace(load(document, path, levels), named_flags=named, notices=notices)


def _load_kernel(document: Document, path: Path, levels: Levels) -> Spec:
    model = _validated(document, SpaceFile)
    files = check_files(document, path.parent)
    expressions = checks.check_expressions(document)
    inputs = checks.check_inputs(document)
    if model is None or files is None:
        raise SpecError(document.faults)
    tuned = _checked(document, model, expressions, inputs, levels)
    if not document.faults:
        checks.check_use(document, tuned.parameters, expressions, files)
    _check_whole(document, tuned, expressions, inputs)
    return _spec(document, path, model, files, tuned, expressions, inputs)


def _load_program(document: Document, path: Path, levels: Levels) -> Spec:
    for key in ("kernel", "launch"):
        if key in document.data:
            text = f"a space tunes a program or a kernel: remove `program`, or `{key}`"
            document.fault((key,), text)
            raise SpecError(document.faults)
    model = _validated(document, ProgramSpaceFile)
    expressions = checks.check_expressions(document)
    inputs = checks.check_inputs(document)
    if model is None:
        raise SpecError(document.faults)
    program_checks.check_flags(document, model)
    plan = check_program(document, model, inputs, path.parent)
    tuned = _checked(document, model, expressions, inputs, levels)
    if plan is None:
        raise SpecError(document.faults)
    if not document.faults:
        program_checks.check_use(document, model, plan, expressions)
    _check_whole(document, tuned, expressions, inputs)
    return _program_spec(document, path, model, plan, tuned, expressions, inputs)


@dataclass(frozen=True)
class _Tuned:
    """What is tuned, and what it is measured beside."""

    parameters: tuple[Parameter, ...]
    baselines: tuple[Baseline, ...]


def _checked(
    document: Document,
    model: SpaceFile | ProgramSpaceFile,
    expressions: Expressions,
    inputs: Sequence[Input],
    levels: Levels,
) -> _Tuned:
    """The parameters and baselines; what is wrong with a single one is noted."""
    parameters = parameters_of(model, expressions)
    checks.check_names(document, model)
    checks.check_defaults(document, parameters)
    named = normalised(document, model.baselines, parameters)
    return _Tuned(parameters, baselines_of(named, parameters, levels))


def _check_whole(
    document: Document, tuned: _Tuned, expressions: Expressions, inputs: Sequence[Input]
) -> None:
    """What needs all parts together; raises SpecError with all faults that there are."""
    if not document.faults:
        check_relevance(document, tuned.parameters, inputs)
        check_solutions(document, tuned.parameters, expressions, inputs)
    if not document.faults:
        meeting = list(by_compiler(tuned.parameters))
        check_baselines(document, tuned.baselines, meeting, expressions.constraints, inputs)
    if document.faults:
        raise SpecError(document.faults)


def _spec(
    document: Document,
    path: Path,
    model: SpaceFile,
    files: Files,
    tuned: _Tuned,
    expressions: Expressions,
    inputs: tuple[Input, ...],
) -> Spec:
    return Spec(
        path=path,
        name=model.name,
        title=model.title,
        functions=model.kernel.functions,
        sources=files.sources,
        host=files.host,
        parameters=tuned.parameters,
        constraints=_constraints(document, expressions),
        launch=None if model.launch == "host" else _plan(expressions),
        features=tuple(model.inputs.features),
        inputs=inputs,
        verify=model.verify,
        measure=model.measure,
        search=model.search,
        host_text=files.host_text,
        baselines=tuned.baselines,
    )


def _program_spec(
    document: Document,
    path: Path,
    model: ProgramSpaceFile,
    plan: ProgramPlan,
    tuned: _Tuned,
    expressions: Expressions,
    inputs: tuple[Input, ...],
) -> Spec:
    return Spec(
        path=path,
        name=model.name,
        title=model.title,
        functions=(),
        sources={},
        host=path,
        parameters=tuned.parameters,
        constraints=_constraints(document, expressions),
        launch=None,
        features=tuple(model.inputs.features),
        inputs=inputs,
        verify=model.verify,
        measure=model.measure,
        search=model.search,
        host_text="",
        program=plan,
        baselines=tuned.baselines,
    )


def _constraints(document: Document, expressions: Expressions) -> tuple[Constraint, ...]:
    return tuple(
        Constraint(expression, document.line_of(("constraints", index)))
        for index, expression in expressions.constraints.items()
    )


def _plan(expressions: Expressions) -> LaunchPlan:
    return LaunchPlan(tuple(expressions.group.values()), tuple(expressions.grid.values()))


def _validated(document: Document, shape: type[Shape]) -> Shape | None:
    """The model, or None where the file's shape has faults, which are then noted."""
    try:
        return shape.model_validate(document.data)
    except ValidationError as error:
        told = messages.told(error.errors(), document.data, model=shape)
        for place, text in told.items():
            document.fault(place, text)
        return None


def load_specs(paths: Sequence[Path]) -> list[Spec]:
    """Read several space files; raises one SpecError with the faults of all."""
    specs: list[Spec] = []
    faults: list[Fault] = []
    for path in paths:
        try:
            specs.append(load_spec(path))
        except SpecError as error:
            faults += error.faults
    if faults:
        raise SpecError(faults)
    return specs
