"""Baselines: the configurations that every winner is compared with.

The default is one. A space names others, each by the values that differ from the default's. Where
a space tunes a compiler's optimisation level, which harness knows by its spelling, the levels 0 to
3 are baselines too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.records import LIMIT_NAMES, Config, Input, Value
from harness.core.text import suggestion
from harness.space_file.document import Document, Location
from harness.space_file.legality import by_compiler
from harness.space_file.parameters import Parameter

_LEVEL = re.compile(
    r"(^|[ =,])(-O|--?optimize[ =]|--?(cl-nv-)?opt-level[ =])(?P<level>[0-3])$|^-cl-opt-disable$"
)
"""Options that set a level from 0 to 3: of gcc and clang, nvcc, ptxas, or an OpenCL driver."""


@dataclass(frozen=True)
class Baseline:
    """A named configuration: the default with these values."""

    name: str
    values: tuple[tuple[str, Value], ...]

    def config(self, parameters: Sequence[Parameter]) -> Config | None:
        """Return the configuration; None where it sets another parameter than these, such as a
        flag of another compiler."""
        default = {p.name: p.default for p in parameters}
        if not {name for name, _ in self.values} <= set(default):
            return None
        return Config({**default, **dict(self.values)})


def level_of(name: str) -> str | None:
    """Return the level that a baseline's name spells, as `-O2`, whatever its compiler; None where
    it spells none."""
    match = _LEVEL.search(name)
    return f"-O{match['level']}" if match and match["level"] else None


def baselines_of(
    document: Document, named: Mapping[str, Mapping[str, Value]], parameters: Sequence[Parameter]
) -> tuple[Baseline, ...]:
    """Return the baselines that the space names, then its compilers' levels that it does not name;
    note the faults of the named."""
    baselines = [_named(document, name, values, parameters) for name, values in named.items()]
    there = {baseline.values for baseline in baselines}
    for parameter in parameters:
        for value in _spelled_levels(parameter):
            values = ((parameter.name, value),)
            if values not in there:
                baselines.append(Baseline(_spelled(parameter, value), values))
    return tuple(baselines)


def _named(
    document: Document, baseline: str, values: Mapping[str, Value], parameters: Sequence[Parameter]
) -> Baseline:
    """Return a named baseline with flags spelled as in constraints, and note its faults."""
    named: dict[str, Value] = {}
    for spelled, value in values.items():
        name = spelled.replace("-", "_")
        message = _why_not(name, value, parameters)
        if message is not None:
            document.fault(("baselines", baseline, spelled), message)
        named[name] = value
    if baseline == "default":
        text = "is the name of the space's own default; choose another name"
        document.fault(("baselines", baseline), text)
    if not values:
        text = "sets nothing, so it is the default, which is always a baseline; remove it"
        document.fault(("baselines", baseline), text)
    return Baseline(baseline, tuple(sorted(named.items())))


def _spelled_levels(parameter: Parameter) -> Iterator[Value]:
    """Yield the values that spell a level; of a range, which may be huge, only 0 to 3 are tried."""
    there = parameter.values
    some = (v for v in range(4) if v in there) if isinstance(there, range) else there
    return (v for v in some if _LEVEL.search(_spelled(parameter, v)))


def _spelled(parameter: Parameter, value: Value) -> str:
    return " ".join(parameter.options(value))


def _why_not(name: str, value: Value, parameters: Sequence[Parameter]) -> str | None:
    reasons = [p.why_no_value(value) for p in parameters if p.name == name]
    if not reasons:
        return (
            f"`{name}` is not a parameter or flag; {suggestion(name, {p.name for p in parameters})}"
        )
    return None if None in reasons else reasons[0]


def check_baselines(
    document: Document,
    baselines: Sequence[Baseline],
    parameters: Sequence[Parameter],
    constraints: Sequence[Expression],
    inputs: Sequence[Input],
) -> None:
    """Check that each of these baselines is legal on some input, as far as that needs no device."""
    together = list(by_compiler(parameters))
    for baseline in baselines:
        location: Location = ("baselines", baseline.name)
        configs = [config for tuned in together if (config := baseline.config(tuned))]
        reasons = [_why_illegal(c, constraints, i) for c in configs for i in inputs]
        if not configs:
            text = (
                "sets flags of several compilers, which are never tuned together; "
                "name one baseline for each"
            )
            document.fault(location, text)
        elif None not in reasons:
            document.fault(location, f"is illegal on every input: {reasons[0]}")


def _why_illegal(config: Config, constraints: Iterable[Expression], problem: Input) -> str | None:
    values, limits = {**config, **problem}, set(LIMIT_NAMES)
    try:
        reasons = (c.why_false(values) for c in constraints if not c.names & limits)
        return next(filter(None, reasons), None)
    except ExpressionError as error:
        return str(error)
