"""Write the tables of docs/reference from the models of harness, so that they cannot be stale.

A page has `<!-- generated: NAME ... -->`, and what this writes until `<!-- end -->`. With --check,
nothing is written, and the exit code is 1 where a page is not fresh.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from harness.__main__ import COMMANDS
from harness.api import documents
from harness.commands.run import make_parser
from harness.core.records import Outcome, StopReason
from harness.dispatch import document as dispatcher
from harness.results.schema import OURS, STAGES, VERSION
from harness.space_file.messages import StrictModel

PAGES = Path(__file__).parent
_BLOCK = re.compile(r"(<!-- generated: (\w+)(.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def _models(base: type[BaseModel] = BaseModel) -> dict[str, type[BaseModel]]:
    """All models of harness by their names."""
    found = {}
    for model in base.__subclasses__():
        found |= _models(model)
        if model.__module__.startswith("harness."):
            found[model.__name__] = model
    return found


def commands() -> Iterator[str]:
    """List the commands, with the options that have another name in Python."""
    for command, summary in COMMANDS.items():
        renamed = []
        for action in make_parser(command)._actions:
            long = next((name for name in action.option_strings[::-1] if name[:2] == "--"), "")
            argument = f"{action.dest}{'=False' * (action.const is False)}"
            is_other = long.strip("-").replace("-", "_") not in ("", argument)
            if command in ("check", "replay", "tune") and is_other:
                renamed.append(f"`{long}` is `{argument}`")
        python = f". In Python, {', '.join(renamed)}" if renamed else ""
        yield f"- **`{command}`**: {summary}{python}"


def keys(name: str) -> Iterator[str]:
    """List the keys of a part of a space, each with its default in brackets."""
    model = _models()[name]
    assert issubclass(model, StrictModel)
    for key, field in model.model_fields.items():
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        note = ", required" * field.is_required()
        if default not in (None, "", [], {}) and not isinstance(default, BaseModel):
            note = f" (`{json.dumps(getattr(default, 'value', default))}`)".replace('"', "")
        yield f"- `{key}`{note}: {model.purposes()[key]}"


def tables() -> Iterator[str]:
    """List the tables of a database with their columns."""
    for table in OURS:
        yield f"- **`{table.name}`**: {', '.join(f'`{column.name}`' for column in table.columns)}"


def versions() -> Iterator[str]:
    """Name the versions of what is written."""
    yield (
        f"In this version, `format` is {documents.FORMAT} in documents of `--json` and "
        f"{dispatcher._FORMAT} in dispatchers, and `schema_version` of databases is {VERSION}."
    )


def words(which: str) -> Iterator[str]:
    """List the words that a column, or a key, may have."""
    lists: dict[str, Any] = {
        "stages": STAGES,
        "outcomes": [outcome.value for outcome in Outcome],
        "stops": [reason.value for reason in StopReason],
    }
    yield ", ".join(f"`{word}`" for word in lists[which])


_MAKERS: dict[str, Callable[..., Iterator[str]]] = {
    made.__name__: made for made in (commands, keys, tables, versions, words)
}


def fresh(text: str) -> str:
    """Return the text of a page with what the models say now."""

    def block(found: re.Match[str]) -> str:
        lines = _MAKERS[found[2]](*found[3].split())
        return found[1] + "".join(f"{line}\n" for line in lines) + found[4]

    return _BLOCK.sub(block, text)


def main() -> int:
    """Write the pages anew, or with --check say which are not fresh."""
    is_check, stale = "--check" in sys.argv, []
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if fresh(text) != text:
            stale.append(page)
            if not is_check:
                page.write_text(fresh(text), encoding="utf-8")
    for page in stale:
        print(f"{page} is not fresh: run python docs/generate.py" if is_check else page)
    return int(is_check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
