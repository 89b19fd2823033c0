"""The shape of `program.features`: where a launcher finds the features of a run's input."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictInt, StrictStr, model_validator

from harness.space_file.messages import StrictModel
from harness.space_file.templates import Template
from harness.space_file.tuned import Name, plain

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
