"""A person's Python files, loaded as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load_module(path: Path, prefix: str) -> ModuleType | None:
    """The module of a file, of which only the name begins with `prefix`; None where the file's
    name is not that of a Python file. Raises whatever its code raises, SystemExit included."""
    spec = importlib.util.spec_from_file_location(f"{prefix}_{path.stem}", path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their own module up by its name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
