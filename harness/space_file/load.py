"""Read a space file into a Spec, or report all its faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from harness.core.errors import Fault, SpecError
from harness.core.records import Input
from harness.space_file import checks, messages, program_checks
from harness.space_file.baselines import (
    Baseline,
    Levels,
    baselines_of,
    check_baselines,
    normalised,
)
from harness.space_file.compiler import check_compiler_options
from harness.space_file.document import Document, python_space, read_space
from harness.space_file.expressions import CARVEOUT, Expressions, check_expressions
from harness.space_file.files import check_files, section
from harness.space_file.flag_expansion import expand_flags
from harness.space_file.flag_files import expand_files
from harness.space_file.model import SpaceFile
from harness.space_file.parameters import Parameter, parameters_of
from harness.space_file.program_checks import check_program
from harness.space_file.program_model import ProgramSpaceFile
from harness.space_file.relevance import check_relevance
from harness.space_file.solutions import by_compiler, check_solutions
from harness.space_file.spec import Constraint, LaunchPlan, Spec

Shape = TypeVar("Shape", SpaceFile, ProgramSpaceFile)


def load_spec(path: Path) -> Spec:
    """Read and validate a space file; raises SpecError with every fault that it has."""
    return _load(read_space(path), path)


def make_spec(data: Mapping[str, object], folder: Path) -> Spec:
    """Validate a space that is given in Python, by the keys of a space file.

    Paths in it are relative to the folder. Raises SpecError with every fault, each behind the keys
    that lead to it.
    """
    path = folder / f"<space {data.get('name', 'without a name')}>"
    return _load(python_space(data, path), path)


def _load(document: Document, path: Path) -> Spec:
    named, notices = expand_flags(document)
    files = expand_files(document, document.folder_of("flags"))
    load = _load_program if "program" in document.data else _load_kernel
    levels: Levels = {
        (n.compiler, name): values for n in named for name, values in n.levels.items()
    }
    return dataclasses.replace(
        load(document, path, levels),
        named_flags=named,
        notices=(*notices, *files.notices),
        flag_files=files.by_value,
    )


def _load_kernel(document: Document, path: Path, levels: Levels) -> Spec:
    model = _validated(document, SpaceFile)
    files = check_files(document)
    check_compiler_options(document, section(document, "parameters"))
    expressions = check_expressions(document)
    inputs = checks.check_inputs(document)
    if model is None or files is None:
        raise SpecError(document.faults)
    parameters, baselines = _checked(document, model, expressions, levels)
    if model.is_cooperative and "opencl" in files.sources:
        message = "OpenCL has no cooperative launches: write `source: {cuda: FILE}` in kernel"
        document.fault_at(("launch", "cooperative"), message)
    if expressions.carveout is not None and "opencl" in files.sources:
        message = "OpenCL cannot prefer shared memory: write `source: {cuda: FILE}` in kernel"
        document.fault_at(CARVEOUT, message)
    if not document.faults:
        checks.check_use(document, parameters, expressions, files)
    _check_whole(document, parameters, baselines, expressions, inputs)
    spec = _spec(document, path, model, parameters, baselines, expressions, inputs)
    if spec.launch is not None and model.is_cooperative:
        spec = dataclasses.replace(spec, launch=dataclasses.replace(spec.launch, cooperative=True))
    return dataclasses.replace(
        spec,
        sources=files.sources,
        host=files.host,
        host_text=files.host_text,
        compilers=model.compiler.plans(document.folder_of("compiler")),
    )


def _load_program(document: Document, path: Path, levels: Levels) -> Spec:
    for key in ("kernel", "launch"):
        if key in document.data:
            text = f"a space tunes either a program or a kernel: remove `program`, or `{key}`"
            document.fault((key,), text)
            raise SpecError(document.faults)
    model = _validated(document, ProgramSpaceFile)
    expressions = check_expressions(document)
    inputs = checks.check_inputs(document)
    if model is None:
        raise SpecError(document.faults)
    program_checks.check_flags(document, model)
    plan = check_program(document, model, inputs)
    parameters, baselines = _checked(document, model, expressions, levels)
    if plan is None:
        raise SpecError(document.faults)
    if not document.faults:
        program_checks.check_use(document, model, plan, expressions)
    _check_whole(document, parameters, baselines, expressions, inputs)
    spec = _spec(document, path, model, parameters, baselines, expressions, inputs)
    return dataclasses.replace(spec, program=plan)


def _checked(
    document: Document,
    model: SpaceFile | ProgramSpaceFile,
    expressions: Expressions,
    levels: Levels,
) -> tuple[tuple[Parameter, ...], tuple[Baseline, ...]]:
    """Return the parameters and baselines, and note the faults of each."""
    parameters = parameters_of(model, expressions)
    checks.check_names(document, model)
    checks.check_defaults(document, parameters)
    named = normalised(document, model.baselines, parameters)
    return parameters, baselines_of(named, parameters, levels)


def _check_whole(
    document: Document,
    parameters: Sequence[Parameter],
    baselines: Sequence[Baseline],
    expressions: Expressions,
    inputs: Sequence[Input],
) -> None:
    """Check what needs all parts together; raises SpecError with all faults."""
    if not document.faults:
        check_relevance(document, parameters, inputs)
        check_solutions(document, parameters, expressions, inputs)
    if not document.faults:
        meeting = list(by_compiler(parameters))
        check_baselines(document, baselines, meeting, expressions.constraints, inputs)
    if document.faults:
        raise SpecError(document.faults)


def _spec(
    document: Document,
    path: Path,
    model: SpaceFile | ProgramSpaceFile,
    parameters: tuple[Parameter, ...],
    baselines: tuple[Baseline, ...],
    expressions: Expressions,
    inputs: tuple[Input, ...],
) -> Spec:
    """Return the spec, still without the files of a kernel or the plan of a program."""
    group, grid = tuple(expressions.group.values()), tuple(expressions.grid.values())
    shared, carveout = expressions.shared, expressions.carveout
    return Spec(
        path=path,
        name=model.name,
        title=model.title,
        functions=model.functions,
        sources={},
        host=path,
        parameters=parameters,
        constraints=tuple(
            Constraint(
                expression,
                document.line_of(("constraints", index)),
                document.path_of(("constraints",)),
            )
            for index, expression in expressions.constraints.items()
        ),
        launch=LaunchPlan(group, grid, shared, carveout=carveout) if group else None,
        features=tuple(model.inputs.features),
        inputs=inputs,
        verify=model.verify,
        measure=model.measure,
        search=model.search,
        host_text="",
        baselines=baselines,
    )


def _validated(document: Document, shape: type[Shape]) -> Shape | None:
    """Return the model; note the faults of the file's shape and return None where it has any."""
    try:
        return shape.model_validate(document.data)
    except ValidationError as error:
        described = messages.describe_errors(error.errors(), document.data, model=shape)
        for location, text in described.items():
            document.fault(location, text)
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
