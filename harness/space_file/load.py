"""Read a space file into a Spec, or report all its faults.

Each check notes every fault that it finds in the Document and goes on.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from harness.constraints.expression import FUNCTIONS, WORDS
from harness.core.errors import ExpressionError, Fault, SpecError
from harness.core.kernel_name import plain_name
from harness.core.records import LIMIT_NAMES, Input
from harness.core.text import counted, suggestion
from harness.space_file.baselines import baselines_of, check_baselines
from harness.space_file.document import Document, Location, python_space, read_space
from harness.space_file.flags import flags_of
from harness.space_file.input_ranges import draw_inputs
from harness.space_file.kernel_checks import kernel_parts, python_parts
from harness.space_file.legality import PlacedExpression, check_legality
from harness.space_file.messages import validated
from harness.space_file.model import (
    AnyKernelSpaceFile,
    Inputs,
    LaunchPlan,
    PythonSpaceFile,
    SpaceFile,
)
from harness.space_file.parameters import Placed, parameters_of
from harness.space_file.program_checks import program_parts
from harness.space_file.program_model import ProgramSpaceFile, SpaceModel
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
    inputs = _check_inputs(document, model.inputs)
    written = _written(model, placed)
    _check_names(document, model, placed, written)
    _check_work(document, model, inputs)
    baselines = baselines_of(document, model.baselines, parameters)
    sizes = [(at, e) for at, e in written if at[0] == "launch"]
    if isinstance(model, ProgramSpaceFile):
        parts = program_parts(document, model, inputs, written)
    elif isinstance(model, PythonSpaceFile):
        parts = python_parts(document, model)
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


def _shape(document: Document) -> type[SpaceModel]:
    if "program" not in document.data:
        kernel = document.data.get("kernel")
        in_python = isinstance(kernel, Mapping) and "python" in kernel
        return PythonSpaceFile if in_python else SpaceFile
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


def _written(model: SpaceModel, placed: Sequence[Placed]) -> list[PlacedExpression]:
    """Return the expressions of a file with their places."""
    expressions: list[PlacedExpression] = [
        (("constraints", index), constraint) for index, constraint in enumerate(model.constraints)
    ]
    expressions += (((*at, "when"), p.when) for at, p in placed if p.when is not None)
    launch = model.launch if isinstance(model, SpaceFile) else None
    if isinstance(launch, LaunchPlan):
        for key, sizes in (("group", launch.group), ("grid", launch.grid)):
            expressions += ((("launch", key, index), size) for index, size in enumerate(sizes))
        for key, size in (("shared", launch.shared), ("carveout", launch.carveout)):
            expressions += [(("launch", key), size)] if size is not None else []
    return expressions


# --------------------------------------------------------------------------- names and inputs


def _check_names(
    document: Document,
    model: SpaceModel,
    placed: Sequence[Placed],
    expressions: Iterable[PlacedExpression],
) -> None:
    """Check that no name has two meanings, that expressions name parameters, features and device
    limits only, and that each default is one of the values; 1, 1.0 and true are different ones."""
    features = model.inputs.features
    _check_meanings(document, model.functions, features, placed)
    for location, parameter in placed:
        reason = parameter.why_no_value(parameter.default)
        if reason is not None:
            document.fault((*location, "default"), reason)
    names = [*(p.name for _, p in placed), *features, *LIMIT_NAMES]
    for index, name in enumerate(model.search.same_on_all_inputs):
        if name not in (known := [p.name for _, p in placed]):
            text = f"`{name}` is not a parameter; {suggestion(name, known)}"
            document.fault(("search", "same_on_all_inputs", index), text)
    for location, expression in expressions:
        for name in sorted(expression.names.difference(names)):
            text = f"`{name}` in `{expression.text}` is not a parameter, feature or device limit; "
            document.fault(location, text + suggestion(name, names))


def _check_meanings(
    document: Document,
    functions: Iterable[str],
    features: Sequence[str],
    parameters: Iterable[Placed],
) -> None:
    taken = dict.fromkeys(LIMIT_NAMES, "a device limit")
    taken |= dict.fromkeys(FUNCTIONS, "a function of expressions")
    taken |= dict.fromkeys((*WORDS, *keyword.kwlist), "a word of expressions")
    taken |= dict.fromkeys(map(plain_name, functions), "the kernel's function")
    for index, feature in enumerate(features):
        _claim(document, taken, feature, "an input feature", ("inputs", "features", index))
    of_compilers: dict[str, dict[str, str]] = {}
    for location, parameter in parameters:
        if parameter.compiler is None:
            _claim(document, taken, parameter.name, "a parameter", location)
        else:
            # Flags of two compilers may share a name, as they are never tuned together.
            own = of_compilers.setdefault(parameter.compiler, dict(taken))
            _claim(document, own, parameter.name, "a flag", location)


def _claim(
    document: Document, taken: dict[str, str], name: str, kind: str, location: Location
) -> None:
    if name in taken:
        text = f"`{name}` cannot name {kind}: it is {taken[name]} already; choose another name"
        if taken[name] == kind:
            alike = ", as - counts as _" if kind == "a flag" else ""
            text = f"`{name}` is there twice{alike}; give each name once"
        document.fault(location, text)
    taken.setdefault(name, kind)


def _check_work(document: Document, model: SpaceModel, inputs: Sequence[Input]) -> None:
    """Check that the work can be computed on each input, of features alone, and is there where the
    search needs it."""
    work = model.work if isinstance(model, AnyKernelSpaceFile) else None
    if work is None:
        if model.search.stop_at is not None:
            text = "needs `work: {bytes: .., flops: ..}` of a kernel, to be a fraction of the peak"
            document.fault(("search", "stop_at"), text)
        return
    features = model.inputs.features
    for kind, expression in work.expressions.items():
        for name in sorted(expression.names.difference(features)):
            text = f"`{name}` in `{expression.text}` is not a feature; {suggestion(name, features)}"
            document.fault(("work", kind), text)
    if not document.faults:
        try:
            for problem in inputs:
                work.of(problem)
        except ExpressionError as error:
            document.fault(("work",), str(error))


def _check_inputs(document: Document, model: Inputs) -> tuple[Input, ...]:
    """Check that each input gives exactly the features, and that no input is there twice; or draw
    the inputs from their ranges."""
    if model.values is None:
        return _drawn_inputs(document, model)
    lines: dict[Input, int] = {}
    for index, values in enumerate(model.values):
        location: Location = ("inputs", "values", index)
        if _has_features(document, location, values, model.features):
            problem = Input({name: values[name] for name in model.features})
            if problem in lines:
                line = document.line_of(("inputs", "values", lines[problem]))
                first = f"on line {line}" if line else f"as inputs.values.{lines[problem]}"
                text = f"the input ({problem}) is there already, {first}; give each input once"
                document.fault(location, text)
            lines.setdefault(problem, index)
    for name in model.features:
        _check_kinds(document, name, lines)
    return tuple(lines)


def _drawn_inputs(document: Document, model: Inputs) -> tuple[Input, ...]:
    """Draw inputs from ranges; none where these are faulty."""
    features, ranges, condition = model.features, model.ranges or {}, model.where
    fits = _has_features(document, ("inputs", "ranges"), ranges, features)
    for name in sorted(condition.names.difference(features)) if condition else ():
        text = f"`{name}` is not a feature; {suggestion(name, features)}"
        document.fault(("inputs", "where"), text)
        fits = False
    if not fits:
        return ()
    count = model.count or 1
    drawn = draw_inputs(features, ranges, count, condition.allows if condition else lambda _: True)
    if len(drawn) < count:
        where = f" for which `{condition.text}` holds" if condition else ""
        text = f"is {count}, but only {counted(len(drawn), 'input')} found in the ranges{where}; "
        text += "lower it, or widen the ranges"
        if not drawn:
            text = f"no input was found in the ranges{where}; widen the ranges"
        document.fault(("inputs", "count"), text)
    return tuple(drawn)


def _check_kinds(document: Document, name: str, inputs: Mapping[Input, int]) -> None:
    """Refuse a feature that is a number on some inputs and a word on others: it is mistyped."""
    words = [index for problem, index in inputs.items() if isinstance(problem[name], str)]
    if 0 < len(words) < len(inputs):
        location: Location = ("inputs", "values", words[0], name)
        text = f"`{name}` is a word here and a number on other inputs; use one kind for all"
        document.fault(location, text)


def _has_features(
    document: Document, location: Location, given: Iterable[str], features: Sequence[str]
) -> bool:
    """Whether exactly the features are given."""
    for name in (name for name in features if name not in given):
        text = f"needs the feature `{name}`, which inputs.features lists"
        document.fault(location, text)
    for name in (name for name in given if name not in features):
        text = f"`{name}` is not a feature; {suggestion(name, features)}"
        document.fault(location, text, name)
    return set(given) == set(features)


# ------------------------------------------------------------------------------ several spaces


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
    """Return one schema for all kinds of spaces: with a program, a kernel or a Python callable."""
    models = (SpaceFile, ProgramSpaceFile, PythonSpaceFile)
    _, schema = models_json_schema([(model, "validation") for model in models])
    required = [schema["$defs"][model.__name__].pop("required") for model in models]
    kernel, program, python = ({"$ref": f"#/$defs/{model.__name__}"} for model in models)
    has_callable = {"required": ["kernel"], "properties": {"kernel": {"required": ["python"]}}}
    return {"title": "harness space", "type": "object", **schema} | {
        "if": {"required": ["extends"]},
        "then": {"required": ["name"], "anyOf": [kernel, program, python]},
        "else": {
            "if": {"required": ["program"]},
            "then": {**program, "required": required[1]},
            "else": {
                "if": has_callable,
                "then": {**python, "required": required[2]},
                "else": {**kernel, "required": required[0]},
            },
        },
    }
