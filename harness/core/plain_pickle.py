"""Read plain data from a pickle that may come from anywhere, without running any of its code.

`pickle.Unpickler` calls what a pickle names, so that here it finds nothing but stand-ins: a class
of OpenTuner's makes a PlainObject, which holds its name and attributes, and the functions that make
numpy's numbers are replaced. All else is refused by its name. Opcodes that need no name or exhaust
the process are refused before, and what is no plain data after it was read.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_CLASSES = frozenset(
    {
        "argparse.Namespace",
        "opentuner.search.objective.MinimizeTime",
        "opentuner.search.objective.MaximizeAccuracy",
        "opentuner.search.objective.MaximizeAccuracyMinimizeSize",
        "opentuner.search.objective.ThresholdAccuracyMinimizeTime",
    }
)
"""The classes whose objects OpenTuner stores in its own tables."""

_MAX_BYTES = 1 << 26  # after decompression

_MOST_TUPLES = 20_000
"""To hash a tuple in a tuple in a tuple ... overflows the stack of the process."""

_REFUSED = ("EXT1", "EXT2", "EXT4")
"""Opcodes that find classes in Python's own register."""

_ATOMS = frozenset((type(None), bool, int, float, str, bytes))


class UnsafePickle(ValueError):
    """A pickle holds more than plain data, or cannot be read."""


@dataclass
class PlainObject:
    """An object of a pickle: the name of its class, which is not loaded, and its attributes."""

    class_name: str
    attributes: dict[str, Any] = field(default_factory=dict)

    def __setstate__(self, state: object) -> None:
        """Take the attributes that a pickle sets."""
        if not isinstance(state, dict):
            raise UnsafePickle("a pickle of an object whose attributes are no dictionary")
        self.attributes.update(state)


def load_compressed(data: object) -> Any:
    """Read a pickle that is compressed with zlib or not, as in OpenTuner's tables; objects of the
    classes that OpenTuner stores are read as PlainObject.

    Raises UnsafePickle, which names what is not plain data.
    """
    if not isinstance(data, bytes):
        raise UnsafePickle(f"{type(data).__name__} in place of a pickle")
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(data, _MAX_BYTES)
    except zlib.error:
        return _load_plain(data)
    if unpacker.unconsumed_tail:
        raise UnsafePickle(f"a pickle of more than {_MAX_BYTES >> 20} MiB")
    # OpenTuner takes the end of a stream that is cut off for a pickle without compression.
    return _load_plain(plain if unpacker.eof else data)


def dump_compressed(value: object) -> bytes:
    """Pickle plain data as OpenTuner does: compressed where that is shorter."""
    data = pickle.dumps(value, 2)
    return min(zlib.compress(data, 9), data, key=len)


def _load_plain(data: bytes) -> Any:
    try:
        _check_opcodes(data)
        value = _Unpickler(io.BytesIO(data), encoding="latin1").load()
    except UnsafePickle:
        raise
    except (
        *(pickle.UnpicklingError, ValueError, TypeError, LookupError, AttributeError),
        *(EOFError, OverflowError, MemoryError),
    ) as error:
        raise UnsafePickle(f"a pickle that cannot be read: {error}") from None
    _check_data(value)
    return value


def _check_opcodes(data: bytes) -> None:
    """Refuse opcodes that plain data has no use for, and what would exhaust the process."""
    tuples = 0
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if opcode.name in _REFUSED:
            raise UnsafePickle(f"a pickle with {opcode.name}, which is no plain data")
        # Python makes room for all numbers up to that of an object.
        if opcode.name.endswith("PUT") and int(argument or 0) > count:
            raise UnsafePickle(f"a pickle that gives an object the number {argument}")
        tuples += "TUPLE" in opcode.name
    if tuples > _MOST_TUPLES:
        raise UnsafePickle(f"a pickle of more than {_MOST_TUPLES:,} tuples")


def _check_data(data: object) -> None:
    """Refuse what is neither plain data nor a PlainObject, such as a stand-in."""
    seen: set[int] = set()
    left = [data]
    while left:
        value = left.pop()
        kind = type(value)
        if kind in _ATOMS or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            left += value
        elif isinstance(value, PlainObject):
            left.append(value.attributes)
        else:
            raise UnsafePickle(f"a pickle of {getattr(value, '__name__', kind.__name__)}")


# ---------------------------------------------------------------------------- stand-ins


class _Unpickler(pickle.Unpickler):
    """Finds stand-ins in place of classes and functions.

    A pickle may also change what it finds, so that it finds another one each time.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in of what a pickle names; nothing is imported."""
        full_name = f"{module}.{name}"
        if full_name in _CLASSES:
            return _stand_in(full_name)
        if full_name in _FUNCTIONS:
            return lambda *arguments: _FUNCTIONS[full_name](*arguments)
        raise UnsafePickle(f"a pickle of {full_name[:200]!r}, which could run code")


def _stand_in(class_name: str) -> type:
    """Make a class that a pickle can make objects of."""

    def make(cls: type, *arguments: object) -> PlainObject:
        if arguments:
            raise UnsafePickle("a pickle that makes an object from arguments")
        return PlainObject(class_name)

    return type(class_name, (), {"__new__": make})


class _NumberType:
    """The type of a numpy number, such as i8, and its byte order."""

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str) or not re.fullmatch("b1|[iu][1248]|f[248]", code):
            raise UnsafePickle(f"a pickle of numpy's type {str(code)[:200]!r}")
        self.code, self.order = code, "="

    def __setstate__(self, state: Any) -> None:
        if state[1] not in ("<", ">", "=", "|"):
            raise UnsafePickle("a pickle of numpy's numbers in an unknown byte order")
        self.order = state[1]


def _number(kind: object, data: object) -> bool | int | float:
    if not isinstance(kind, _NumberType) or not isinstance(data, bytes):
        raise UnsafePickle("a pickle of a numpy scalar that is no number")
    number: bool | int | float = np.frombuffer(data, np.dtype(kind.order + kind.code), 1)[0].item()
    return number


def _encoded(text: object, encoding: object) -> bytes:
    """Return bytes, which older pickles hold as text."""
    if not isinstance(text, str) or encoding != "latin1":
        raise UnsafePickle("a pickle of bytes in an unknown encoding")
    return text.encode("latin1")


_FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "_codecs.encode": _encoded,
    "numpy.dtype": _NumberType,
    "numpy.core.multiarray.scalar": _number,  # before numpy 2
    "numpy._core.multiarray.scalar": _number,
}
"""What stands in for the functions that pickles of numpy's numbers name. OpenTuner's techniques
leave such numbers in configurations."""
