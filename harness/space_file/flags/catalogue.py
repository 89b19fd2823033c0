"""The catalogues of compiler flags: their shape, and how one is read and checked.

The catalogues of this folder are found by their compiler's name; a user's own is any YAML file of
the same shape. Faults are reported with file and line, like those of spaces.
"""

from __future__ import annotations

import functools
import keyword
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictStr,
    Tag,
    model_validator,
)

from harness.constraints.expression import FUNCTIONS, WORDS, Expression
from harness.core.errors import SpecError, UsageError
from harness.core.program import family
from harness.core.records import LIMIT_NAMES, Value
from harness.core.text import suggestion
from harness.space_file.document import Document, Location, read_document
from harness.space_file.messages import StrictModel, validated
from harness.space_file.parameters import Parameter, switch, valued
from harness.space_file.tuned import (
    Condition,
    Name,
    Narrowing,
    Stepped,
    Values,
    plain,
)

ON_OFF = "[no-]"


Text = Annotated[StrictStr, AfterValidator(plain), Field(min_length=1)]


class _Flag(StrictModel):
    """The keys that all flags of a catalogue share."""

    option: Text = Field(description="how it is spelled on the command line")
    changes_values: StrictBool | Values = Field(
        description="whether results may differ in their last places, or for NaN and subnormals; "
        "or the values with which they may"
    )
    needs: Literal["linking"] | None = Field(
        default=None, description="linking: it acts only on a program that is linked"
    )
    baselines: Values = Field(
        default_factory=list,
        description="of a level of optimisation, the values that every winner is compared with",
    )
    placeholder: ClassVar[str] = "{value}"
    """The part of `option` where the value goes."""
    absent: ClassVar[Value] = None
    """The value of a flag that is not there."""

    @model_validator(mode="after")
    def _fits_together(self) -> _Flag:
        if self.placeholder not in self.option:
            part, found = self.placeholder, self.option
            raise ValueError(
                f"`option` must contain {part}, where the value goes, but got '{found}'"
            )
        for value in self.baselines:
            if value not in self.values:
                raise ValueError(f"`baselines` has {value}, which is not one of its values")
        return self

    @property
    @abstractmethod
    def values(self) -> Sequence[Value]:
        """The values of the flag, without its absence."""

    @property
    def template(self) -> str:
        """The spelling with `{value}` in it."""
        return self.option

    def parameter(self, name: str, compiler: str, values: Sequence[Value]) -> Parameter:
        """Return the flag as a space tunes it, with these values."""
        return valued(name, compiler, self.template, values)

    def keeps_values(self, value: Value) -> bool:
        """Whether results are bit for bit the same with this value as without the flag."""
        if isinstance(self.changes_values, bool):
            return not self.changes_values
        return value not in self.changes_values

    def words(self, value: Value) -> tuple[str, ...]:
        """Return the words of the command line that set the flag to this value."""
        return tuple(part.replace("{value}", str(value)) for part in self.template.split())


class Switch(_Flag):
    """A flag that is there or not."""

    type: Literal["boolean"]
    placeholder: ClassVar[str] = ""
    absent: ClassVar[Value] = False

    @model_validator(mode="after")
    def _takes_no_value(self) -> Switch:
        if re.search(r"[{}]", self.option):
            raise ValueError(f"a boolean's `option` takes no value, but got '{self.option}'")
        return self

    @property
    def values(self) -> Sequence[Value]:
        return (True,)

    def parameter(self, name: str, compiler: str, values: Sequence[Value]) -> Parameter:
        return switch(name, compiler, self.option)


class OnOff(_Flag):
    """A flag that is there, or there with `no-`, or absent: `-f[no-]unroll-loops`.

    Its two values are the text from the bracket on: `unroll-loops` and `no-unroll-loops`.
    """

    type: Literal["onoff"]
    placeholder: ClassVar[str] = ON_OFF

    @property
    def values(self) -> Sequence[Value]:
        positive = self.option.partition(ON_OFF)[2]
        return (positive, f"no-{positive}")

    @property
    def template(self) -> str:
        return self.option.partition(ON_OFF)[0] + "{value}"


class Enumeration(_Flag):
    """A flag that takes one of the listed values, or is absent."""

    model_config = ConfigDict(populate_by_name=True)

    type: Literal["enum"]
    listed: Values = Field(alias="values", description="every value that it takes")

    @property
    def values(self) -> Sequence[Value]:
        return tuple(self.listed)


class Integer(Stepped, _Flag):
    """A flag that takes a whole number from min to max, by step, or is absent."""

    type: Literal["integer"]


class FromFiles(_Flag):
    """A flag that takes one of the files that a space names, or is absent."""

    type: Literal["files"]

    @property
    def values(self) -> Sequence[Value]:
        return ()


Flag = Annotated[Switch | OnOff | Enumeration | Integer | FromFiles, Field(discriminator="type")]


Item = Annotated[
    Annotated[StrictStr, Field(min_length=1), Tag("name")]
    | Annotated[dict[Name, Narrowing], Tag("narrowed")],
    Discriminator(lambda item: "narrowed" if isinstance(item, dict) else "name"),
]


class CatalogueFile(StrictModel):
    """A catalogue: the flags of one compiler, named sets of them, and their conflicts."""

    flags: dict[Name, Flag] = Field(min_length=1, description="the flags by their names in spaces")
    sets: dict[Name, Annotated[list[Item], Field(min_length=1)]] = Field(
        description="named selections; `default` must be among them"
    )
    constraints: list[Condition] = Field(
        default_factory=list, description="which flags exclude or override one another"
    )


ANY_FILE = "{file}"
"""The path of any file in the words of a setting."""


class Setting(NamedTuple):
    """The words of a command line that set one flag to one value.

    What it does shows only when a program is `linked`, or in every build. Words with ANY_FILE ask
    whether the compiler reads such a file, whatever is in it.
    """

    words: tuple[str, ...]
    linked: bool = False

    @property
    def takes_file(self) -> bool:
        """Whether the words name a file."""
        return any(ANY_FILE in word for word in self.words)


# Each compiler with the file of its catalogue; the C++ drivers take the flags of the C drivers.
COMPILERS = {
    "nvcc": "nvcc",
    "opencl": "opencl",
    "gcc": "gcc",
    "g++": "gcc",
    "clang": "clang",
    "clang++": "clang",
}

DEFAULT = "default"
DERIVED = ("all", "exact", "fast_math")
"""Sets that follow from the flags and from the set `default`."""

Chosen = Mapping[str, Sequence[Value]]
"""Flags with some of their values."""


@dataclass(frozen=True)
class Catalogue:
    """The flags of one compiler, by their names in spaces."""

    path: Path
    flags: Mapping[str, Flag]
    sets: Mapping[str, Chosen]
    constraints: tuple[Expression, ...]


@functools.cache
def catalogue_of(compiler: str) -> Catalogue:
    """Return the catalogue of a compiler: nvcc, opencl, gcc, g++, clang or clang++, or gcc-12.

    Raises UsageError where there is none.
    """
    name = family(compiler)
    if name not in COMPILERS:
        message = f"there is no catalogue of flags for {compiler!r}; {suggestion(name, COMPILERS)}"
        raise UsageError(message)
    return load_catalogue(Path(__file__).parent / f"{COMPILERS[name]}.yaml")


def load_catalogue(path: Path) -> Catalogue:
    """Read a catalogue; raises SpecError with every fault that it has, by line."""
    document = read_document(path)
    model = validated(document, CatalogueFile)
    for location, text in (*_why_names(model), *_why_constraints(model)):
        document.fault(location, text)
    sets = {name: _chosen(document, model, name) for name in model.sets}
    if document.faults:
        raise SpecError(document.faults)
    return Catalogue(
        path, model.flags, sets | _derived(model, sets[DEFAULT]), tuple(model.constraints)
    )


def _chosen(document: Document, model: CatalogueFile, name: str) -> Chosen:
    """Return the flags of a set; note its faults."""
    chosen: dict[str, Sequence[Value]] = {}
    for index, item in enumerate(model.sets[name]):
        for flag, narrowing in [(item, None)] if isinstance(item, str) else item.items():
            try:
                chosen[flag] = values_of(model.flags, flag, narrowing)
            except UsageError as error:
                document.fault(("sets", name, index), str(error))
    return chosen


def values_of(
    flags: Mapping[str, Flag], name: str, narrowing: Narrowing | None, others: Iterable[str] = ()
) -> Sequence[Value]:
    """Return the values of a flag, or those that a narrowing leaves.

    Raises UsageError where it does not fit, or where there is no such flag among the flags and the
    other names.
    """
    if name not in flags:
        what = "neither a flag nor a set" if others else "not a flag of this catalogue"
        raise UsageError(f"`{name}` is {what}; {suggestion(name, [*others, *flags])}")
    there = flags[name].values
    if isinstance(flags[name], FromFiles):
        raise UsageError(f"`{name}` needs files; write `{{{name}: {{files: PATTERN}}}}` in a space")
    if narrowing is None:
        return there
    left: Sequence[Value] = narrowing.values or ()
    message = None
    if narrowing.values is not None:
        strange = [value for value in left if value not in there]
        listed = ", ".join(map(str, there if len(there) <= 12 else (there[0], "..", there[-1])))
        message = f"{strange[0]} is not one of its values: {listed}" if strange else None
    elif isinstance(there, range):
        least = there.start if narrowing.min is None else narrowing.min
        most = there[-1] if narrowing.max is None else narrowing.max
        left = range(least, most + 1, narrowing.step or there.step)
        if not left or any(value not in there for value in left):
            steps = f" by {there.step}" if there.step > 1 else ""
            message = (
                f"its range is {there.start} to {there[-1]}{steps}" if left else "leaves no value"
            )
    else:
        message = "has no range; narrow it by `values`"
    if message is not None:
        raise UsageError(f"`{name}`: {message}")
    return left


def _derived(model: CatalogueFile, usual: Chosen) -> dict[str, Chosen]:
    """Return the sets that follow from the flags and from `default`: all, exact and fast_math."""
    exact = {
        name: values
        if all(map(model.flags[name].keeps_values, values))
        else tuple(filter(model.flags[name].keeps_values, values))
        for name, values in usual.items()
    }
    return {
        "all": {n: f.values for n, f in model.flags.items() if not isinstance(f, FromFiles)},
        "exact": {name: values for name, values in exact.items() if values},
        "fast_math": {n: v for n, v in usual.items() if model.flags[n].changes_values is True},
    }


# -------------------------------------------------------------------------- what can be wrong


def _why_names(model: CatalogueFile) -> Iterator[tuple[Location, str]]:
    """Yield the flags whose names are words of constraints, and the sets whose names are taken."""
    taken = {*FUNCTIONS, *WORDS, *LIMIT_NAMES, *keyword.kwlist}
    for name in taken & set(model.flags):
        yield ("flags", name), f"`{name}` is a word of constraints; choose another name"
    for name in model.sets.keys() & {*DERIVED, *model.flags}:
        kind = "a flag" if name in model.flags else "a set that every catalogue has"
        yield ("sets", name), f"`{name}` is {kind} already; choose another name"
    if DEFAULT not in model.sets:
        yield ("sets",), f"needs the set `{DEFAULT}`"


def _why_constraints(model: CatalogueFile) -> Iterator[tuple[Location, str]]:
    absent = {name: flag.absent for name, flag in model.flags.items()}
    for index, constraint in enumerate(model.constraints):
        strange = sorted(constraint.names - set(model.flags))
        if strange:
            hint = suggestion(strange[0], model.flags)
            yield ("constraints", index), f"`{strange[0]}` is not a flag; {hint}"
        elif not constraint.allows(absent):
            text = f"`{constraint.text}` forbids that every flag is absent, the baseline"
            yield ("constraints", index), text
