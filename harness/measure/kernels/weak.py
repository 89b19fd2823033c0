"""What verification would let pass on an input: weaknesses of its data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import cast

import numpy as np

from harness.core.errors import HostModuleError
from harness.core.program import Argument
from harness.core.records import Input
from harness.measure.device.verify import Array, Tolerance, verify
from harness.measure.kernels.data import KernelData, make_arguments

REFERENCE_S = 1.0
"""The reference is computed for other data where that takes about so long in all, or less."""

_OTHER_SEED = 1


def weak_tests(problem: Input, data: KernelData, tolerance: Tolerance) -> Iterator[str]:
    """Yield each weakness of an input's data, in a sentence or two."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a reference may warn of data that do not fit together
        for name in data.expected:
            weakness = _why_weak(name, data, tolerance)
            if weakness is not None:
                yield weakness
        yield from _unread(problem, data, tolerance)


def _why_weak(name: str, data: KernelData, tolerance: Tolerance) -> str | None:
    """Return why an output is nearly right without work; None where it is not."""
    expected = data.expected[name]
    given = cast(Array, data.arguments[name])
    others = int(np.count_nonzero(expected))
    if not others:
        return f"{name} is 0 everywhere. Choose data of which the result is not"

    def wrong_in(found: Array) -> int:
        worst = verify({name: found}, {name: expected}, tolerance, data.sizes)
        return 0 if worst is None else worst.wrong_count

    def filled(value: object) -> Array:
        return np.full(expected.shape, value).astype(given.dtype)

    wrong = wrong_in(filled(0))
    if 2 * wrong < others:
        where = f"most elements of {name}" if wrong else name
        return f"a kernel that writes zeros to {where} would pass. Lower atol, or scale the data"
    if name in data.inout and not wrong_in(given):
        return f"a kernel that leaves {name} as it is would pass. Choose other data"
    if expected.size == 1:
        return None
    for value in (expected.flat[0], expected.mean()):
        constant = filled(value)
        if not wrong_in(constant):
            shown = f"{constant.flat[0].item():.6g}"
            return (
                f"a kernel that writes {shown} everywhere in {name} would pass. Choose other data"
            )
    return None


def _unread(problem: Input, data: KernelData, tolerance: Tolerance) -> Iterator[str]:
    """Yield on which inputs of the kernel its outputs do not depend, as far as other data show."""
    host = data.host
    arguments = data.arguments
    arrays = []
    for name, value in arguments.items():
        if isinstance(value, np.ndarray) and name not in data.unread:
            arrays.append(name)
    if host is None or data.made_s * (2 + len(arrays)) > REFERENCE_S:
        return
    other = make_arguments(host, problem, _OTHER_SEED)

    def is_same(changed: Mapping[str, Argument]) -> bool:
        try:
            outputs = host.reference(problem, {**arguments, **changed})
        except HostModuleError:  # data that do not fit together
            return False
        return verify(outputs, data.expected, tolerance, data.sizes) is None

    differ = [name for name in arrays if not np.array_equal(other[name], arguments[name])]
    if arrays and not differ:
        yield (
            "arguments() makes the same arrays for every seed, so a kernel that keeps results of "
            "earlier data would pass. Use its `rng`"
        )
    elif differ and is_same(other):
        yield "the outputs of other data would pass. Lower atol, or choose data that differ more"
    else:
        # The reference may leave out what an in-out array holds at first, such as a state.
        for name in differ:
            if name not in data.inout and is_same({name: other[name]}):
                yield (
                    f"a kernel that does not read {name} would pass: the outputs stay the same "
                    "with other numbers in it. Choose data in which they count"
                )
