"""The pages of the documentation: their blocks, commands and files."""

import re
from typing import NamedTuple

from tests import ROOT

# The first line of a block that is a file: a comment with its name.
_NAME = re.compile(r"(?:#|//|/\*|<!--) *([\w./-]+\.\w+) *(?:\*/|-->)?\n")


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str

    @property
    def file(self):
        """The name of the file that this block is, if it is one."""
        found = _NAME.match(self.text)
        return found[1] if found and self.language != "console" else None

    @property
    def commands(self):
        """The shell commands: all lines of `sh`, those after `$ ` or `> ` of `console`."""
        if self.language == "sh":
            return self.text
        return "".join(re.findall(r"^[$>] (.*\n)", self.text, re.MULTILINE))

    @property
    def output(self):
        """The lines of output that a `console` block shows, without those that are cut."""
        shown = re.findall(r"^(?![$>] )(.+)\n", self.text, re.MULTILINE)
        return [line for line in shown if line.strip() != "..."]


def read_page(path):
    """Return the text of a page, by its path in the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def blocks(text, *languages):
    """Return the blocks of a page, or those in some languages, in their order."""
    found = re.findall(r"^( *)```(\w+)\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
    return [
        Block(language, re.sub(rf"^{indent}", "", content, flags=re.MULTILINE))
        for indent, language, content in found
        if not languages or language in languages
    ]
