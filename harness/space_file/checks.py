"""Check what one value does not show: names, expressions, inputs, defaults.

Each check notes every fault that it finds in the Document and goes on.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence

from harness.constraints.expression import FUNCTIONS, WORDS
from harness.core.errors import ExpressionError
from harness.core.kernel_name import plain_name
from harness.core.records import LIMIT_NAMES, Input
from harness.core.text import counted, suggestion
from harness.space_file.document import Document, Location
from harness.space_file.input_ranges import draw_inputs
from harness.space_file.legality import PlacedExpression
from harness.space_file.model import Inputs, SpaceFile
from harness.space_file.parameters import Placed
from harness.space_file.program_model import ProgramSpaceFile


def check_names(
    document: Document,
    model: SpaceFile | ProgramSpaceFile,
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


def check_work(
    document: Document, model: SpaceFile | ProgramSpaceFile, inputs: Sequence[Input]
) -> None:
    """Check that the work can be computed on each input, of features alone, and is there where the
    search needs it."""
    work = model.work if isinstance(model, SpaceFile) else None
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
