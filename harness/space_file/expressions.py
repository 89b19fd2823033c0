"""Parse the expressions of a space file: constraints, launch sizes and `when`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.records import LIMIT_NAMES
from harness.core.text import suggestion
from harness.space_file.document import Document, Location
from harness.space_file.files import section

SHARED: Location = ("launch", "shared")
"""The location of the size of dynamic shared memory."""

CARVEOUT: Location = ("launch", "carveout")
"""The location of the preferred share of shared memory."""


@dataclass(frozen=True)
class Expressions:
    """All parsed expressions of a space, by their index in their list."""

    constraints: Mapping[int, Expression]
    group: Mapping[int, Expression]
    grid: Mapping[int, Expression]
    shared: Expression | None  # bytes of dynamic shared memory
    carveout: Expression | None  # preferred percentage of shared memory
    whens: Mapping[Location, Expression]  # by the place of the parameter or flag

    def launch_sizes(self) -> Iterator[tuple[Location, Expression]]:
        """Yield each size of a launch, those of shared memory included, with its location."""
        for key, sizes in (("group", self.group), ("grid", self.grid)):
            for index, expression in sizes.items():
                yield ("launch", key, index), expression
        for location, size in ((SHARED, self.shared), (CARVEOUT, self.carveout)):
            if size is not None:
                yield location, size


def flag_name(name: str) -> str:
    """Return a compiler flag's name as constraints spell it."""
    return name.replace("-", "_")


def check_expressions(document: Document) -> Expressions:
    """Parse every expression; each may name parameters, features and device limits only."""
    known = _known_names(document)
    launch = section(document, "launch")
    return Expressions(
        _parsed(document, ("constraints",), document.data.get("constraints"), known),
        _parsed(document, ("launch", "group"), launch.get("group"), known),
        _parsed(document, ("launch", "grid"), launch.get("grid"), known),
        _parsed_one(document, SHARED, launch.get("shared"), known),
        _parsed_one(document, CARVEOUT, launch.get("carveout"), known),
        dict(_whens(document, known)),
    )


def _whens(
    document: Document, known: Sequence[str] | None
) -> Iterator[tuple[Location, Expression]]:
    """Yield the `when` of each parameter and flag that has one."""
    listed: list[tuple[Location, Any]] = [
        (("parameters", name), value) for name, value in section(document, "parameters").items()
    ]
    for compiler, flags in section(document, "flags").items():
        if isinstance(flags, dict):
            listed += [(("flags", compiler, name), value) for name, value in flags.items()]
    for location, value in listed:
        text = value.get("when") if isinstance(value, dict) else None
        if isinstance(text, str):
            expression = _expression(document, (*location, "when"), text, known)
            if expression is not None:
                yield location, expression


def _known_names(document: Document) -> list[str] | None:
    """Return the names that expressions may use; None where the file has too few parts to know."""
    parameters = section(document, "parameters")
    features = section(document, "inputs").get("features")
    if not parameters or not isinstance(features, list):
        return None
    flags = section(document, "flags").values()
    flag_names = (
        flag_name(name) for listed in flags if isinstance(listed, dict) for name in listed
    )
    return [*parameters, *flag_names, *map(str, features), *LIMIT_NAMES]


def _parsed(
    document: Document, location: Location, listed: object, known: Sequence[str] | None
) -> dict[int, Expression]:
    """Return the expressions of a list that parse, by their index."""
    parsed = {}
    for index, text in enumerate(listed if isinstance(listed, list) else ()):
        expression = _parsed_one(document, (*location, index), text, known)
        if expression is not None:
            parsed[index] = expression
    return parsed


def _parsed_one(
    document: Document, location: Location, text: object, known: Sequence[str] | None
) -> Expression | None:
    """Return an expression; None where it does not parse, or is none: the model reports that."""
    if not isinstance(text, (str, int)) or isinstance(text, bool):
        return None
    return _expression(document, location, str(text), known)


def _expression(
    document: Document, location: Location, text: str, known: Sequence[str] | None
) -> Expression | None:
    try:
        expression = document.parsed.get(location) or Expression(text)
    except ExpressionError as error:
        document.fault_at(location, str(error))
        return None
    if location[0] != "launch" and expression.is_number:
        message = f"`{expression.text}` is a number, not a condition; compare it, such as "
        document.fault_at(location, f"{message}`{expression.text} <= 1024`")
        return None
    if known is None:
        return expression
    unknown = sorted(expression.names.difference(known))
    for name in unknown:
        message = f"`{name}` in `{expression.text}` is not a parameter, feature or device limit; "
        document.fault_at(location, message + suggestion(name, known))
    return None if unknown else expression
