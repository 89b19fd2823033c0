"""Find the fastest configuration of a CUDA, OpenCL or Python kernel for each input shape.

In Python (docs/reference/python.md):

    space = harness.load_space("spaces/mvmul.yaml")
    results = harness.tune(space, test_limit=50)
    print(results, results.advice, results.rule, sep="\n")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.api.check import check as check
    from harness.api.results import TuneResults as TuneResults
    from harness.api.results import open_results as open_results
    from harness.api.session import session as session
    from harness.api.spaces import load_space as load_space
    from harness.api.spaces import make_space as make_space
    from harness.api.tune import replay as replay
    from harness.api.tune import tune as tune
    from harness.core.errors import HarnessError as HarnessError
    from harness.search import MeasurementInterface as MeasurementInterface
    from harness.space_file import Spec as Spec

__version__ = "0.2.0"

_HOMES = {
    "HarnessError": "harness.core.errors",
    "MeasurementInterface": "harness.search",
    "Spec": "harness.space_file",
    "TuneResults": "harness.api.results",
    "check": "harness.api.check",
    "load_space": "harness.api.spaces",
    "make_space": "harness.api.spaces",
    "open_results": "harness.api.results",
    "replay": "harness.api.tune",
    "session": "harness.api.session",
    "tune": "harness.api.tune",
}
"""The public names, each with the module that has it, which is imported at first use."""

__all__ = sorted(["__version__", *_HOMES])


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that `import harness` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
