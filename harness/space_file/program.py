"""Programs in spaces: the shape of `program:`, checked value by value as in
`harness.space_file.model`, and the plan of how to build, run, time and verify one."""

from __future__ import annotations

import hashlib
import itertools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    model_validator,
)

from harness.core.records import Value
from harness.source.kernel_source import Source
from harness.space_file.messages import StrictModel
from harness.space_file.model import MAX_PARAMETERS, AnySpaceFile, FlagGroup, Inputs, Number, Verify
from harness.space_file.tuned import (
    CompilerName,
    Name,
    Parameter,
    by_shape,
    by_tag,
    plain,
    read_by,
)

# -------------------------------------------------------------------------------------- words

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True)
class Template:
    """A text with `{NAME}` where a value goes; `{{` and `}}` are braces.

    Raises ValueError for a brace that belongs to no pair.
    """

    text: str

    def __post_init__(self) -> None:
        for found in _PART.finditer(self.text):
            if found[0] in "{}":
                raise ValueError(
                    f"`{self.text}` has a `{found[0]}` that belongs to no pair; write "
                    f"`{found[0] * 2}` for a brace"
                )

    @property
    def names(self) -> frozenset[str]:
        """The names of the placeholders."""
        found = (match[1] for match in _PART.finditer(self.text))
        return frozenset(name for name in found if name is not None)

    @property
    def whole(self) -> str | None:
        """The name of the placeholder that is the whole text; None for any other text."""
        found = _PART.fullmatch(self.text)
        return found[1] if found else None

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the text with the values filled in."""
        return _PART.sub(lambda found: _value(found, values), self.text)


def _value(found: re.Match[str], values: Mapping[str, str]) -> str:
    return found[0][0] if found[1] is None else values[found[1]]


def names_of(templates: Iterable[Template]) -> frozenset[str]:
    """Return the names of all placeholders."""
    return frozenset[str]().union(*(template.names for template in templates))


# -------------------------------------------------------------------------------------- shape

Word = Annotated[StrictStr | StrictInt | StrictFloat, AfterValidator(plain)]
Words = Annotated[list[Annotated[str, read_by(str, Word)]], Field(min_length=1)]
TemplateWord = Annotated[Template, read_by(lambda word: Template(str(word)), Word)]
TemplateText = Annotated[Template, read_by(Template, StrictStr)]

Command = Annotated[
    Annotated[TemplateText, Tag("as_text")]
    | Annotated[Annotated[list[TemplateWord], Field(min_length=1)], Tag("as_words")],
    by_shape(
        'a list of words such as [gcc, -o, "{output}"], or with `shell: true` a text',
        as_text=str,
        as_words=list,
    ),
]


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
_WRITTEN_HELP = "stdout, stderr, or a file that the run writes"
Unit = Literal["s", "ms", "us", "ns"]


class TimePattern(StrictModel):
    """The time is a number in the program's output, found by a regular expression."""

    pattern: Annotated[StrictStr, AfterValidator(_pattern_of_one)] = Field(
        description="a regular expression with one group, the number; it must match once"
    )
    unit: Unit = Field(description="of the number: s, ms, us or ns")
    read: Written = Field(default="stdout", description=f"what is searched: {_WRITTEN_HELP}")


class TimeField(StrictModel):
    """The time is a field of a JSON object that the program writes."""

    json_field: StrictStr = Field(
        min_length=1, description="the field's name; a dot leads into an object, as in run.seconds"
    )
    unit: Unit = Field(description="of the number: s, ms, us or ns")
    read: Written = Field(
        default="stdout",
        description=f"what is JSON, whole or in its last line: {_WRITTEN_HELP}",
    )


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

    memory_mb: StrictInt = Field(
        default=4096, ge=1, le=2**30, description="MiB of memory of its own that a process may have"
    )
    output_mb: StrictInt = Field(
        default=64, ge=1, le=2**20, description="MiB that each file it writes may have"
    )
    build_timeout_s: Number | None = Field(
        default=None, gt=0, le=86_400, description="seconds that one build may take; by default 120"
    )
    deadline_s: Number | None = Field(
        default=None, gt=0, le=86_400, description="seconds that one run may take"
    )


_OPTION = re.compile(r"-[^\s=]*[^\s=-]=?|[^\s={}-][^\s={}]*=")
_MOST = 65_535  # arguments of a command line, and words of an output
_KINDS = ("argument", "file_size", "command", "environment")


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


def _source_word(word: str) -> str:
    """Check a word of a command: a text, or `{1}` or `{--size}` alone."""
    template = Template(str(plain(word)))
    for name in sorted(template.names):
        if template.whole is None:
            raise ValueError(f"`{{{name}}}` in `{word}` must be a word of its own")
        if name.isascii() and name.isdigit():
            _argument(int(name))
        elif not is_argument(name):
            raise ValueError(
                f"`{{{name}}}` is not known here; write {{1}} for the first argument, or "
                "{--size} for the value of an option"
            )
    return word


Argument = Annotated[StrictInt | StrictStr, AfterValidator(_argument)]
"""A position from 1, an option `--size` (also `--size=5`), or a prefix such as `size=`."""

SourceWords = Annotated[
    list[Annotated[StrictStr, AfterValidator(_source_word)]], Field(min_length=1)
]


class FeatureSource(StrictModel):
    """Where a launcher finds one feature."""

    argument: Argument | None = Field(
        default=None, description="a position from 1, or an option such as --size"
    )
    file_size: Argument | None = Field(
        default=None, description="the bytes of the file that this argument names"
    )
    command: SourceWords | None = Field(
        default=None, description="a command that prints it, with {1} or {--size} for arguments"
    )
    environment: Name | None = Field(default=None, description="an environment variable")
    field: Annotated[StrictInt, Field(ge=1, le=_MOST)] = Field(
        default=1, description="which word of the command's output"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> FeatureSource:
        kinds = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            got = " and ".join(f"`{kind}`" for kind in kinds) or "none"
            listed = ", ".join(f"`{kind}`" for kind in _KINDS)
            raise ValueError(f"needs exactly one of {listed}, but has {got}")
        if self.command is None and "field" in self.model_fields_set:
            raise ValueError("`field` chooses a word of a command's output: it needs `command`")
        return self

    def __str__(self) -> str:
        """Describe the source, as in `n is argument 1`."""
        if self.command is not None:
            return f"word {self.field} of the output of `{' '.join(self.command)}`"
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

    sources: list[StrictStr] = Field(
        default_factory=list,
        description="source files, with what they include in quotes",
    )
    build: Command | None = Field(
        default=None, description="the compiler's words, with {flags}, {output}, {source}, {NAME}"
    )
    run: Command = Field(description="the program's words, with {output} and {NAME}")
    shell: StrictBool = Field(
        default=False, description="true: build and run are texts for /bin/sh"
    )
    environment: dict[Name, TemplateWord] = Field(
        default_factory=dict, description="variables of the run, which may contain {NAME}"
    )
    files: list[TemplateText] = Field(
        default_factory=list, description="files that every run finds in its folder; {FEATURE} too"
    )
    time: Time = Field(
        description="`wall`, `{pattern: .., unit: ..}` or `{json_field: .., unit: ..}`"
    )
    limits: Limits = Field(default_factory=Limits, description="what a build or a run may use")
    version: Words | None = Field(
        default=None,
        description="words of a command that prints the compiler's version",
    )
    device: Words | None = Field(
        default=None, description="words of a command that names the device"
    )
    features: dict[Name, FeatureSource] = Field(
        default_factory=dict,
        description="where the launcher of a dispatcher finds the features of an input",
    )


def _template(text: str) -> str:
    return Template(text).text


class AgainstFile(StrictModel):
    """The output must equal a file's content."""

    file: Annotated[StrictStr, AfterValidator(_template)] = Field(
        min_length=1, description="the file, whose name may contain {FEATURE}"
    )


class AgainstHost(StrictModel):
    """A function decides whether a run is right."""

    host: StrictStr = Field(min_length=1, description="Python file with check(run)")


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

    exit_status: StrictInt = Field(default=0, ge=0, le=255, description="what the run ends with")
    output: Written = Field(default="stdout", description=f"what is compared: {_WRITTEN_HELP}")
    dtype: Dtype | None = Field(
        default=None, description="of an output that is no text: the type of its numbers"
    )
    against: Against = Field(
        default="baseline",
        description="`baseline` (the default's output), `{file: ..}`, `{host: ..}` or `nothing`",
    )
    ignore: Pattern | None = Field(
        default=None, description="lines of a text that this regular expression is found in"
    )


class ProgramSpaceFile(AnySpaceFile):
    """A tuning space of a program: how it is built and run, its parameters, and its inputs."""

    model_config = ConfigDict(title="harness space of a program")

    program: ProgramModel = Field(description="how it is built, run and timed")
    parameters: dict[Name, Parameter] = Field(
        default_factory=dict, max_length=MAX_PARAMETERS, description="what is tuned; {NAME}s"
    )
    flags: dict[CompilerName, FlagGroup] = Field(
        default_factory=dict, description="the compiler, and its flags to tune"
    )
    inputs: Inputs = Field(description="the problems that the program is run on")
    verify: ProgramVerify = Field(default_factory=ProgramVerify, description="when a run is right")

    @property
    def flag_groups(self) -> dict[str, FlagGroup]:
        """The flags by compiler."""
        return self.flags

    @property
    def functions(self) -> tuple[str, ...]:
        """No kernels."""
        return ()


# --------------------------------------------------------------------------------------- plan

OUTPUT = "output"
"""The placeholder of the built program's path."""

OUTPUT_MARK = "\0output\0"
"""The mark for that path in filled words, as the path is known only when they run; no parameter's
value can contain it."""

SEED = "seed"
"""The placeholder of a number that is another one in each run."""

SEED_MARK = "\0seed\0"
"""The mark for that number in filled words and variables."""

LISTS = ("flags", "sources")
"""The placeholders for several words."""

RESERVED = (*LISTS, OUTPUT, "source", SEED)
"""The placeholders that are neither parameters nor features."""


@dataclass(frozen=True)
class ProgramPlan:
    """How a program is built, run, timed and verified, with placeholders to be filled.

    It can be pickled, so that it can be sent to worker processes. Paths are relative to `folder`,
    and the one to verify with to `verify_folder`. `digests` are those of the named files when the
    space was read.
    """

    model: ProgramModel
    verify: ProgramVerify
    folder: Path
    verify_folder: Path
    sources: tuple[Source, ...]
    digests: tuple[str, ...] = field(default=(), repr=False)

    @property
    def build(self) -> tuple[Template, ...]:
        """The build's words, or its text for a shell; empty where nothing is built."""
        return _templates(self.model.build)

    @property
    def run(self) -> tuple[Template, ...]:
        """The run's words, or its text for a shell."""
        return _templates(self.model.run)

    def build_words(self, values: Mapping[str, Value], flags: Sequence[str]) -> tuple[str, ...]:
        """Return the build's words; the path of the output is OUTPUT_MARK."""
        return self._words(self.build, values, flags)

    def run_words(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """Return the run's words; the path of the output is OUTPUT_MARK, the seed SEED_MARK."""
        return self._words(self.run, values, ())

    def variables(self, values: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
        """Return the variables of the run's environment as pairs of name and text; the seed is
        SEED_MARK."""
        texts = texts_of({**values, SEED: SEED_MARK})
        return tuple(
            (name, template.filled(texts)) for name, template in self.model.environment.items()
        )

    def files_for(self, features: Mapping[str, Value]) -> tuple[Path, ...]:
        """Return the files that are copied into the folder of a run on this input."""
        texts = texts_of(features)
        return tuple(self.folder / template.filled(texts) for template in self.model.files)

    def expected_file(self, features: Mapping[str, Value]) -> Path | None:
        """Return the file that the output must equal on this input, if there is one."""
        named = getattr(self.verify.against, "file", None)
        if named is None:
            return None
        return self.verify_folder / Template(named).filled(texts_of(features))

    @property
    def host(self) -> Path | None:
        """The Python file whose check() decides whether a run is right, if there is one."""
        named = getattr(self.verify.against, "host", None)
        return None if named is None else self.verify_folder / named

    @property
    def words_used(self) -> frozenset[str]:
        """Every placeholder of the build, the run and its environment."""
        return names_of([*self.build, *self.run, *self.model.environment.values()])

    def sha256_parts(self) -> list[str]:
        """Return what is measured as texts, which are equal for equal programs."""
        model = self.model
        parts = [template.text for template in (*self.build, *self.run, *model.files)]
        parts += [f"{name}={template.text}" for name, template in model.environment.items()]
        for source in self.sources:
            parts += [source.path.name, source.text, *source.includes.values()]
        parts.append(model.time.model_dump_json() if model.time else "wall")
        return [*parts, str(model.shell), self.verify.model_dump_json(), *self.digests]

    def _words(
        self, templates: Sequence[Template], values: Mapping[str, Value], flags: Sequence[str]
    ) -> tuple[str, ...]:
        sources = [str(source.path.resolve()) for source in self.sources]
        texts = texts_of(values) | {"source": sources[0] if sources else ""}
        texts |= {OUTPUT: OUTPUT_MARK, SEED: SEED_MARK}
        lists = {"flags": list(flags), "sources": sources}
        if not self.model.shell:
            words = (lists[t.whole] if t.whole in lists else [t.filled(texts)] for t in templates)
            return tuple(itertools.chain.from_iterable(words))
        quoted = {name: shlex.quote(text) for name, text in texts.items() if name != OUTPUT}
        joined = {name: shlex.join(words) for name, words in lists.items()}
        return tuple(t.filled({OUTPUT: OUTPUT_MARK, **quoted, **joined}) for t in templates)


def _templates(command: Template | Sequence[Template] | None) -> tuple[Template, ...]:
    return () if command is None else (command,) if isinstance(command, Template) else (*command,)


def texts_of(values: Mapping[str, Value]) -> dict[str, str]:
    """Return values as text for a command: booleans are 0 and 1."""
    return {
        name: str(int(value)) if isinstance(value, bool) else str(value)
        for name, value in values.items()
    }


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, hexadecimal; raises OSError."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
