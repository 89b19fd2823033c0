"""Words with placeholders such as `-DTILE={TILE}`, for the commands of programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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


def filled_words(
    templates: Sequence[Template], values: Mapping[str, str], lists: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield the words of a command; a word that is just the placeholder of a list becomes all the
    words of that list."""
    for template in templates:
        if template.whole in lists:
            yield from lists[template.whole or ""]
        else:
            yield template.filled(values)
