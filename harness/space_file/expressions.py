"""The expressions of a space file: constraints, launch sizes and `when`, parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.records import LIMIT_NAMES
from harness.core.text import suggestion
from harness.space_file.document import Document, Place
from harness.space_file.files import section
from harness.space_file.messages import told_at


@dataclass(frozen=True)
class Expressions:
    """All expressions of a space, parsed, by their place in their list."""

    constraints: Mapping[int, Expression]
    group: Mapping[int, Expression]
    grid: Mapping[int, Expression]
    whens: Mapping[Place, Expression]  # by the place of the parameter or flag

    def launch_sizes(self) -> Iterator[tuple[Place, Expression]]:
        """The launch sizes and where each stands."""
        for key, sizes in (("group", self.group), ("grid", self.grid)):
            for index, expression in sizes.items():
                yield ("launch", key, index), expression


def flag_name(name: str) -> str:
    """A compiler flag's name as constraints can say it."""
    return name.replace("-", "_")


def check_expressions(document: Document) -> Expressions:
    """Every expression parses and names only parameters, features and device limits."""
    known = _known_names(document)
    launch = section(document, "launch")
    return Expressions(
        _parsed(document, ("constraints",), document.data.get("constraints"), known),
        _parsed(document, ("launch", "group"), launch.get("group"), known),
        _parsed(document, ("launch", "grid"), launch.get("grid"), known),
        dict(_whens(document, known)),
    )


def _whens(document: Document, known: Sequence[str] | None) -> Iterator[tuple[Place, Expression]]:
    """Of each parameter and flag that has one, its `when`."""
    listed: list[tuple[Place, Any]] = [
        (("parameters", name), value) for name, value in section(document, "parameters").items()
    ]
    for compiler, flags in section(document, "flags").items():
        if isinstance(flags, dict):
            listed += [(("flags", compiler, name), value) for name, value in flags.items()]
    for place, value in listed:
        text = value.get("when") if isinstance(value, dict) else None
        if isinstance(text, str):
            expression = _expression(document, (*place, "when"), text, known)
            if expression is not None:
                yield place, expression


def _known_names(document: Document) -> list[str] | None:
    """What expressions may name; None where too little can be read to say."""
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
    document: Document, place: Place, listed: object, known: Sequence[str] | None
) -> dict[int, Expression]:
    """The expressions of a list by their index, those that parse."""
    parsed = {}
    for index, text in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(text, (str, int)) and not isinstance(text, bool):
            expression = _expression(document, (*place, index), str(text), known)
            if expression is not None:
                parsed[index] = expression
    return parsed


def _expression(
    document: Document, place: Place, text: str, known: Sequence[str] | None
) -> Expression | None:
    try:
        expression = document.parsed.get(place) or Expression(text)
    except ExpressionError as error:
        document.fault(place, told_at(place, str(error)))
        return None
    if place[0] != "launch" and expression.is_number:
        told = f"`{expression.text}` is a number, not a condition; compare it, such as "
        document.fault(place, told_at(place, f"{told}`{expression.text} <= 1024`"))
        return None
    if known is None:
        return expression
    unknown = sorted(expression.names.difference(known))
    for name in unknown:
        told = f"`{name}` in `{expression.text}` is not a parameter, feature or device limit; "
        document.fault(place, told_at(place, told + suggestion(name, known)))
    return None if unknown else expression
