"""A stencil's file: `expression(size)` and `reference(arguments)`, and, if it likes, `inputs`."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.core.errors import UsageError
from harness.core.modules import load_module
from harness.core.text import suggestion
from harness.source.kernel_source import read_text
from harness.stencil.ir import Node
from harness.stencil.types import FLOAT, StencilError, leaf

_PROGRAMS = Path(__file__).with_name("programs")


@dataclass(frozen=True)
class Definition:
    """A stencil: its name, its file's text, and the functions that the file defines."""

    name: str
    path: Path
    text: str
    module: ModuleType

    def expression(self, size: int) -> Node:
        """What it computes; raises StencilError, which names the file, where that is ill-typed."""
        try:
            found = self._function("expression")(size)
        except Exception as error:
            told = str(error) if isinstance(error, StencilError) else repr(error)
            raise StencilError(f"{_where(error, self.path)}: {told}") from error
        if not isinstance(found, Node):
            kind = type(found).__name__
            raise StencilError(f"{self.path}: expression() must give an expression, not a {kind}")
        if leaf(found.type) != FLOAT or found.type == FLOAT:
            raise StencilError(
                f"{self.path}: expression() must give an array of float, but this is {found.type}"
            )
        return found

    def reference(self, arguments: Mapping[str, Any]) -> Any:
        """The right result."""
        return self._function("reference")(arguments)

    def _function(self, name: str) -> Callable[..., Any]:
        function = getattr(self.module, name, None)
        if not callable(function):
            raise StencilError(f"{self.path}: must define the function `{name}`")
        return function  # type: ignore[no-any-return]


def program_names() -> list[str]:
    """The stencils that come with the harness."""
    return sorted(path.stem for path in _PROGRAMS.glob("[a-z]*.py"))


def load_definition(told: str) -> Definition:
    """The stencil of that name, or in that file.

    Raises UsageError where there is none, and StencilError for a file that is not one.
    """
    if told.endswith(".py"):
        path = Path(told)
    elif told in program_names():
        path = _PROGRAMS / f"{told}.py"
    else:
        names = program_names()
        hint = suggestion(told, names, f"there are {', '.join(names)}.")
        raise UsageError(f"no stencil is called {told}; {hint} A file's name ends in .py")
    if not path.stem.isidentifier():
        raise UsageError(f"{path}: a stencil is called by its file, in letters, digits and _")
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} cannot be read: {reason}") from None
    definition = Definition(path.stem, path, text, _loaded(path))
    for name in ("expression", "reference"):
        definition._function(name)
    return definition


def _loaded(path: Path) -> ModuleType:
    try:
        module = load_module(path, "harness_stencil")
    except (Exception, SystemExit) as error:
        told = f"{type(error).__name__}: {error}"
        raise StencilError(f"{_where(error, path)}: {told}") from error
    if module is None:
        raise UsageError(f"{path} is not a Python file: its name must end in .py")
    return module


def _where(error: BaseException, path: Path) -> str:
    """The file, and its line that the error came from; Python knows the file by its whole path."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path.absolute()]
    return f"{path}:{lines[-1]}" if lines else str(path)
