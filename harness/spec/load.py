"""A space file -> Spec: the frozen description of a space that every other room works with."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from harness.errors import Fault, SpecError, UsageError
from harness.expression import Expression
from harness.records import Input, Value, shown
from harness.sources import Source
from harness.spec import checks, messages
from harness.spec.checks import Expressions, flag_name
from harness.spec.document import Document, read_document
from harness.spec.files import Files, check_files
from harness.spec.model import Measure, Search, SpaceFile, Verify
from harness.spec.relevance import check_relevance
from harness.spec.solutions import check_solutions
from harness.spec.tuned import (
    BooleanParameter,
    Flag,
    FlagRange,
    FlagValues,
    IntegerParameter,
    LogIntegerParameter,
    PowerOfTwoParameter,
)
from harness.spec.tuned import Parameter as ParameterModel

Values = Sequence[Value]


@dataclass(frozen=True)
class Parameter:
    """Something tuned: `values` in search order, `kind` as the search sees it.

    `kind` is boolean, enum, integer, log_integer, power_of_two or ordered (a list of numbers);
    `role` is launch, source, choice or flag. A flag has a `compiler` (nvcc or opencl), and an
    `option` that spells it; its value is None, or False if it is boolean, where it is absent.
    Where `when` is false the parameter does not matter, and stays at its default.
    """

    name: str
    kind: str
    values: Values
    role: str
    default: Value
    compiler: str | None = None
    option: str | None = None
    when: Expression | None = None

    def options(self, value: Value) -> tuple[str, ...]:
        """The compiler options that set a flag to this value; none where it is absent."""
        absent = value is None or (self.kind == "boolean" and value is False)
        if absent or self.option is None:
            return ()
        # Split first: a value that contains a space stays one option.
        return tuple(part.replace("{value}", shown(value)) for part in self.option.split())


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
    """A space, validated: nothing after it doubts what it says."""

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

    def tuned_for(self, compiler: str | None) -> tuple[Parameter, ...]:
        """The parameters of a backend: flags of other compilers are left out."""
        return tuple(p for p in self.parameters if p.compiler in (None, compiler))

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
        parts.append(self.verify.model_dump_json())
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
    model = _validated(document)
    files = check_files(document, path.parent)
    expressions = checks.check_expressions(document)
    inputs = checks.check_inputs(document)
    if model is None or files is None:
        raise SpecError(document.faults)
    parameters = _parameters(model, expressions)
    checks.check_names(document, model)
    checks.check_defaults(document, parameters)
    if not document.faults:
        checks.check_use(document, parameters, expressions, files)
        check_relevance(document, parameters, inputs)
        check_solutions(document, parameters, expressions, inputs)
    if document.faults:
        raise SpecError(document.faults)
    return _spec(document, path, model, files, parameters, expressions, inputs)


def _spec(
    document: Document,
    path: Path,
    model: SpaceFile,
    files: Files,
    parameters: tuple[Parameter, ...],
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
        parameters=parameters,
        constraints=tuple(
            Constraint(expression, document.line_of(("constraints", index)))
            for index, expression in expressions.constraints.items()
        ),
        launch=None if model.launch == "host" else _plan(expressions),
        features=tuple(model.inputs.features),
        inputs=inputs,
        verify=model.verify,
        measure=model.measure,
        search=model.search,
        host_text=files.host_text,
    )


def _plan(expressions: Expressions) -> LaunchPlan:
    return LaunchPlan(tuple(expressions.group.values()), tuple(expressions.grid.values()))


def _validated(document: Document) -> SpaceFile | None:
    """The model, or None where the file's shape has faults, which are then noted."""
    try:
        return SpaceFile.model_validate(document.data)
    except ValidationError as error:
        for place, text in messages.told(error.errors(), document.data).items():
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


def _parameters(model: SpaceFile, expressions: Expressions) -> tuple[Parameter, ...]:
    whens = expressions.whens
    tuned = [
        dataclasses.replace(_parameter(name, p), when=whens.get(("parameters", name)))
        for name, p in model.parameters.items()
    ]
    flags = [
        dataclasses.replace(_flag(name, flag, compiler), when=whens.get(("flags", compiler, name)))
        for compiler, listed in (("nvcc", model.flags.nvcc), ("opencl", model.flags.opencl))
        for name, flag in listed.items()
    ]
    return tuple(tuned + flags)


def _parameter(name: str, model: ParameterModel) -> Parameter:
    kind: str = model.type
    values: Values
    if isinstance(model, IntegerParameter):
        values = range(model.min, model.max + 1, model.step)
    elif isinstance(model, LogIntegerParameter):
        values = range(model.min, model.max + 1)
    elif isinstance(model, PowerOfTwoParameter):
        values = tuple(1 << e for e in range(model.min.bit_length() - 1, model.max.bit_length()))
    elif isinstance(model, BooleanParameter):
        values = (False, True)
    else:
        values = tuple(model.values)
        kind = "ordered" if _is_scale(values) else "enum"
    if kind == "integer" and isinstance(values, range) and values.step > 1:
        kind = "ordered"
    return Parameter(name, kind, values, model.role, model.default)


def _is_scale(values: Values) -> bool:
    """Whether the values are numbers in ascending order."""
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return False
    numbers = [v for v in values if isinstance(v, (int, float))]
    return all(one < other for one, other in itertools.pairwise(numbers))


_DASHES = {"nvcc": "--", "opencl": "-"}


def _flag(name: str, flag: Flag, compiler: str) -> Parameter:
    spelled = _DASHES[compiler] + name
    if not isinstance(flag, (FlagRange, FlagValues)):
        known = flag_name(name)
        return Parameter(known, "boolean", (False, True), "flag", False, compiler, spelled)
    values: Values = (
        flag.values if isinstance(flag, FlagValues) else range(flag.min, flag.max + 1, flag.step)
    )
    option = flag.option or spelled + "={value}"
    return Parameter(flag_name(name), "enum", (None, *values), "flag", None, compiler, option)
