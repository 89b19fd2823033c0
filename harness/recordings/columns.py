"""The meaning of a CSV file's columns, as a mapping file states it or a space implies it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial

from harness.core.errors import RecordingError
from harness.core.records import Outcome, Value
from harness.recordings.builder import typed
from harness.recordings.cells import CsvFile, listed_value, readings, whole_or_real
from harness.recordings.kernel_tuner import plain_value
from harness.space_file import Spec

OWN_WORDS: Mapping[str, Outcome] = {"": Outcome.OK, **{o.value: o for o in Outcome}}
"""The words of an outcome column that harness writes; the default of a mapping."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a CSV recording.

    `parameters` maps each name to its listed values; an empty list means the values that occur.
    `per_s` is the number of time units in a second. A time outside `least` to `most` marks a
    failed configuration. `is_mapped` is false where a space implies the columns: then a missing
    time is an error, and a column that nobody names is only warned of. `readers` turn the
    cells of columns with known values into these. For `compiler` see Recording.
    """

    title: str
    device: str
    parameters: Mapping[str, Sequence[Value]]
    features: tuple[str, ...]
    times: tuple[str, ...]
    per_s: float = 1.0
    least: float = float("-inf")
    most: float = float("inf")
    outcome: str | None = None
    message: str | None = None
    words: Mapping[str, Outcome] = field(default_factory=lambda: OWN_WORDS)
    ignored: tuple[str, ...] = ()
    compiler: str | None = None
    is_mapped: bool = True
    readers: Mapping[str, Callable[[str], Value]] = field(default_factory=dict)

    @property
    def used(self) -> list[str]:
        """Every column that is read."""
        outcome = [name for name in (self.outcome, self.message) if name is not None]
        return [*self.features, *self.parameters, *self.times, *outcome]

    @property
    def named(self) -> list[str]:
        """Every column that the file must have."""
        return [*self.used, *self.ignored]


def listed_readers(
    parameters: Mapping[str, Sequence[Value]],
) -> dict[str, Callable[[str], Value]]:
    """Return a function from cell to value for each column with listed values."""
    return {name: partial(listed_value, name, known) for name, known in parameters.items() if known}


def columns_of_space(file: CsvFile, spec: Spec) -> Columns:
    """Return the columns of a file that holds the space's own parameters.

    The columns, in any order, are the features, the parameters, `time_s` and optionally `outcome`
    and `message`. Flags of one compiler may be among the parameters. Raises RecordingError for
    flags of two.
    """
    compiler = _compiler(file, spec)
    parameters = {p.name: p.values for p in spec.tuned_for(compiler)}
    # The values in the space's inputs, so that a cell of 64.0 is their 64.
    known = {n: {typed(problem[n]) for problem in spec.inputs} for n in spec.features}
    features = {name: partial(_feature, name, values) for name, values in known.items()}
    return Columns(
        title=spec.title,
        device=file.path.name,
        parameters=parameters,
        features=tuple(spec.features),
        times=("time_s",),
        outcome="outcome" if "outcome" in file.header else None,
        message="message" if "message" in file.header else None,
        compiler=compiler,
        is_mapped=False,
        readers=listed_readers(parameters) | features,
    )


def _compiler(file: CsvFile, spec: Spec) -> str | None:
    found = sorted({p.compiler for p in spec.parameters if p.compiler and p.name in file.header})
    if len(found) > 1:
        flags = " and ".join(found)
        raise RecordingError(f"{file.path}:1: has flags of {flags}; keep those of one compiler")
    return found[0] if found else None


def _feature(name: str, known: Set[tuple[type, Value]], cell: str) -> Value:
    """Return the value that a cell means; the space's inputs need not have it.

    Raises ValueError where it is a word and all of theirs are numbers.
    """
    word = cell.strip()
    for reading in readings(word):
        if typed(reading) in known:
            return reading
    try:
        return whole_or_real(name, word)
    except ValueError:
        if not any(kind is str for kind, _ in known):
            raise
    return plain_value(name, word)
