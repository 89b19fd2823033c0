"""Read plain data from a pickle that may come from anywhere, without running any of its code.

Python's own reader imports what a pickle names and calls it. This one walks the opcodes as
`pickletools` lists them and knows lists, dictionaries, tuples, numbers, texts, None and numpy's
numbers. An object of an expected class becomes a PlainObject, which holds its class's name and its
attributes; the class itself is never imported. All else is refused by its name.
"""

from __future__ import annotations

import pickletools
import re
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OPENTUNER_CLASSES = frozenset(
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


class UnsafePickle(ValueError):
    """A pickle holds more than plain data, or cannot be read."""


@dataclass
class PlainObject:
    """An object of a pickle: the name of its class, which is not loaded, and its attributes."""

    class_name: str
    attributes: dict[str, Any] = field(default_factory=dict)


def load_compressed(data: object, classes: Collection[str] = OPENTUNER_CLASSES) -> Any:
    """Read a pickle that is compressed with zlib or not, as in OpenTuner's tables.

    Raises what `load_plain` does.
    """
    if not isinstance(data, bytes):
        raise UnsafePickle(f"{type(data).__name__} in place of a pickle")
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(data, _MAX_BYTES)
    except zlib.error:
        return load_plain(data, classes)
    if unpacker.unconsumed_tail:
        raise UnsafePickle(f"a pickle of more than {_MAX_BYTES >> 20} MiB")
    # OpenTuner takes the end of a stream that is cut off for a pickle without compression.
    return load_plain(plain if unpacker.eof else data, classes)


def load_plain(data: bytes, classes: Collection[str] = ()) -> Any:
    """Return the data of a pickle; objects of `classes`, by their full names, as PlainObject.

    Raises UnsafePickle, which names what is not plain data.
    """
    machine = _Machine(frozenset(classes))
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return machine.pop()
            machine.run(opcode.name, argument)
    except UnsafePickle:
        raise
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UnsafePickle(f"a pickle that cannot be read: {error}") from None
    raise UnsafePickle("a pickle without an end")


@dataclass(frozen=True)
class _ClassName:
    """The name of a class, in place of the class."""

    text: str


class _Machine:
    """The stack and the memory of a pickle; each method but the first three is an opcode."""

    def __init__(self, classes: frozenset[str]) -> None:
        self._classes = classes
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        self._memory: dict[int, Any] = {}

    def run(self, name: str, argument: Any) -> None:
        """Run an opcode."""
        if name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name]())
        elif name in _LITERALS:
            self._stack.append(argument)
        elif name in _OPCODES:
            _OPCODES[name](self, argument)
        elif name not in ("PROTO", "FRAME"):
            raise UnsafePickle(f"a pickle with {name}, which is no plain data")

    def pop(self) -> Any:
        """Take the last value from the stack; plain data only."""
        value = self._stack.pop()
        if isinstance(value, _ClassName):
            raise UnsafePickle(f"a pickle of the class {value.text}")
        return value

    def mark(self, _: Any) -> None:
        self._marked.append(self._stack)
        self._stack = []

    def since_mark(self) -> list[Any]:
        """Take the values after the last mark from the stack."""
        values = [self.pop() for _ in range(len(self._stack))][::-1]
        self._stack = self._marked.pop()
        return values

    def put(self, index: Any) -> None:
        self._memory[len(self._memory) if index is None else int(index)] = self._stack[-1]

    def get(self, index: Any) -> None:
        self._stack.append(self._memory[int(index)])

    def make_list(self, _: Any) -> None:
        values = self.since_mark()
        self._stack.append(values)

    def make_tuple(self, _: Any) -> None:
        values = self.since_mark()
        self._stack.append(tuple(values))

    def make_dict(self, _: Any) -> None:
        values = self.since_mark()
        self._stack.append(dict(zip(values[::2], values[1::2], strict=True)))

    def append(self, _: Any) -> None:
        self._extend([self.pop()])

    def append_all(self, _: Any) -> None:
        self._extend(self.since_mark())

    def set_item(self, _: Any) -> None:
        self._update([self.pop(), self.pop()][::-1])

    def set_all(self, _: Any) -> None:
        self._update(self.since_mark())

    def name_class(self, argument: Any) -> None:
        module, _, name = str(argument).partition(" ")
        self._push_class(f"{module}.{name}")

    def name_class_of_stack(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        self._push_class(f"{module}.{name}")

    def call(self, _: Any) -> None:
        """Do what one of the known functions does; none is imported or called."""
        arguments, made = self.pop(), self._stack.pop()
        if not isinstance(made, _ClassName) or made.text not in _CALLS:
            raise UnsafePickle("a pickle that calls a function")
        self._stack.append(_CALLS[made.text](*arguments))

    def make_object(self, _: Any) -> None:
        arguments, made = self.pop(), self._stack.pop()
        if not isinstance(made, _ClassName) or arguments != ():
            raise UnsafePickle("a pickle that makes an object from arguments")
        self._stack.append(PlainObject(made.text))

    def set_attributes(self, _: Any) -> None:
        state, made = self.pop(), self._stack[-1]
        if isinstance(made, _NumberType):
            made.order = str(state[1])
            return
        if not isinstance(made, PlainObject) or not isinstance(state, dict):
            raise UnsafePickle("a pickle that sets the state of something other than an object")
        made.attributes.update(state)

    def _push_class(self, name: str) -> None:
        if name not in self._classes and name not in _CALLS:
            raise UnsafePickle(f"a pickle of {name[:200]!r}, which could run code")
        self._stack.append(_ClassName(name))

    def _extend(self, values: list[Any]) -> None:
        if not isinstance(self._stack[-1], list):
            raise UnsafePickle("a pickle that appends to something other than a list")
        self._stack[-1].extend(values)

    def _update(self, values: list[Any]) -> None:
        if not isinstance(self._stack[-1], dict):
            raise UnsafePickle("a pickle that sets items of something other than a dictionary")
        self._stack[-1].update(zip(values[::2], values[1::2], strict=True))

    def tuple_of(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self._stack.append(tuple(values[::-1]))


@dataclass
class _NumberType:
    """The type of a numpy number, such as i8, and its byte order."""

    code: str
    order: str = "="


def _number_type(code: Any, *_: Any) -> _NumberType:
    if not isinstance(code, str) or not re.fullmatch("b1|[iu][1248]|f[248]", code):
        raise UnsafePickle(f"a pickle of numpy's type {str(code)[:200]!r}")
    return _NumberType(code)


def _number(kind: Any, data: Any) -> bool | int | float:
    if not isinstance(kind, _NumberType) or not isinstance(data, bytes):
        raise UnsafePickle("a pickle of a numpy scalar that is no number")
    found: bool | int | float = np.frombuffer(data, np.dtype(kind.order + kind.code), 1)[0].item()
    return found


def _encoded(text: Any, encoding: Any) -> bytes:
    """Return bytes, which older pickles hold as text."""
    if not isinstance(text, str) or encoding != "latin1":
        raise UnsafePickle("a pickle of bytes in an unknown encoding")
    return text.encode("latin1")


_CALLS: dict[str, Callable[..., Any]] = {
    "_codecs.encode": _encoded,
    "numpy.dtype": _number_type,
    "numpy.core.multiarray.scalar": _number,  # before numpy 2
    "numpy._core.multiarray.scalar": _number,
}
"""What stands in for the functions that pickles of numpy's numbers name. OpenTuner's techniques
leave such numbers in configurations."""


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
}

_LITERALS = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    )
)

_OPCODES: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine.mark,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.get),
    "LIST": _Machine.make_list,
    "TUPLE": _Machine.make_tuple,
    "DICT": _Machine.make_dict,
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "APPEND": _Machine.append,
    "APPENDS": _Machine.append_all,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_all,
    "GLOBAL": _Machine.name_class,
    "STACK_GLOBAL": _Machine.name_class_of_stack,
    "REDUCE": _Machine.call,
    "NEWOBJ": _Machine.make_object,
    "BUILD": _Machine.set_attributes,
}
