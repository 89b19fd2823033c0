"""The site of the documentation: python -m sphinx -W docs FOLDER builds it from the same files that
people read on a forge."""

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent

project = "harness"
extensions = ["myst_parser"]
exclude_patterns: list[str] = []
myst_heading_anchors = 3
html_theme = "furo"
html_title = "harness"
html_copy_source = False
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]  # such as psql's commands in SQL

_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def _without_links_out(_: object, name: str, text: list[str]) -> None:
    """Turn links to files outside of docs/ into text: the site has no such files. Sphinx warns of
    links to files that are nowhere."""
    folder = (DOCS / name).parent

    def linked(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        return found[1] if target.exists() and not target.is_relative_to(DOCS) else found[0]

    text[0] = _LINK.sub(linked, text[0])


def setup(app: Any) -> dict[str, bool]:
    """Connect the hook."""
    app.connect("source-read", _without_links_out)
    return {"parallel_read_safe": True}
