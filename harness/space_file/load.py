"""Read a space file into a Spec, or report all its faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from harness.core.errors import Fault, SpecError
from harness.core.records import Input
from harness.space_file import checks, program_checks
from harness.space_file.baselines import baselines_of, check_baselines, normalised
from harness.space_file.compiler import check_compiler_options
from harness.space_file.document import Document, python_space, read_space
from harness.space_file.files import check_files
from harness.space_file.flags import flags_of
from harness.space_file.legality import (
    PlacedExpression,
    by_compiler,
    check_relevance,
    check_solutions,
)
from harness.space_file.messages import validated
from harness.space_file.model import LaunchPlan, SpaceFile
from harness.space_file.parameters import Parameter, Placed, parameters_of
from harness.space_file.program import ProgramSpaceFile
from harness.space_file.program_checks import check_program
from harness.space_file.spec import Constraint, Spec


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
    """Check each value, then names and files, then whether the parts are used and fit together."""
    model = validated(document, _shape(document))
    flags = flags_of(document, model)
    placed = [*parameters_of(model.parameters), *flags.placed]
    parameters = tuple(parameter for _, parameter in placed)
    inputs = checks.check_inputs(document, model.inputs)
    written = _written(model, placed)
    checks.check_names(document, model.functions, model.inputs.features, placed)
    checks.check_defaults(document, placed)
    checks.check_expressions(
        document, written, [*(p.name for p in parameters), *model.inputs.features]
    )
    named = normalised(document, model.baselines, parameters)
    baselines = baselines_of(named, parameters, flags.levels)
    if isinstance(model, ProgramSpaceFile):
        parts = _program_parts(document, model, inputs, written)
    else:
        parts = _kernel_parts(document, model, parameters, written)
    constraints = [(at, e) for at, e in written if at[0] == "constraints"] + flags.constraints
    if not document.faults:
        check_relevance(document, placed, inputs)
        sizes = [(at, e) for at, e in written if at[0] == "launch"]
        check_solutions(document, parameters, constraints, sizes, inputs)
    if not document.faults:
        expressions = [expression for _, expression in constraints]
        tuned = list(by_compiler(parameters))
        check_baselines(document, baselines[: len(named)], tuned, expressions, inputs)
    if document.faults:
        raise SpecError(document.faults)
    return Spec(
        path=path,
        name=model.name,
        title=model.title,
        functions=model.functions,
        parameters=parameters,
        constraints=tuple(
            Constraint(expression, document.line_of(at), document.path_of(at))
            for at, expression in constraints
        ),
        features=tuple(model.inputs.features),
        inputs=inputs,
        verify=model.verify,
        measure=model.measure,
        search=model.search,
        baselines=baselines,
        selected_flags=flags.selected,
        notices=tuple(flags.notices),
        **{"host": path, **parts},
    )


def _shape(document: Document) -> type[SpaceFile] | type[ProgramSpaceFile]:
    if "program" not in document.data:
        return SpaceFile
    for key in ("kernel", "launch"):
        if key in document.data:
            text = f"a space tunes either a program or a kernel: remove `program`, or `{key}`"
            document.fault((), text, key)
            raise SpecError(document.faults)
    return ProgramSpaceFile


def _written(
    model: SpaceFile | ProgramSpaceFile, placed: Sequence[Placed]
) -> list[PlacedExpression]:
    """Return the expressions of a file with their places."""
    found: list[PlacedExpression] = [
        (("constraints", index), constraint) for index, constraint in enumerate(model.constraints)
    ]
    found += (((*at, "when"), p.when) for at, p in placed if p.when is not None)
    launch = model.launch if isinstance(model, SpaceFile) else None
    if isinstance(launch, LaunchPlan):
        for key, sizes in (("group", launch.group), ("grid", launch.grid)):
            found += ((("launch", key, index), size) for index, size in enumerate(sizes))
        for key, size in (("shared", launch.shared), ("carveout", launch.carveout)):
            found += [(("launch", key), size)] if size is not None else []
    return found


def _kernel_parts(
    document: Document,
    model: SpaceFile,
    parameters: Sequence[Parameter],
    written: Sequence[PlacedExpression],
) -> dict[str, Any]:
    """Check what spaces of kernels have; return their fields of a spec."""
    check_compiler_options(document, model.compiler, model.parameters)
    files = check_files(document, model)
    launch = model.launch if isinstance(model.launch, LaunchPlan) else None
    in_opencl = files is not None and "opencl" in files.sources
    for key, message in (
        ("cooperative", "OpenCL has no cooperative launches"),
        ("carveout", "OpenCL cannot prefer shared memory"),
    ):
        if in_opencl and getattr(launch, key, None) not in (None, False):
            text = f"{message}: write `source: {{cuda: FILE}}` in kernel"
            document.fault(("launch", key), text)
    if document.faults or files is None:
        raise SpecError(document.faults)
    sizes = [expression for at, expression in written if at[0] == "launch"]
    checks.check_use(document, model, parameters, files, sizes)
    return {
        "launch": launch,
        "sources": files.sources,
        "host": files.host,
        "host_text": files.host_text,
        "compilers": model.compiler,
    }


def _program_parts(
    document: Document,
    model: ProgramSpaceFile,
    inputs: Sequence[Input],
    written: Sequence[PlacedExpression],
) -> dict[str, Any]:
    """Check what spaces of programs have; return their fields of a spec."""
    program_checks.check_flags(document, model)
    plan = check_program(document, model, inputs)
    if document.faults or plan is None:
        raise SpecError(document.faults)
    program_checks.check_use(document, model, plan, written)
    return {"program": plan}


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


def space_schema() -> dict[str, Any]:
    """Return one schema for both kinds of spaces, with a program or with a kernel."""
    models = (SpaceFile, ProgramSpaceFile)
    _, schema = models_json_schema([(model, "validation") for model in models])
    required = [schema["$defs"][model.__name__].pop("required") for model in models]
    kernel, program = ({"$ref": f"#/$defs/{model.__name__}"} for model in models)
    return {"title": "harness space", "type": "object", **schema} | {
        "if": {"required": ["extends"]},
        "then": {"required": ["name"], "anyOf": [kernel, program]},
        "else": {
            "if": {"required": ["program"]},
            "then": {**program, "required": required[1]},
            "else": {**kernel, "required": required[0]},
        },
    }
