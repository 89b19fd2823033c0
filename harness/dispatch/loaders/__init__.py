"""Modules that launch a dispatched kernel or program: copied next to the code that chooses.

Harness may be absent where they run. So what they import of it needs nothing but Python, and is
copied too, as a module beside them.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from harness.dispatch.loaders import trying
from harness.measure.opencl import pocl_cpu

_HERE = Path(__file__).parent
_OF_ALL = {
    "__init__.py": "runtime",
    "_expressions.py": "expressions",
    "_workload.py": "workload",
    "torch_op.py": "torch_op",
}
_BESIDE = {"opencl": (pocl_cpu, trying), "cuda": (trying,), "command": ()}
_IMPORT = re.compile(r"^from harness\.[\w.]*?(\w+) import", re.MULTILINE)


def module_files(backend: str | None) -> dict[str, bytes]:
    """Return the content of a dispatcher's modules, by the names in its folder: what chooses, what
    counts its calls, what makes operators of PyTorch, and the loader of a backend with what it
    imports."""
    paths = {file: _HERE / f"{name}.py" for file, name in _OF_ALL.items()}
    if backend is not None:
        beside = (Path(inspect.getfile(module)) for module in _BESIDE[backend])
        paths |= {f"_{path.name}": path for path in (_HERE / f"{backend}.py", *beside)}
    texts = {file: path.read_text(encoding="utf-8") for file, path in paths.items()}
    return {file: _IMPORT.sub(r"from ._\1 import", text).encode() for file, text in texts.items()}
