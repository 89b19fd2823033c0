"""The shape of a space that tunes a program instead of a kernel, and words with placeholders.

Like `harness.space_file.model`, this checks each value by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    model_validator,
)

from harness.space_file.messages import StrictModel
from harness.space_file.model import (
    MAX_PARAMETERS,
    AnySpaceFile,
    FlagGroup,
    Inputs,
    Number,
    PythonSpaceFile,
    SpaceFile,
    Verify,
)
from harness.space_file.tuned import CompilerName, Name, Parameter, by_tag, plain, read_by

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True)
class Template:
    """A text with `{NAME}` where a value goes; `{{` and `}}` are braces.

    Raises ValueError for a brace that belongs to no pair.
    """

    text: str

    def __post_init__(self) -> None:
        for match in _PART.finditer(self.text):
            if match[0] in "{}":
                raise ValueError(
                    f"`{self.text}` has a `{match[0]}` that belongs to no pair; write "
                    f"`{match[0] * 2}` for a brace"
                )

    @property
    def names(self) -> frozenset[str]:
        """The names of the placeholders."""
        part = (match[1] for match in _PART.finditer(self.text))
        return frozenset(name for name in part if name is not None)

    @property
    def whole(self) -> str | None:
        """The name of the placeholder that is the whole text; None for any other text."""
        match = _PART.fullmatch(self.text)
        return match[1] if match else None

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the text with the values filled in."""
        return _PART.sub(lambda part: _value(part, values), self.text)


def _value(match: re.Match[str], values: Mapping[str, str]) -> str:
    return match[0][0] if match[1] is None else values[match[1]]


Word = Annotated[StrictStr | StrictInt | StrictFloat, AfterValidator(plain)]
Words = Annotated[list[Annotated[str, read_by(str, Word)]], Field(min_length=1)]
TemplateWord = Annotated[Template, read_by(lambda word: Template(str(word)), Word)]
TemplateText = Annotated[Template, read_by(Template, StrictStr)]


def _words(command: Any) -> Any:
    if isinstance(command, str):
        example = '[gcc, -o, "{output}"], or for a shell [sh, -c, ".."]'
        raise ValueError(f"is one text, but a command is a list of words such as {example}")
    return command


Command = Annotated[list[TemplateWord], BeforeValidator(_words), Field(min_length=1)]


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"`{text}` is not a regular expression: {error}") from None
    return text


def _pattern_of_one(text: str) -> str:
    groups = re.compile(_pattern(text)).groups
    if groups != 1:
        raise ValueError(
            f"`{text}` needs one pair of brackets, around the number, but has {groups}; "
            "brackets that only group are written (?:..)"
        )
    return text


def _inside(name: str) -> str:
    path = PurePosixPath(plain(name))
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"must be a file in the run's own folder, but got '{name}'")
    return name


Pattern = Annotated[StrictStr, Field(min_length=1), AfterValidator(_pattern)]
Written = Annotated[StrictStr, AfterValidator(_inside)]
Unit = Literal["s", "ms", "us", "ns"]


class TimePattern(StrictModel):
    """The time is a number in the program's output, found by a regular expression."""

    pattern: Annotated[StrictStr, AfterValidator(_pattern_of_one)]
    """a regular expression with one group, the number; it must match once"""
    unit: Unit
    """of the number: s, ms, us or ns"""
    read: Written = "stdout"
    """what is searched: stdout, stderr, or a file that the run writes"""


class TimeField(StrictModel):
    """The time is a field of a JSON object that the program writes."""

    json_field: StrictStr = Field(min_length=1)
    """the field's name; a dot leads into an object, as in run.seconds"""
    unit: Unit
    """of the number: s, ms, us or ns"""
    read: Written = "stdout"
    """what is JSON, whole or in its last line: stdout, stderr, or a file that the run writes"""


def _time_type(value: Any) -> str | None:
    if value == "wall":
        return "by_wall"
    if not isinstance(value, dict):
        return None
    return "by_field" if "json_field" in value else "by_pattern"


Time = Annotated[
    Annotated[None, read_by(lambda _: None, Literal["wall"]), Tag("by_wall")]
    | Annotated[TimePattern, Tag("by_pattern")]
    | Annotated[TimeField, Tag("by_field")],
    by_tag("`wall`, `{pattern: .., unit: s}` or `{json_field: .., unit: s}`", _time_type),
]


class Limits(StrictModel):
    """The limits of a build or a run, which is ended or refused beyond them."""

    memory_mb: StrictInt = Field(default=4096, ge=1, le=2**30)
    """MiB of memory of its own that a process may have"""
    output_mb: StrictInt = Field(default=64, ge=1, le=2**20)
    """MiB that each file it writes may have"""
    build_timeout_s: Number | None = Field(default=None, gt=0, le=86_400)
    """seconds that one build may take; by default 120"""
    deadline_s: Number | None = Field(default=None, gt=0, le=86_400)
    """seconds that one run may take"""


_OPTION = re.compile(r"-[^\s=]*[^\s=-]=?|[^\s={}-][^\s={}]*=")
_MOST = 65_535  # arguments of a command line
_KINDS = ("argument", "file_size", "environment")


def is_argument(text: str) -> bool:
    """Say whether a text is an option, such as `--size`, or a prefix, such as `size=`."""
    return _OPTION.fullmatch(text) is not None


def _argument(value: Any) -> Any:
    """Check a position or an option of the command line."""
    if isinstance(value, int) and not 1 <= value <= _MOST:
        raise ValueError(f"arguments count from 1 to {_MOST:,}, but got {value}")
    if isinstance(value, str) and not is_argument(plain(value)):
        raise ValueError(
            f"`{value}` is neither a position such as 1 nor an option such as --size or size="
        )
    return value


Argument = Annotated[StrictInt | StrictStr, AfterValidator(_argument)]
"""A position from 1, an option `--size` (also `--size=5`), or a prefix such as `size=`."""


class FeatureSource(StrictModel):
    """Where a launcher finds one feature."""

    argument: Argument | None = None
    """a position from 1, or an option such as --size"""
    file_size: Argument | None = None
    """the bytes of the file that this argument names"""
    environment: Name | None = None
    """an environment variable"""

    @model_validator(mode="after")
    def _one_kind(self) -> FeatureSource:
        kinds = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            got = " and ".join(f"`{kind}`" for kind in kinds) or "none"
            listed = ", ".join(f"`{kind}`" for kind in _KINDS)
            raise ValueError(f"needs exactly one of {listed}, but has {got}")
        return self

    def __str__(self) -> str:
        """Describe the source, as in `n is argument 1`."""
        if self.environment is not None:
            return f"the environment variable {self.environment}"
        if self.file_size is not None:
            return f"the size in bytes of the file that {_named(self.file_size)} names"
        return _named(self.argument)


def _named(argument: int | str | None) -> str:
    if isinstance(argument, int):
        return f"argument {argument}"
    text = str(argument)
    return f"the rest of the argument {text}..." if text.endswith("=") else f"the option {text}"


class ProgramModel(StrictModel):
    """The program that is built and run. Paths are relative to the space file."""

    sources: list[StrictStr] = Field(default_factory=list)
    """source files, with what they include in quotes"""
    build: Command | None = None
    """the compiler's words, with {flags}, {output}, {source}, {NAME}"""
    run: Command
    """the program's words, with {output} and {NAME}"""
    environment: dict[Name, TemplateWord] = Field(default_factory=dict)
    """variables of the run, which may contain {NAME}"""
    files: list[TemplateText] = Field(default_factory=list)
    """files that every run finds in its folder; {FEATURE} too"""
    time: Time
    """`wall`, `{pattern: .., unit: ..}` or `{json_field: .., unit: ..}`"""
    limits: Limits = Field(default_factory=Limits)
    """what a build or a run may use"""
    version: Words | None = None
    """words of a command that prints the compiler's version"""
    device: Words | None = None
    """words of a command that names the device"""
    features: dict[Name, FeatureSource] = Field(default_factory=dict)
    """where the launcher of a dispatcher finds the features of an input"""


def _template(text: str) -> str:
    return Template(text).text


class AgainstFile(StrictModel):
    """The output must equal a file's content."""

    file: Annotated[StrictStr, AfterValidator(_template)] = Field(min_length=1)
    """the file, whose name may contain {FEATURE}"""


class AgainstHost(StrictModel):
    """A function decides whether a run is right."""

    host: StrictStr = Field(min_length=1)
    """Python file with check(run)"""


def _against_type(value: Any) -> str | None:
    if isinstance(value, str):
        return "by_word"
    if isinstance(value, AgainstFile | AgainstHost):  # pydantic asks as well when it writes one
        return "by_host" if isinstance(value, AgainstHost) else "by_file"
    if not isinstance(value, dict):
        return None
    return "by_host" if "host" in value else "by_file"


Against = Annotated[
    Annotated[Literal["baseline", "nothing"], Tag("by_word")]
    | Annotated[AgainstFile, Tag("by_file")]
    | Annotated[AgainstHost, Tag("by_host")],
    by_tag("`baseline`, `nothing`, `{file: ..}` or `{host: ..}`", _against_type),
]
Dtype = Literal[
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


class ProgramVerify(Verify):
    """The conditions under which a run is right; texts are compared word by word, numbers by rtol
    and atol."""

    exit_status: StrictInt = Field(default=0, ge=0, le=255)
    """what the run ends with"""
    output: Written = "stdout"
    """what is compared: stdout, stderr, or a file that the run writes"""
    dtype: Dtype | None = None
    """of an output that is no text: the type of its numbers"""
    against: Against = "baseline"
    """`baseline` (the default's output), `{file: ..}`, `{host: ..}` or `nothing`"""
    ignore: Pattern | None = None
    """lines of a text that this regular expression is found in"""


class ProgramSpaceFile(AnySpaceFile):
    """A tuning space of a program: how it is built and run, its parameters, and its inputs."""

    model_config = ConfigDict(title="harness space of a program")

    program: ProgramModel
    """how it is built, run and timed"""
    parameters: dict[Name, Parameter] = Field(default_factory=dict, max_length=MAX_PARAMETERS)
    """what is tuned; {NAME}s"""
    flags: dict[CompilerName, FlagGroup] = Field(default_factory=dict)
    """the compiler, and its flags to tune"""
    inputs: Inputs
    """the problems that the program is run on"""
    verify: ProgramVerify = Field(default_factory=ProgramVerify)
    """when a run is right"""

    @property
    def flag_groups(self) -> dict[str, FlagGroup]:
        """The flags by compiler."""
        return self.flags

    @property
    def functions(self) -> tuple[str, ...]:
        """No kernels."""
        return ()


SpaceModel = SpaceFile | PythonSpaceFile | ProgramSpaceFile
"""The model of a space file of any kind."""
