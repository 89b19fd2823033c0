"""Read a space file into a Spec, or report all its faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from harness.core.errors import Fault, SpecError
from harness.space_file import checks
from harness.space_file.baselines import baselines_of, check_baselines
from harness.space_file.document import Document, python_space, read_space
from harness.space_file.flags import flags_of
from harness.space_file.kernel_checks import kernel_parts
from harness.space_file.legality import PlacedExpression, check_legality
from harness.space_file.messages import validated
from harness.space_file.model import LaunchPlan, SpaceFile
from harness.space_file.parameters import Placed, parameters_of
from harness.space_file.program_checks import program_parts
from harness.space_file.program_model import ProgramSpaceFile
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
    checks.check_names(document, model, placed, written)
    checks.check_work(document, model, inputs)
    baselines = baselines_of(document, model.baselines, parameters, flags.levels)
    sizes = [(at, e) for at, e in written if at[0] == "launch"]
    if isinstance(model, ProgramSpaceFile):
        parts = program_parts(document, model, inputs, written)
    else:
        parts = kernel_parts(document, model, parameters, [size for _, size in sizes])
    constraints = [(at, e) for at, e in written if at[0] == "constraints"] + flags.constraints
    if not document.faults:
        check_legality(document, placed, constraints, sizes, inputs)
    if not document.faults:
        expressions = [expression for _, expression in constraints]
        named = baselines[: len(model.baselines)]
        check_baselines(document, named, parameters, expressions, inputs)
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
        ranges=model.inputs.ranges or {},
        where=model.inputs.where,
        **{"host": path, **parts},
    )


def _shape(document: Document) -> type[SpaceFile] | type[ProgramSpaceFile]:
    if "program" not in document.data:
        return SpaceFile
    for key in ("kernel", "launch"):
        if key in document.data:
            here, there = ("program", key) if key in document.inherited else (key, "program")
            remedy = f"remove `program`, or `{key}`"
            if (base := document.path_of((there,))) != document.path_of((here,)):
                remedy = f"remove `{here}`, or extend another space than {base}, with its `{there}`"
            text = f"a space tunes either a program or a kernel: {remedy}"
            document.fault((), text, here)
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
