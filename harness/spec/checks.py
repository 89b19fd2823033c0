"""What a space must satisfy beyond the shape of its file: names, files, expressions, solutions.

Each check notes all faults that it finds in the Document and goes on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.elimination import Solutions, TooLarge
from harness.errors import ExpressionError
from harness.expression import FUNCTIONS, Expression
from harness.records import LIMIT_NAMES, Input, shown
from harness.sources import Source, read_source
from harness.spec.document import Document
from harness.spec.model import nearest

if TYPE_CHECKING:
    from harness.spec.load import Parameter

HOST_FUNCTIONS = ("arguments", "reference")


@dataclass(frozen=True)
class Files:
    """The kernel's sources by language, and its host module's path."""

    sources: Mapping[str, Source]
    host: Path


@dataclass(frozen=True)
class Expressions:
    """All expressions of a space, parsed; constraints by their place in the list."""

    constraints: Mapping[int, Expression]
    group: tuple[Expression, ...]
    grid: tuple[Expression, ...]


def check_files(document: Document, folder: Path) -> Files:
    """The source and the host module exist, are text, and define what they must."""
    kernel = _section(document, "kernel")
    sources = {
        language: source
        for language, place, name in _named_sources(kernel.get("source"))
        if (source := _source(document, place, folder / name, kernel.get("function"))) is not None
    }
    host = kernel.get("host")
    if isinstance(host, str):
        _check_host(document, folder / host)
    return Files(sources, folder / str(host))


def _section(document: Document, key: str) -> Mapping[str, Any]:
    """A part of the file as it stands: the model has told what is wrong with its shape."""
    found = document.data.get(key)
    return found if isinstance(found, dict) else {}


def _named_sources(given: object) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Language, place in the file and file name of each source."""
    for language in ("cuda", "opencl"):
        if isinstance(given, str):
            yield language, ("kernel", "source"), given
        elif isinstance(given, dict) and isinstance(given.get(language), str):
            yield language, ("kernel", "source", language), given[language]


def _source(
    document: Document, place: tuple[str, ...], path: Path, function: object
) -> Source | None:
    try:
        source = read_source(path)
    except (OSError, ValueError) as error:
        document.fault(place, f"{'.'.join(place)}: {path} {_reason(error)}")
        return None
    if isinstance(function, str) and not source.mentions(function):
        text = f"kernel.function: `{function}` does not occur in {path}"
        document.fault(("kernel", "function"), text)
    return source


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist; paths are relative to the space file"
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)


def _check_host(document: Document, path: Path) -> None:
    """The host module is Python and defines its functions; it is parsed, not run."""
    place = ("kernel", "host")
    try:
        module = ast.parse(path.read_text(encoding="utf-8"), str(path))
    except SyntaxError as error:
        document.fault(place, f"kernel.host: {path}:{error.lineno} is not Python: {error.msg}")
        return
    except (OSError, ValueError) as error:
        document.fault(place, f"kernel.host: {path} {_reason(error)}")
        return
    for function in HOST_FUNCTIONS:
        if function not in _defined(module):
            text = f"kernel.host: {path} must define `{function}`, but defines only "
            document.fault(place, text + (", ".join(sorted(_defined(module))) or "nothing"))


def _defined(module: ast.Module) -> set[str]:
    names = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    for node in module.body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def check_names(
    document: Document, parameters: Sequence[Parameter], features: Sequence[str]
) -> None:
    """No name means two things."""
    taken = {name: "a device limit" for name in LIMIT_NAMES}
    taken |= {name: "a function of expressions" for name in FUNCTIONS}
    for index, feature in enumerate(features):
        _claim(document, taken, feature, "an input feature", ("inputs", "features", index))
    for parameter in parameters:
        if parameter.role == "flag":
            place: tuple[str | int, ...] = ("flags", str(parameter.compiler), parameter.name)
            _claim(document, taken, parameter.name, "a flag", place)
        else:
            place = ("parameters", parameter.name)
            _claim(document, taken, parameter.name, "a parameter", place)


def _claim(
    document: Document, taken: dict[str, str], name: str, kind: str, place: Iterable[str | int]
) -> None:
    # Flags of two compilers may share a name: they never meet in one space.
    if name in taken and not taken[name] == kind == "a flag":
        text = f"`{name}` is {kind}, but the name is already {taken[name]}; rename one of them"
        document.fault(place, text)
    taken.setdefault(name, kind)


def check_expressions(document: Document) -> Expressions:
    """Every expression parses and names only parameters, features and device limits."""
    known = [*_known_names(document), *LIMIT_NAMES]
    launch = _section(document, "launch")
    sizes = {}
    for key in ("group", "grid"):
        found = _parsed(document, ("launch", key), launch.get(key), known)
        sizes[key] = tuple(found.values())
    constraints = _parsed(document, ("constraints",), document.data.get("constraints"), known)
    return Expressions(constraints, sizes["group"], sizes["grid"])


def _known_names(document: Document) -> Iterator[str]:
    yield from _section(document, "parameters")
    for flags in _section(document, "flags").values():
        yield from (name.replace("-", "_") for name in (flags if isinstance(flags, dict) else ()))
    features = _section(document, "inputs").get("features")
    yield from (str(name) for name in (features if isinstance(features, list) else ()))


def _parsed(
    document: Document, place: tuple[str, ...], listed: object, known: list[str]
) -> dict[int, Expression]:
    """The expressions of a list by their index, those that parse."""
    texts = enumerate(listed if isinstance(listed, list) else ())
    found = {
        index: _expression(document, (*place, index), str(text), known)
        for index, text in texts
        if isinstance(text, (str, int)) and not isinstance(text, bool)
    }
    return {index: expression for index, expression in found.items() if expression is not None}


def _expression(
    document: Document, place: tuple[str | int, ...], text: str, known: list[str]
) -> Expression | None:
    where = f"{'.'.join(map(str, place))}: "
    try:
        expression = Expression(text)
    except ExpressionError as error:
        document.fault(place, where + str(error))
        return None
    unknown = sorted(expression.names - set(known))
    for name in unknown:
        text = f"`{name}` in `{expression.text}` is not a parameter, feature or device limit; "
        document.fault(place, where + text + nearest(name, known))
    return None if unknown else expression


def check_use(
    document: Document,
    parameters: Sequence[Parameter],
    expressions: Expressions,
    sources: Mapping[str, Source],
) -> None:
    """A parameter must stand in a source or a launch size, else tuning it changes nothing."""
    in_launch = {name for e in (*expressions.group, *expressions.grid) for name in e.names}
    files = ", ".join(sorted({source.path.name for source in sources.values()}))
    for parameter in parameters:
        used = parameter.name in in_launch or any(
            source.mentions(parameter.name) for source in sources.values()
        )
        if parameter.role != "flag" and not used:
            document.fault(
                ("parameters", parameter.name),
                f"parameters.{parameter.name}: nothing uses it: it stands neither in {files} "
                "nor in a launch size, so that tuning it would change nothing",
            )


def check_inputs(document: Document) -> tuple[Input, ...]:
    """Every input gives every feature and no other, and no input is there twice."""
    section = _section(document, "inputs")
    features, listed = section.get("features"), section.get("values")
    if not isinstance(features, list) or not isinstance(listed, list):
        return ()
    inputs: dict[Input, int] = {}
    for index, values in enumerate(listed):
        if isinstance(values, dict) and _has_features(document, index, values, features):
            given = Input({name: values[name] for name in features})
            if given in inputs:
                text = f"inputs.values.{index}: ({given}) is there already as {inputs[given]}"
                document.fault(("inputs", "values", index), text)
            inputs.setdefault(given, index)
    return tuple(inputs)


def _has_features(
    document: Document, index: int, values: Mapping[str, Any], features: list[str]
) -> bool:
    """Whether an input gives the features and nothing else, all of them numbers."""
    place, where = ("inputs", "values", index), f"inputs.values.{index}: "
    for name in (name for name in features if name not in values):
        document.fault(place, f"{where}needs the feature `{name}`")
    for name in (name for name in values if name not in features):
        text = f"{where}`{name}` is not a feature; {nearest(name, features)}"
        document.fault((*place, name), text)
    return set(values) == set(features) and all(type(v) in (int, float) for v in values.values())


def check_defaults(document: Document, parameters: Sequence[Parameter]) -> None:
    """The default is one of the values, by type as well: 1, 1.0 and true are three values."""
    for parameter in parameters:
        if not _is_value(parameter):
            document.fault(
                ("parameters", parameter.name, "default"),
                f"parameters.{parameter.name}.default: {shown(parameter.default)} "
                f"is not one of its values: {_listed(parameter)}",
            )


def _is_value(parameter: Parameter) -> bool:
    default, values = parameter.default, parameter.values
    if isinstance(values, range):
        return default in values
    return any(type(value) is type(default) and value == default for value in values)


def _listed(parameter: Parameter) -> str:
    values = parameter.values
    if len(values) <= 12:
        return ", ".join(shown(value) for value in values)
    return f"{values[0]}, {values[1]}, ..., {values[-1]}"


def check_solutions(
    document: Document,
    parameters: Sequence[Parameter],
    constraints: Mapping[int, Expression],
    inputs: Sequence[Input],
) -> None:
    """On every input some configuration is legal, and the default is one of them.

    Constraints on device limits wait until there is a device.
    """
    portable = {i: c for i, c in constraints.items() if not c.names & set(LIMIT_NAMES)}
    faulty: set[int] = set()
    for given in inputs:
        _check_each(document, parameters, portable, given, faulty)
        if not faulty and _none_legal(parameters, portable.values(), given):
            document.fault(
                ("constraints",),
                "constraints: each can be satisfied, but no configuration satisfies "
                f"them all on the input ({given})",
            )
            return


def _check_each(
    document: Document,
    parameters: Sequence[Parameter],
    constraints: Mapping[int, Expression],
    given: Input,
    faulty: set[int],
) -> None:
    default = {p.name: p.default for p in parameters} | dict(given)
    for index, constraint in constraints.items():
        if index in faulty:
            continue
        place, where = ("constraints", index), f"constraints.{index}: "
        try:
            if _none_legal(parameters, [constraint], given):
                text = f"no configuration satisfies `{constraint.text}` on the input ({given})"
            else:
                false = constraint.why_false(default)
                text = f"the default configuration is illegal: {false}" if false else ""
        except ExpressionError as error:
            text = str(error)
        if text:
            document.fault(place, where + text)
            faulty.add(index)


def _none_legal(
    parameters: Sequence[Parameter], constraints: Iterable[Expression], given: Input
) -> bool:
    """Whether it is certain that no configuration is legal.

    Where the constraints tie too much together to count, the default decides: it is checked
    against each constraint alone, hence against all of them.
    """
    domains = {p.name: p.values for p in parameters}
    try:
        return Solutions(domains, constraints, given).count == 0
    except TooLarge:
        return False
