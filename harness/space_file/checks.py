"""Check what one value does not show: names, expressions, inputs, defaults, use.

Each check notes every fault that it finds in the Document and goes on.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence

from harness.constraints.expression import FUNCTIONS, WORDS, Expression
from harness.core.kernel_name import plain_name, words_of
from harness.core.records import LIMIT_NAMES, Input, shown
from harness.core.text import counted, suggestion
from harness.source.kernel_source import Source
from harness.space_file.document import Document, Location
from harness.space_file.files import Files
from harness.space_file.input_ranges import draw_inputs
from harness.space_file.legality import PlacedExpression
from harness.space_file.model import Inputs, SpaceFile
from harness.space_file.parameters import Parameter, Placed


def check_names(
    document: Document,
    functions: Iterable[str],
    features: Sequence[str],
    parameters: Iterable[Placed],
) -> None:
    """Check that no name has two meanings."""
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


def check_expressions(
    document: Document, expressions: Iterable[PlacedExpression], known: Iterable[str]
) -> None:
    """Check that expressions name parameters, features and device limits only."""
    names = [*known, *LIMIT_NAMES]
    for location, expression in expressions:
        for name in sorted(expression.names.difference(names)):
            text = f"`{name}` in `{expression.text}` is not a parameter, feature or device limit; "
            document.fault(location, text + suggestion(name, names))


def check_use(
    document: Document,
    model: SpaceFile,
    parameters: Sequence[Parameter],
    files: Files,
    sizes: Iterable[Expression],
) -> None:
    """Check that tuning each parameter changes something: it occurs in a source, in a launch size
    or, as a text, in the host module that gives the launches, and nothing fixes its value."""
    used = {name for size in sizes for name in size.names}
    in_functions = frozenset[str]().union(*map(words_of, model.functions))
    used |= in_functions if "cuda" in files.sources else frozenset()
    from_host = model.launch == "host"
    used |= files.host_words if from_host else frozenset()
    elsewhere = files.host.name if from_host else "a launch size"
    sources = files.sources.values()
    there = ", ".join(sorted({source.path.name for source in sources}))
    _check_template_names(document, parameters, files, in_functions)
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
            document.fault(location, text)
        for reason in dict.fromkeys(source.why_fixed(name) for source in sources):
            if reason is not None:
                document.fault(location, f"cannot be tuned: {reason}")
    for source in {source.path: source for source in sources}.values():
        _check_pragmas(document, source, {parameter.name: parameter for parameter in parameters})


def _check_template_names(
    document: Document,
    parameters: Sequence[Parameter],
    files: Files,
    in_functions: frozenset[str],
) -> None:
    """Check that no macro has the name of a template's parameter: it would break the template's
    head. A parameter in the kernel's name is no macro in the source."""
    source = files.sources.get("cuda")
    declared = source.template_names if source is not None else frozenset()
    for name in sorted(declared - in_functions):
        if any(name == parameter.name for parameter in parameters if parameter.role != "flag"):
            text = (
                f"`{name}` is the name of a template's parameter in the CUDA source, which the "
                f"macro `{name}` would break; give the template its arguments in kernel.function, "
                f"such as `scale<{name}>`, or rename one of the two"
            )
            document.fault(("parameters", name), text)


def _check_pragmas(document: Document, source: Source, parameters: Mapping[str, Parameter]) -> None:
    """Check that no pragma has a typing error, since compilers would ignore it, and that the loops
    of each `#pragma tile` can be tiled, by whole sizes from 0."""
    faults = source.pragma_faults()
    document.faults += faults
    for nest in () if faults else source.nests:
        for size in sorted({loop.size for loop in nest.loops}):
            where = f"{source.path}:{nest.line}: `{size}` in `#pragma tile`"
            if size in parameters:
                wrong = _wrong_sizes(parameters[size])
                if wrong:
                    text = f"{where} needs sizes from 0 (not tiled), but has the value {wrong}"
                    document.fault(("parameters", size), text)
            elif not source.defines(size):
                hint = suggestion(size, parameters)
                text = f"{where} is neither a parameter nor a `#define`; {hint}"
                document.fault(("kernel", "source"), text)


def _wrong_sizes(parameter: Parameter) -> str:
    """Return the first value that is no size of a tile, as text; empty where there is none."""
    values = parameter.values
    listed = values[:1] if isinstance(values, range) else values
    return next((shown(v) for v in listed if type(v) is not int or v < 0), "")


def check_inputs(document: Document, model: Inputs) -> tuple[Input, ...]:
    """Check that each input gives exactly the features, and that no input is there twice; or draw
    the inputs from their ranges."""
    if model.values is None:
        return _drawn_inputs(document, model)
    found: dict[Input, int] = {}
    for index, values in enumerate(model.values):
        location: Location = ("inputs", "values", index)
        if _has_features(document, location, values, model.features):
            problem = Input({name: values[name] for name in model.features})
            if problem in found:
                line = document.line_of(("inputs", "values", found[problem]))
                first = f"on line {line}" if line else f"as inputs.values.{found[problem]}"
                text = f"the input ({problem}) is there already, {first}; give each input once"
                document.fault(location, text)
            found.setdefault(problem, index)
    for name in model.features:
        _check_kinds(document, name, found)
    return tuple(found)


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
    found = draw_inputs(features, ranges, count, condition.allows if condition else lambda _: True)
    if len(found) < count:
        where = f" for which `{condition.text}` holds" if condition else ""
        text = f"is {count}, but only {counted(len(found), 'input')} found in the ranges{where}; "
        text += "lower it, or widen the ranges"
        if not found:
            text = f"no input was found in the ranges{where}; widen the ranges"
        document.fault(("inputs", "count"), text)
    return tuple(found)


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


def check_defaults(document: Document, parameters: Iterable[Placed]) -> None:
    """Check that each default is one of the values; 1, 1.0 and true are different values."""
    for location, parameter in parameters:
        reason = parameter.why_no_value(parameter.default)
        if reason is not None:
            document.fault((*location, "default"), reason)
