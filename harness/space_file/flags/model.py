"""The shape of a catalogue of compiler flags: the model that validates its YAML file."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
)
from pydantic import model_validator as validated

from harness.core.records import Value
from harness.space_file.tuned import (
    MAX_FLAG_VALUES,
    Name,
    StrictModel,
    Values,
    Whole,
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

    @validated(mode="after")
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

    def keeps_values(self, value: Value) -> bool:
        """Whether results are bit for bit the same with this value as without the flag."""
        if isinstance(self.changes_values, bool):
            return not self.changes_values
        return value not in self.changes_values

    def words(self, value: Value) -> tuple[str, ...]:
        """Return the words of the command line that set the flag to this value."""
        return tuple(part.replace("{value}", str(value)) for part in self.option.split())


class Switch(_Flag):
    """A flag that is there or not."""

    type: Literal["boolean"]
    placeholder: ClassVar[str] = ""

    @validated(mode="after")
    def _takes_no_value(self) -> Switch:
        if re.search(r"[{}]", self.option):
            raise ValueError(f"a boolean's `option` takes no value, but got '{self.option}'")
        return self

    @property
    def values(self) -> Sequence[Value]:
        return (True,)


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
        """The spelling with `{value}` in it."""
        return self.option.partition(ON_OFF)[0] + "{value}"

    def words(self, value: Value) -> tuple[str, ...]:
        return (self.template.replace("{value}", str(value)),)


class Enumeration(_Flag):
    """A flag that takes one of the listed values, or is absent."""

    model_config = ConfigDict(populate_by_name=True)

    type: Literal["enum"]
    listed: Values = Field(alias="values", description="every value that it takes")

    @property
    def values(self) -> Sequence[Value]:
        return tuple(self.listed)


class Integer(_Flag):
    """A flag that takes a whole number from min to max, by step, or is absent."""

    type: Literal["integer"]
    min: Whole = Field(description="smallest value, included")
    max: Whole = Field(description="largest value, included")
    step: StrictInt = Field(default=1, ge=1, description="distance between values")

    @validated(mode="after")
    def _is_range(self) -> Integer:
        count = len(self.values)
        if not 1 <= count <= MAX_FLAG_VALUES:
            raise ValueError(
                f"min, max and step must give 1 to {MAX_FLAG_VALUES:,} values, but give {count:,}"
            )
        return self

    @property
    def values(self) -> range:
        return range(self.min, self.max + 1, self.step)


class FromFiles(_Flag):
    """A flag that takes one of the files that a space names, or is absent."""

    type: Literal["files"]

    @property
    def values(self) -> Sequence[Value]:
        return ()


Flag = Annotated[Switch | OnOff | Enumeration | Integer | FromFiles, Field(discriminator="type")]


class Narrowing(StrictModel):
    """Fewer values of a flag than the catalogue has: listed, or a range."""

    values: Values | None = None
    min: Whole | None = None
    max: Whole | None = None
    step: Annotated[StrictInt, Field(ge=1)] | None = None

    @validated(mode="after")
    def _says_something(self) -> Narrowing:
        named = self.model_fields_set
        if not named or ("values" in named and len(named) > 1):
            raise ValueError("needs `values`, or some of `min`, `max` and `step`")
        return self


Item = Annotated[
    Annotated[StrictStr, Field(min_length=1), Tag("name")]
    | Annotated[dict[Name, Narrowing], Tag("narrowed")],
    Discriminator(lambda item: "narrowed" if isinstance(item, dict) else "name"),
]
Chosen = Annotated[list[Item], Field(min_length=1)]


class CatalogueFile(StrictModel):
    """A catalogue: the flags of one compiler, named sets of them, and their conflicts."""

    flags: dict[Name, Flag] = Field(min_length=1, description="the flags by their names in spaces")
    sets: dict[Name, Chosen] = Field(description="named selections; `default` must be among them")
    constraints: list[StrictStr] = Field(
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
