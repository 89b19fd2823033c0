"""Check what the shape of a space file does not: names, expressions, inputs, defaults.

Each check notes every fault that it finds in the Document and goes on.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from harness.constraints.expression import FUNCTIONS, WORDS
from harness.core.errors import ExpressionError
from harness.core.kernel_name import plain_name, words_of
from harness.core.records import LIMIT_NAMES, Input, shown
from harness.core.text import counted, suggestion
from harness.source.kernel_source import Source
from harness.space_file.document import Document, Location, located
from harness.space_file.expressions import Expressions, flag_name
from harness.space_file.files import Files, section
from harness.space_file.input_ranges import draw_inputs, parsed_condition
from harness.space_file.model import Inputs, SpaceFile
from harness.space_file.parameters import Parameter
from harness.space_file.program_model import ProgramSpaceFile

_SHOWN_VALUES = 12


def check_names(document: Document, model: SpaceFile | ProgramSpaceFile) -> None:
    """Check that no name has two meanings."""
    taken = dict.fromkeys(LIMIT_NAMES, "a device limit")
    taken |= dict.fromkeys(FUNCTIONS, "a function of expressions")
    taken |= dict.fromkeys((*WORDS, *keyword.kwlist), "a word of expressions")
    taken |= dict.fromkeys(map(plain_name, model.functions), "the kernel's function")
    for index, feature in enumerate(model.inputs.features):
        _claim(document, taken, feature, "an input feature", ("inputs", "features", index))
    for name in model.parameters:
        _claim(document, taken, name, "a parameter", ("parameters", name))
    for compiler, flags in model.flag_groups.items():
        # Flags of two compilers may share a name, as they are never tuned together.
        own = dict(taken)
        for name in flags:
            _claim(document, own, flag_name(name), "a flag", ("flags", compiler, name))


def _claim(
    document: Document, taken: dict[str, str], name: str, kind: str, location: Location
) -> None:
    if name in taken:
        text = f"`{name}` cannot name {kind}: it is {taken[name]} already; choose another name"
        if taken[name] == kind:
            alike = ", as - counts as _" if kind == "a flag" else ""
            text = f"`{name}` is there twice{alike}; give each name once"
        document.fault_at(location, text)
    taken.setdefault(name, kind)


def check_use(
    document: Document,
    parameters: Sequence[Parameter],
    expressions: Expressions,
    files: Files,
) -> None:
    """Check that tuning each parameter changes something: it occurs in a source, in a launch size
    or, as a text, in the host module that gives the launches, and nothing fixes its value."""
    used = {name for _, size in expressions.launch_sizes() for name in size.names}
    used |= _in_functions(document) if "cuda" in files.sources else frozenset()
    from_host = document.data.get("launch") == "host"
    used |= files.host_words if from_host else frozenset()
    elsewhere = files.host.name if from_host else "a launch size"
    sources = files.sources.values()
    there = ", ".join(sorted({source.path.name for source in sources}))
    _check_template_names(document, parameters, files)
    for parameter in parameters:
        name, location = parameter.name, ("parameters", parameter.name)
        in_source = any(source.uses(name) for source in sources)
        if parameter.role != "flag" and name not in used and not in_source:
            is_defined = any(source.mentions(name) for source in sources)
            where = (
                f"stands in {there} only where it is defined, or in comments"
                if is_defined
                else f"stands neither in {there} nor in {elsewhere}"
            )
            text = (
                f"nothing uses it: `{name}` {where}, so "
                "tuning it would change nothing; spell it as the source does, or remove it"
            )
            document.fault_at(location, text)
        for reason in dict.fromkeys(source.why_fixed(name) for source in sources):
            if reason is not None:
                document.fault_at(location, f"cannot be tuned: {reason}")
    for source in {source.path: source for source in sources}.values():
        _check_pragmas(document, source, {parameter.name: parameter for parameter in parameters})


def _check_template_names(
    document: Document, parameters: Sequence[Parameter], files: Files
) -> None:
    """Check that no macro has the name of a template's parameter: it would break the template's
    head. A parameter in the kernel's name is no macro in the source."""
    source = files.sources.get("cuda")
    declared = source.template_names if source is not None else frozenset()
    for name in sorted(declared - _in_functions(document)):
        if any(name == parameter.name for parameter in parameters if parameter.role != "flag"):
            text = (
                f"`{name}` is the name of a template's parameter in the CUDA source, which the "
                f"macro `{name}` would break; give the template its arguments in kernel.function, "
                f"such as `scale<{name}>`, or rename one of the two"
            )
            document.fault_at(("parameters", name), text)


def _in_functions(document: Document) -> frozenset[str]:
    """Return the words of the kernels' names, such as template arguments."""
    named = section(document, "kernel").get("function")
    listed = named if isinstance(named, list) else [named]
    return frozenset().union(*(words_of(name) for name in listed if isinstance(name, str)))


def _check_pragmas(document: Document, source: Source, parameters: Mapping[str, Parameter]) -> None:
    """Check that no pragma has a typing error, since compilers would ignore it, and that the loops
    of each `#pragma tile` can be tiled, by whole sizes from 0."""
    document.faults += source.misspelt_pragmas()
    faults = source.nest_faults()
    document.faults += faults
    for nest in () if faults else source.nests:
        for size in sorted({loop.size for loop in nest.loops}):
            where = f"{source.path}:{nest.line}: `{size}` in `#pragma tile`"
            if size in parameters:
                wrong = _wrong_sizes(parameters[size])
                if wrong:
                    text = f"{where} needs sizes from 0 (not tiled), but has the value {wrong}"
                    document.fault_at(("parameters", size), text)
            elif not source.defines(size):
                hint = suggestion(size, parameters)
                text = f"{where} is neither a parameter nor a `#define`; {hint}"
                document.fault_at(("kernel", "source"), text)


def _wrong_sizes(parameter: Parameter) -> str:
    """Return the first value that is no size of a tile, as text; empty where there is none."""
    values = parameter.values
    listed = values[:1] if isinstance(values, range) else values
    return next((shown(v) for v in listed if type(v) is not int or v < 0), "")


def check_inputs(document: Document) -> tuple[Input, ...]:
    """Check that each input gives exactly the features, and that no input is there twice; or draw
    the inputs from their ranges."""
    inputs = section(document, "inputs")
    if "ranges" in inputs:
        return _drawn_inputs(document, inputs)
    features, listed = inputs.get("features"), inputs.get("values")
    if not isinstance(features, list) or not isinstance(listed, list):
        return ()
    names = [name for name in features if isinstance(name, str)]
    found: dict[Input, int] = {}
    for index, values in enumerate(listed):
        if isinstance(values, dict) and _has_features(document, index, values, names):
            _add_input(document, index, Input({name: values[name] for name in names}), found)
    for name in names:
        _check_kinds(document, name, found)
    return tuple(found)


def _drawn_inputs(document: Document, inputs: Mapping[str, Any]) -> tuple[Input, ...]:
    """Draw inputs from ranges; none where these are faulty, which the model reports."""
    try:
        model = Inputs.model_validate(inputs)
    except ValidationError:
        return ()
    features, ranges = model.features, model.ranges or {}
    location: Location = ("inputs", "ranges")
    for name in (name for name in features if name not in ranges):
        document.fault_at(location, f"needs the feature `{name}`, which inputs.features lists")
    for name in (name for name in ranges if name not in features):
        text = f"`{name}` is not a feature; {suggestion(name, features)}"
        document.fault((*location, name), located(location, text))
    if set(ranges) != set(features):
        return ()
    try:
        condition = parsed_condition(model.where, features)
    except ExpressionError as error:
        document.fault_at(("inputs", "where"), str(error))
        return ()
    count = model.count or 1
    found = draw_inputs(features, ranges, count, condition.holds if condition else lambda _: True)
    if len(found) < count:
        where = f" for which `{model.where}` holds" if model.where else ""
        text = f"is {count}, but only {counted(len(found), 'input')} found in the ranges{where}; "
        text += "lower it, or widen the ranges"
        if not found:
            text = f"no input was found in the ranges{where}; widen the ranges"
        document.fault_at(("inputs", "count"), text)
    return tuple(found)


def _check_kinds(document: Document, name: str, inputs: Mapping[Input, int]) -> None:
    """Refuse a feature that is a number on some inputs and a word on others: it is mistyped."""
    words = [index for problem, index in inputs.items() if isinstance(problem[name], str)]
    if 0 < len(words) < len(inputs):
        location: Location = ("inputs", "values", words[0], name)
        text = f"`{name}` is a word here and a number on other inputs; use one kind for all"
        document.fault_at(location, text)


def _add_input(document: Document, index: int, problem: Input, found: dict[Input, int]) -> None:
    location: Location = ("inputs", "values", index)
    if problem in found:
        line = document.line_of(("inputs", "values", found[problem]))
        first = f"on line {line}" if line else f"as inputs.values.{found[problem]}"
        text = f"the input ({problem}) is there already, {first}; give each input once"
        document.fault_at(location, text)
    found.setdefault(problem, index)


def _has_features(
    document: Document, index: int, values: Mapping[str, Any], features: Sequence[str]
) -> bool:
    """Whether an input gives exactly the features, as finite numbers or words."""
    location: Location = ("inputs", "values", index)
    for name in (name for name in features if name not in values):
        text = f"needs the feature `{name}`, which inputs.features lists"
        document.fault_at(location, text)
    for name in (name for name in values if name not in features):
        text = f"`{name}` is not a feature; {suggestion(name, features)}"
        document.fault((*location, name), located(location, text))
    usable = [
        v
        for v in values.values()
        if type(v) is str or (type(v) in (int, float) and math.isfinite(v))
    ]
    return set(values) == set(features) and len(usable) == len(values)


def check_defaults(document: Document, parameters: Sequence[Parameter]) -> None:
    """Check that each default is one of the values; 1, 1.0 and true are different values."""
    for parameter in parameters:
        if not parameter.allows(parameter.default):
            location = ("parameters", parameter.name, "default")
            text = f"{shown(parameter.default)} is not one of its values: {_listed(parameter)}"
            equal = [shown(value) for value in parameter.values if value == parameter.default]
            hint = f"; {equal[0]} equals it but has another type: write that" if equal else ""
            document.fault_at(location, text + hint)


def _listed(parameter: Parameter) -> str:
    values = parameter.values
    if len(values) <= _SHOWN_VALUES:
        return ", ".join(map(shown, values))
    return f"{shown(values[0])}, {shown(values[1])}, ..., {shown(values[-1])}"
