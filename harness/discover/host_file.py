"""Facts -> the skeleton of a host module, with the known parts of the arguments.

The reference is left to a person: a guessed one would verify nothing.
"""

from __future__ import annotations

import json

from harness.core.text import escaped, template
from harness.discover.facts import Facts
from harness.discover.space_file import features
from harness.discover.syntax import Argument
from harness.discover.types import UNKNOWN_TYPE, NumpyType


def host_text(facts: Facts) -> str:
    """Write the whole module."""
    written = [a.name for a in facts.passed if a.is_pointer and not a.is_const]
    by_argument = {argument: feature for feature, argument in features(facts).items() if argument}
    local = {a: f"features[{json.dumps(f)}]" for a, f in by_argument.items()}
    return template("harness.discover", "host.py").render(
        kernel=facts.kernel,
        written=written,
        outputs=", ".join(written) or "all outputs",
        has_arrays=any(a.is_pointer for a in facts.passed),
        size=" * ".join(local.values()) or 'features["n"]',
        arguments=[(a.name, _argument(facts, a, local)) for a in facts.passed],
        unreadable=map(escaped, facts.kernel.unreadable),
    )


def _argument(facts: Facts, argument: Argument, local: dict[str, str]) -> str:
    """Write one argument's value, with a mark for its unknown parts."""
    known = facts.type_of(argument)
    kind = known or UNKNOWN_TYPE
    mark = "" if known else f"  # FILL IN: the dtype of {escaped(argument.type_name)}"
    if argument.is_pointer and argument.is_const and kind.is_integer:
        # Random numbers would run, but offsets and counts decide how much work there is.
        example = f"rng.integers(0, 100, {_shape(kind)}, np.{kind.name})"
        return f"None,  # FILL IN: offsets, counts or indices? Or numbers, as in {example}"
    if argument.is_pointer:
        return f"{_array(kind, argument.is_const)},{mark}"
    if argument.name in local and kind.width == 1:
        return f"np.{kind.name}({local[argument.name]}),{mark}"
    mark = mark or "  # FILL IN: its value"
    if kind.width > 1:
        return f"np.zeros(1, np.dtype((np.{kind.name}, {kind.width}))),{mark}"
    return f"np.{kind.name}(1),{mark}"


def _array(kind: NumpyType, is_read: bool) -> str:
    shape = _shape(kind)
    if not is_read:
        return f"np.zeros({shape}, np.{kind.name})"
    if kind.name in ("float32", "float64"):
        return f"rng.random({shape}, np.{kind.name})"
    if kind.name == "float16":
        return f"rng.random({shape}, np.float32).astype(np.float16)"
    return f"rng.integers(0, 2, {shape}).astype(np.bool_)"


def _shape(kind: NumpyType) -> str:
    return "size" if kind.width == 1 else f"(size, {kind.width})"
