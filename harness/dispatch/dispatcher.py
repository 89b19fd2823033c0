"""A dispatcher, complete and ready to be written as code: program, features, provenance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness import __version__
from harness.core.errors import ExpressionError, UsageError
from harness.core.records import Environment, Value
from harness.dispatch.features import Feature
from harness.dispatch.formulas import Bounds, FeatureVariable, Formula, Type, conjunction
from harness.dispatch.guards import Translator
from harness.dispatch.program import DispatchProgram
from harness.dispatch.spelling import INT64_MAX
from harness.models.encoding.columns import ColumnKind, TunedRange
from harness.space_file import LaunchPlan

_HIGHEST_BIT = 62


@dataclass(frozen=True)
class Provenance:
    """Where a dispatcher comes from; `verdict` is the printed text, in lines.

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


@dataclass(frozen=True)
class KernelFile:
    """A file that a candidate is launched from, a complete source or a cubin, with its build
    options."""

    name: str
    content: bytes
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dispatcher:
    """A program, ready to be written; raises ExpressionError or UsageError for what cannot be.

    `features` are in the order of the functions' arguments. `constants` are what guards and launch
    sizes may name beside features and a candidate's parameters: the device's numbers, and flags of
    another compiler. `kernels` has a file for each candidate, or is empty.
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

    def __post_init__(self) -> None:
        _check(self)

    @cached_property
    def guards(self) -> tuple[Formula, ...]:
        """For each candidate, the condition under which it applies within the box."""
        return self._guards(self.box)

    @cached_property
    def sizes(self) -> tuple[tuple[tuple[Formula, ...], tuple[Formula, ...]], ...]:
        """Group and grid of each candidate within the box; empty without a launch plan."""
        return self._sizes(self.box)

    @cached_property
    def box(self) -> Mapping[str, Bounds]:
        """The range of each number in which guards and launch sizes are exact.

        It contains the tuned range, and extends above it as far as 64-bit integers allow.
        """
        self._guards(self._box(None))
        self._sizes(self._box(None))
        best, low, high = None, 0, _HIGHEST_BIT
        while low <= high:
            middle = (low + high) // 2
            if self._is_exact(self._box(middle)):
                best, low = middle, middle + 1
            else:
                high = middle - 1
        return self._box(best)

    @property
    def is_guarded(self) -> bool:
        """Whether some candidate does not always apply."""
        return any(not guard.is_constant or guard.c == "0" for guard in self.guards)

    def orders(self, order: Sequence[int]) -> tuple[int, ...]:
        """Return the candidates of a leaf that can be needed: up to the first that always
        applies."""
        indices = dict.fromkeys((*self.program.with_static(order), *self._all))
        kept: list[int] = []
        for index in indices:
            if self.guards[index].c != "0":
                kept.append(index)
            if self.guards[index].c == "1":
                break
        return tuple(kept)

    @property
    def fallback(self) -> tuple[int, ...]:
        """The best single candidate, and those that stand in where it does not apply."""
        return self.orders(())

    def tuned_of(self, name: str) -> TunedRange | None:
        """Return the tuned range of a feature, if it has one."""
        return next((t for t in self.program.tuned if t.feature == name), None)

    def feature(self, name: str) -> Feature:
        """Return a feature by its name."""
        return next(f for f in self.features if f.name == name)

    @property
    def _all(self) -> range:
        return range(len(self.program.portfolio))

    def _is_exact(self, box: Mapping[str, Bounds]) -> bool:
        try:
            self._guards(box)
            self._sizes(box)
        except ExpressionError:
            return False
        return True

    def _guards(self, box: Mapping[str, Bounds]) -> tuple[Formula, ...]:
        return tuple(
            conjunction([self._scope(index, box).condition(text) for text in guards])
            for index, guards in enumerate(self.program.guards)
        )

    def _sizes(
        self, box: Mapping[str, Bounds]
    ) -> tuple[tuple[tuple[Formula, ...], tuple[Formula, ...]], ...]:
        if self.launch is None:
            return ()
        made = []
        for index in self._all:
            scope = self._scope(index, box)
            group = tuple(scope.number(e.text) for e in self.launch.group)
            made.append((group, tuple(scope.number(e.text) for e in self.launch.grid)))
        return tuple(made)

    def _scope(self, index: int, box: Mapping[str, Bounds]) -> Translator:
        constants = {**self.constants, **self.program.portfolio[index]}
        return Translator(constants, self._named, box, self.name)

    @cached_property
    def _named(self) -> Mapping[str, FeatureVariable]:
        return {
            f.name: FeatureVariable(
                f.variable, f.type, {word: self.c_word(f, word) for word in f.words}
            )
            for f in self.features
        }

    def c_word(self, feature: Feature, word: str) -> str:
        """Return the C constant of a feature's word."""
        spelled = [_spelled(other) for other in feature.words]
        own = _spelled(word)
        # Words that are spelled alike, such as `a-b` and `a+b`, get their index.
        index = f"_{feature.words.index(word)}" if spelled.count(own) > 1 or not own else ""
        return f"{self.name.upper()}_{feature.name.upper()}_IS_{own}{index}"

    def _box(self, bits: int | None) -> Mapping[str, Bounds]:
        """Return the tuned ranges; with bits, extended up to 2**bits, and down only as far as the
        sign stays known: a size tuned from 16 may be 1, but not 0, which may be a divisor."""
        return {f.name: self._range(f, bits) for f in self.features if f.type is not Type.WORD}

    def _range(self, feature: Feature, bits: int | None) -> Bounds:
        tuned = self.tuned_of(feature.name)
        most = 2 ** (bits or 0)
        if tuned is None:
            return -most, most
        low, high = ends(tuned, feature)
        if bits is None:
            return low, high
        lowest = min(low, 1) if low > 0 else 0 if low == 0 else min(low, -most)
        return lowest, max(high, most)


def ends(tuned: TunedRange, feature: Feature) -> Bounds:
    """Return the least and the greatest tuned value."""
    if tuned.words:
        numbers = [word for word in tuned.words if isinstance(word, (int, float))]
        return min(numbers), max(numbers)
    if feature.type is Type.REAL:
        return tuned.low, tuned.high
    return math.ceil(tuned.low), math.floor(tuned.high)


def _spelled(word: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in word.upper())


def _check(dispatcher: Dispatcher) -> None:
    """Check what learning must have ensured; a UsageError here means a mistake there."""
    program, count = dispatcher.program, len(dispatcher.program.portfolio)
    known = {feature.name for feature in dispatcher.features}
    used = {name for column in program.columns for name in column.features}
    used |= {tuned.feature for tuned in program.tuned}
    if not used <= known:
        raise UsageError(
            f"the dispatcher uses {', '.join(sorted(used - known))}, but the features are "
            f"{', '.join(sorted(known))}"
        )
    if not 0 <= program.static < count or len(program.guards) != count:
        raise UsageError(
            f"there are {count} candidates, but the best single one has the index "
            f"{program.static}, and {len(program.guards)} have guards"
        )
    if dispatcher.kernels and len(dispatcher.kernels) != count:
        raise UsageError(f"{count} candidates have {len(dispatcher.kernels)} kernel files")
    if not program.choice.trees:
        raise UsageError("the dispatcher has no tree to choose by")
    thresholds = (s.threshold for tree in program.choice.trees for s in tree.splits())
    if not all(map(math.isfinite, thresholds)):
        raise UsageError("a tree has a threshold that is not finite")
    _check_untyped(dispatcher)


def _check_untyped(dispatcher: Dispatcher) -> None:
    """Check that words are only compared, and that numbers have ranges of numbers."""
    for column in dispatcher.program.columns:
        for name in column.features:
            is_word = dispatcher.feature(name).type is Type.WORD
            if is_word and column.kind is not ColumnKind.EQUALS:
                raise UsageError(f"{name} is a word, but the dispatcher computes {column}")
            if column.kind is ColumnKind.TWOS and dispatcher.feature(name).type is not Type.WHOLE:
                raise UsageError(f"{name} is no whole number, but the dispatcher computes {column}")
    for tuned in dispatcher.program.tuned:
        feature = dispatcher.feature(tuned.feature)
        wanted = str if feature.type is Type.WORD else (int, float)
        fits = all(isinstance(word, wanted) for word in tuned.words)
        most = INT64_MAX if feature.type is Type.WHOLE else math.inf
        fits = fits and max(-tuned.low, tuned.high) < most
        if not fits or (feature.type is Type.WORD and not tuned.words):
            raise UsageError(f"the tuned range of {tuned.feature} does not fit its type: {tuned}")
