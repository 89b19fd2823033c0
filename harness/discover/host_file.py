"""Facts -> the skeleton of a host module, with the known parts of the arguments.

The reference is left to a person: a guessed one would verify nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from harness.core.text import escaped
from harness.discover.facts import Facts
from harness.discover.space_file import features
from harness.discover.syntax import Argument
from harness.discover.types import UNKNOWN_TYPE, NumpyType


def host_text(facts: Facts) -> str:
    """Write the whole module."""
    return "\n".join((*_head(facts), "", "", *_arguments(facts), "", "", *_reference(facts), ""))


def _head(facts: Facts) -> Iterator[str]:
    name = facts.kernel.name
    yield f'"""Host module of {name}: the kernel\'s arguments and its expected results."""'
    yield ""
    yield "import numpy as np"
    written = [a.name for a in facts.passed if a.is_pointer and not a.is_const]
    if written:
        yield ""
        yield "# FILL IN: arrays of zeros are guessed to be outputs; fill those that are read."
        yield "# Name here the arrays that a kernel reads and overwrites; harness restores them"
        yield "# before every run:"
        yield f"# INOUT = ({json.dumps(written[0])},)"
        yield "# and here those that one launch writes and a later one reads, and that hold nothing"
        yield "# between runs; a run may write no others than these and the outputs:"
        yield f"# SCRATCH = ({json.dumps(written[-1])},)"


def _arguments(facts: Facts) -> Iterator[str]:
    yield "def arguments(features, rng):"
    yield '    """Return the kernel\'s arguments by name, in its order."""'
    by_argument = {argument: feature for feature, argument in features(facts).items() if argument}
    local = {a: f"features[{json.dumps(f)}]" for a, f in by_argument.items()}
    size = " * ".join(local.values()) or 'features["n"]'
    pointers = [a for a in facts.passed if a.is_pointer]
    if pointers:
        yield f"    size = {size}  # FILL IN: the size of each array, if it differs"
    yield "    return {"
    for argument in facts.passed:
        yield f"        {json.dumps(argument.name)}: {_argument(facts, argument, local)}"
    for text in facts.kernel.unreadable:
        yield f"        # FILL IN: {escaped(text)}"
    yield "    }"


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


def _reference(facts: Facts) -> Iterator[str]:
    written = [a.name for a in facts.passed if a.is_pointer and not a.is_const]
    outputs = ", ".join(written) or "all outputs"
    yield "def reference(arguments):"
    yield '    """Return the expected content of every output, by argument name."""'
    yield f"    # FILL IN: return a dict of the expected arrays: {outputs}"
    message = json.dumps(f"FILL IN: reference() must return the expected {outputs}")
    yield f"    raise NotImplementedError({message})"
