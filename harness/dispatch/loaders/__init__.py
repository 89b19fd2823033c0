"""Modules that launch a dispatched kernel or program: copied next to the code that chooses.

Harness may be absent where they run. So what they import of it needs nothing but Python, and is
copied too, as a module beside them.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from harness.dispatch.loaders import trying
from harness.measure.opencl import pocl_cpu

_BESIDE = {"opencl": (pocl_cpu, trying), "cuda": (trying,), "command": ()}


def runtime_files() -> dict[str, bytes]:
    """Return the content of what any dispatcher has, by the names in its folder: what chooses, what
    counts its calls, and what makes operators of PyTorch."""
    names = {
        "__init__.py": "runtime",
        "_expressions.py": "expressions",
        "_workload.py": "workload",
        "torch_op.py": "torch_op",
    }
    files = {}
    for file, name in names.items():
        text = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
        own = f"from {__name__}.expressions import"
        files[file] = text.replace(own, "from ._expressions import").encode()
    return files


def loader_files(backend: str) -> dict[str, bytes]:
    """Return the content of a backend's loader and of what it imports, by their names."""
    loader = Path(__file__).with_name(f"{backend}.py").read_text(encoding="utf-8")
    files: dict[str, bytes] = {}
    for module in _BESIDE[backend]:
        path = Path(inspect.getfile(module))
        loader = loader.replace(f"from {module.__name__} import", f"from ._{path.stem} import")
        files[f"_{path.name}"] = path.read_bytes()
    return {f"_{backend}.py": loader.encode(), **files}
