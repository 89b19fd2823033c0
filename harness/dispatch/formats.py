"""Formats beyond C and Python that a dispatcher is written in where a user asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from harness.core.errors import UsageError
from harness.core.text import suggestion
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.json_format import json_files
from harness.dispatch.loaders import torch_files

FORMATS: Mapping[str, Callable[[Dispatcher], dict[str, bytes]]] = {
    "json": json_files,
    "torch": lambda dispatcher: torch_files(dispatcher.name),
}
"""What makes the files of each format, by their paths in the folder."""


def check_formats(names: Iterable[str]) -> None:
    """Raise UsageError for a format that harness does not write."""
    for name in names:
        if name not in FORMATS:
            raise UsageError(f"no format `{name}`; {suggestion(name, FORMATS)}")


def format_files(dispatcher: Dispatcher, names: Iterable[str]) -> dict[str, bytes]:
    """Return the content of the files of these formats, by their paths in the folder."""
    return {path: content for name in names for path, content in FORMATS[name](dispatcher).items()}
