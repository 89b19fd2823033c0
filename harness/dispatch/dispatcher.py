"""A dispatcher, complete and ready to be written as code: program, features, provenance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness import __version__
from harness.core.errors import UsageError
from harness.core.program import FlagFile
from harness.core.records import Environment, Value
from harness.dispatch.choice import DispatchProgram
from harness.dispatch.features import INT64_MAX, Feature, Type
from harness.dispatch.guards import FALSE, TRUE, Formula, Translator, conjunction
from harness.dispatch.verdict import Slowdowns
from harness.models.columns import ColumnKind
from harness.space_file import LaunchPlan
from harness.space_file.program import CommandLine


@dataclass(frozen=True)
class Provenance:
    """Where a dispatcher comes from; `verdict` is the printed text, in lines, and `slowdowns` its
    figures.

    `program_sha256` is the digest of the measured kernel source, host module and launch; `inputs`
    counts the inputs it was learnt from; `choice` names the dispatcher.
    """

    environment: Environment
    program_sha256: str
    databases: tuple[str, ...]
    inputs: int
    choice: str
    date: str
    verdict: tuple[str, ...]
    harness_version: str = __version__
    slowdowns: tuple[Slowdowns, ...] = ()


@dataclass(frozen=True)
class KernelFile:
    """A file that a candidate is launched from, a complete source, a cubin or a program, with its
    build options; in a cubin, `symbols` are the names by which the driver knows the kernels."""

    name: str
    content: bytes
    options: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dispatcher:
    """A program, ready to be written; raises ExpressionError or UsageError for what cannot be.

    `features` are in the order of the functions' arguments. `constants` are what guards and launch
    sizes may name besides features and a candidate's parameters: the device's numbers, and flags of
    another compiler. `kernels` has a file for each candidate, or is empty. `flag_files` are the
    files that candidates' flags pass to the compiler. `launcher` is that of a program.
    """

    name: str
    title: str
    functions: tuple[str, ...]
    features: tuple[Feature, ...]
    program: DispatchProgram
    provenance: Provenance
    launch: LaunchPlan | None = None
    constants: Mapping[str, Value] = field(default_factory=dict)
    kernels: tuple[KernelFile, ...] = ()
    flag_files: tuple[FlagFile, ...] = ()
    launcher: CommandLine | None = None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def has_loader(self) -> bool:
        """Whether there is a load(), which launches the kernels or the program."""
        return bool(self.kernels) if self.item == "kernel" else self.launcher is not None

    @property
    def item(self) -> str:
        """What the files of candidates are: a kernel or a program."""
        return "program" if self.provenance.environment.backend == "command" else "kernel"

    @property
    def symbols(self) -> tuple[tuple[str, ...], ...]:
        """The names of the kernels in each file; empty where they are those of the source."""
        symbols = tuple(kernel.symbols or self.functions for kernel in self.kernels)
        return symbols if any(names != self.functions for names in symbols) else ()

    @cached_property
    def guards(self) -> tuple[Formula, ...]:
        """For each candidate, the condition under which it applies."""
        return tuple(map(conjunction, self._guards))

    def guard_texts(self, index: int) -> list[str]:
        """Return the guards of a candidate that do not always hold, as expressions."""
        pairs = zip(self.program.guards[index], self._guards[index], strict=True)
        return [text for text, made in pairs if made != TRUE]

    @cached_property
    def sizes(self) -> tuple[tuple[tuple[Formula, ...], ...], ...]:
        """Group, grid, shared memory and its percentage of each candidate; empty without a launch
        plan. Of the last two there is one size, or none."""
        if self.launch is None:
            return ()
        return tuple(
            tuple(tuple(scope.number(e.text) for e in extents) for extents in self.launch.sizes)
            for scope in self._scopes
        )

    @cached_property
    def _guards(self) -> tuple[tuple[Formula, ...], ...]:
        return tuple(
            tuple(scope.condition(text) for text in texts)
            for scope, texts in zip(self._scopes, self.program.guards, strict=True)
        )

    @cached_property
    def _scopes(self) -> list[Translator]:
        features = {feature.name: feature for feature in self.features}
        return [
            Translator({**self.constants, **config}, features, self.name)
            for config in self.program.portfolio
        ]

    def order(self, costs: Sequence[float]) -> tuple[int, ...]:
        """Sort the candidates that can be needed by cost: up to the first that always applies."""
        needed: list[int] = []
        for index in sorted(range(len(costs)), key=costs.__getitem__):
            if self.guards[index] != FALSE:
                needed.append(index)
            if self.guards[index] == TRUE:
                break
        return tuple(needed)

    @property
    def fallback(self) -> tuple[int, ...]:
        """The best single candidate, and those that stand in where it does not apply."""
        return self.order(range(len(self.guards)))

    def feature(self, name: str) -> Feature:
        """Return a feature by its name."""
        return next(f for f in self.features if f.name == name)


def _check(dispatcher: Dispatcher) -> None:
    """Check that the features have the names and types of the inputs that were learnt from: the
    space may have changed since."""
    program, features = dispatcher.program, {f.name: f for f in dispatcher.features}
    used = {name for column in program.columns for name in column.features}
    used |= {tuned.feature for tuned in program.tuned}
    if not used <= features.keys():
        raise UsageError(
            f"the dispatcher uses {', '.join(sorted(used - features.keys()))}, but the features "
            f"are {', '.join(sorted(features))}"
        )
    for column in program.columns:
        if column.kind is ColumnKind.TWOS and features[column.features[0]].type is not Type.WHOLE:
            name = column.features[0]
            raise UsageError(f"{name} is no whole number, but the dispatcher computes {column}")
    for tuned in program.tuned:
        type_ = features[tuned.feature].type
        wanted = str if type_ is Type.WORD else (int, float)
        most = INT64_MAX if type_ is Type.WHOLE else math.inf
        fits = max(-tuned.low, tuned.high) < most and (tuned.words or type_ is not Type.WORD)
        if not fits or not all(isinstance(word, wanted) for word in tuned.words):
            raise UsageError(f"the tuned range of {tuned.feature} does not fit its type: {tuned}")
