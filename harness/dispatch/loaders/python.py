"""Call a dispatched Python callable: choose a configuration, build its callable once, call it."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Kernel:
    """A kernel of several callables; each call runs the one for its input.

        softmax = numba_softmax.load()
        softmax({"x": x, "y": y}, rows=1024, columns=256)

    The arguments are what the kernel's module takes, by name: it writes the outputs in place, or
    returns a dict of them. The first call with an input builds its callable, and may compile.
    """

    def __init__(self, dispatcher: Any, context: None = None) -> None:
        self._dispatcher = dispatcher
        path = Path(dispatcher.__file__).parent / dispatcher.DATA["configurations"][0]["file"]
        spec = importlib.util.spec_from_file_location(f"{dispatcher.__name__}._kernel", path)
        assert spec is not None
        assert spec.loader is not None
        self._module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._module)
        self._built = functools.lru_cache(maxsize=4096)(self._build)

    def _build(self, index: int, features: tuple[tuple[str, Any], ...]) -> Any:
        return self._module.build(dict(self._dispatcher.PORTFOLIO[index]), dict(features))

    def __call__(self, arguments: Mapping[str, Any], **features: Any) -> Any:
        """Call the callable for an input; raises LookupError if no configuration applies."""
        index = self._dispatcher.select_index(**features)
        return self._built(index, tuple(features.items()))(arguments)
