"""Load a person's Python file as a module."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from sysconfig import get_path
from types import ModuleType

from harness.core.files import cache_folder


def load_module(path: Path, prefix: str) -> ModuleType | None:
    """Load a Python file as a module named after `prefix` and the file.

    It may import files that lie beside it, as a script may. Returns None where the file's name does
    not end in .py. Raises whatever the file's code raises, SystemExit included.
    """
    spec = importlib.util.spec_from_file_location(f"{prefix}_{path.stem}", path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their own module up by its name.
    sys.modules[spec.name] = module
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path and len(with_imports(path)) > 1:
        sys.path.insert(0, folder)
    spec.loader.exec_module(module)
    return module


def shown_path(path: Path) -> str:
    """Return a file's path for messages; of a copy of functions the key that they were given as."""
    is_copy = path.resolve().parent.parent == cache_folder("python").resolve()  # of make_space
    return f'kernel["{path.stem}"]' if is_copy else str(path)


def with_imports(host: Path) -> list[Path]:
    """Return a Python file, and then all files of its folder that it imports, directly or not."""
    files: dict[Path, None] = {}
    waiting = [host]
    while waiting:
        path = waiting.pop()
        if path not in files:
            files[path] = None
            waiting += _imported(path, host.parent)
    return list(files)


def _imported(path: Path, folder: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # what imports it has a clearer error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or alias.name for alias in node.names]
        else:
            continue
        for top in [folder / name.partition(".")[0] for name in names]:
            if top.with_suffix(".py").is_file():
                yield top.with_suffix(".py")
            elif (top / "__init__.py").is_file():
                yield from top.rglob("*.py")


@dataclass
class _Imports:
    """What the code of one owner has imported, and its `sys.path`."""

    modules: dict[str, ModuleType]
    path: list[str]


class ImportsApart:
    """Keeps what the files of several owners import apart, in one process.

    Each owner finds its own helpers, also those of a name that another owner uses. What was loaded
    before all of them, and Python's own and installed modules, they share.
    """

    def __init__(self) -> None:
        self._path = list(sys.path)
        self._folders = {os.path.abspath(folder) for folder in self._path if _is_installed(folder)}
        self._names = {name.partition(".")[0] for name in sys.modules}
        self._owner: Hashable = None
        self._aside: dict[Hashable, _Imports] = {}

    def turn_to(self, owner: Hashable) -> None:
        """Put aside what the last owner has imported, and take back what this one has."""
        if owner == self._owner:
            return
        if self._owner is not None:
            own = {name: module for name, module in sys.modules.items() if self._is_own(name)}
            self._aside[self._owner] = _Imports(own, list(sys.path))
            for name in own:
                del sys.modules[name]
            imports = self._aside.pop(owner, _Imports({}, self._path))
            sys.modules.update(imports.modules)
            sys.path[:] = imports.path
        self._owner = owner

    def _is_own(self, name: str) -> bool:
        top = name.partition(".")[0]
        if top in self._names:
            return False
        module = sys.modules.get(top) or sys.modules[name]
        folders = [*getattr(module, "__path__", ())] or [getattr(module, "__file__", None)]
        around = [os.path.dirname(os.path.abspath(folder)) for folder in folders if folder]
        return bool(around) and self._folders.isdisjoint(around)


def _is_installed(folder: str) -> bool:
    """Say whether a folder of `sys.path` belongs to Python, or holds installed packages; the
    current folder and those of PYTHONPATH do not."""
    own = tuple(map(os.path.realpath, (get_path("stdlib"), get_path("platstdlib"))))
    is_for_packages = os.path.basename(folder) in ("site-packages", "dist-packages")
    return is_for_packages or os.path.realpath(folder).startswith(own)
