"""Baselines: the configurations that a winner is always measured beside.

The default is one. A space names others, each by the values that differ from the default's; and
where it tunes the level of optimisation of a compiler, the levels 0 to 3 are baselines by
themselves: a catalogue names its level flags, and a space's own are told by their spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.records import LIMIT_NAMES, Config, Input, Value, shown
from harness.core.text import suggestion
from harness.space_file.document import Document, Place
from harness.space_file.messages import told_at

if TYPE_CHECKING:
    from harness.space_file.parameters import Parameter

_LEVEL = re.compile(
    r"(^|[ =,])(-O|--?optimize[ =]|--?(cl-nv-)?opt-level[ =])[0-3]$|^-cl-opt-disable$"
)
"""Words that set a level from 0 to 3: of gcc and clang, nvcc, ptxas, or a driver of OpenCL."""

Levels = Mapping[tuple[str | None, str], Sequence[Value]]
"""Of flags by compiler and name, the values that are baselines."""


@dataclass(frozen=True)
class Baseline:
    """A configuration by name: the default with these values in it."""

    name: str
    values: tuple[tuple[str, Value], ...]

    def config(self, parameters: Sequence[Parameter]) -> Config | None:
        """The configuration; None where it sets what is not among these parameters, such as a
        flag of another compiler."""
        default = {p.name: p.default for p in parameters}
        if not {name for name, _ in self.values} <= set(default):
            return None
        return Config({**default, **dict(self.values)})


def baselines_of(
    named: Mapping[str, Mapping[str, Value]], parameters: Sequence[Parameter], levels: Levels
) -> tuple[Baseline, ...]:
    """Those that the space names, then the levels of its compilers that it does not; `levels` are
    those of flags from catalogues."""
    found = [Baseline(name, tuple(sorted(values.items()))) for name, values in named.items()]
    known = {baseline.values for baseline in found}
    for parameter in parameters:
        named_levels = levels.get((parameter.compiler, parameter.name))
        for value in _spelled_levels(parameter) if named_levels is None else named_levels:
            values = ((parameter.name, value),)
            if values not in known:
                found.append(Baseline(_spelled(parameter, value), values))
    return tuple(found)


def _spelled_levels(parameter: Parameter) -> Iterator[Value]:
    """Of a range, which may have 2^53 values, only what can be a level is looked at."""
    there = parameter.values
    some = (v for v in range(4) if v in there) if isinstance(there, range) else there
    return (v for v in some if _LEVEL.search(_spelled(parameter, v)))


def _spelled(parameter: Parameter, value: Value) -> str:
    return " ".join(parameter.options(value))


def normalised(
    document: Document, given: Mapping[str, Mapping[str, Value]], parameters: Sequence[Parameter]
) -> dict[str, dict[str, Value]]:
    """The named baselines with flags as constraints name them; what is wrong with one is noted."""
    by_name: dict[str, list[Parameter]] = {}
    for parameter in parameters:
        by_name.setdefault(parameter.name, []).append(parameter)
    found: dict[str, dict[str, Value]] = {}
    for baseline, values in given.items():
        for spelled, value in values.items():
            place: Place = ("baselines", baseline, spelled)
            name = spelled.replace("-", "_")
            told = _why_not(name, value, by_name)
            if told is not None:
                document.fault(place, told_at(place, told))
            found.setdefault(baseline, {})[name] = value
        if baseline == "default":
            place = ("baselines", baseline)
            text = "is what the space's own default is called; choose another name"
            document.fault(place, told_at(place, text))
        if not values:
            place = ("baselines", baseline)
            text = "sets nothing: it is the default, which is a baseline in any case"
            document.fault(place, told_at(place, text))
    return found


def _why_not(name: str, value: Value, by_name: Mapping[str, Sequence[Parameter]]) -> str | None:
    tuned = by_name.get(name)
    if tuned is None:
        return f"`{name}` is not a parameter or flag; {suggestion(name, by_name)}"
    if any(parameter.allows(value) for parameter in tuned):
        return None
    first, *rest = tuned[0].values[:12]
    more = ", ..." if len(tuned[0].values) > 12 else ""
    listed = ", ".join(map(shown, (first, *rest)))
    return f"{shown(value)} is not one of its values: {listed}{more}"


def check_baselines(
    document: Document,
    baselines: Sequence[Baseline],
    parameters: Sequence[Sequence[Parameter]],
    constraints: Mapping[int, Expression],
    inputs: Sequence[Input],
) -> None:
    """Every baseline that the space names is legal on some input, as far as that needs no device.

    `parameters` are those that meet, of each compiler.
    """
    for baseline in baselines:
        place: Place = ("baselines", baseline.name)
        if place not in document.lines:
            continue  # a level of a compiler: where constraints forbid it, it is none
        configs = [config for tuned in parameters if (config := baseline.config(tuned))]
        reasons = [_why_illegal(c, constraints.values(), i) for c in configs for i in inputs]
        if not configs:
            text = "sets flags of several compilers, which never meet; name one baseline for each"
            document.fault(place, told_at(place, text))
        elif None not in reasons:
            document.fault(place, told_at(place, f"is illegal on every input: {reasons[0]}"))


def _why_illegal(config: Config, constraints: Iterable[Expression], given: Input) -> str | None:
    values = {**config, **given}
    for constraint in constraints:
        if constraint.names & set(LIMIT_NAMES):
            continue
        try:
            told = constraint.why_false(values)
        except ExpressionError as error:
            return str(error)
        if told is not None:
            return told
    return None
