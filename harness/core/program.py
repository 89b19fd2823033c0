"""The programs, their files, binaries, launches and arguments of all backends."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import UsageError
from harness.core.records import Build

Argument = npt.NDArray[Any] | np.generic
"""A kernel argument: an array lives in device memory, a numpy scalar is passed by value."""


PYTHON = "python"
"""The language, and the backend, of a kernel that is a Python callable."""


@dataclass(frozen=True)
class Fill:
    """The content of an array whose bytes are all equal, which a device writes fastest."""

    byte: int

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return an array with this content."""
        size_bytes = math.prod(shape) * dtype.itemsize
        return np.full(size_bytes, self.byte, np.uint8).view(dtype).reshape(shape)


Contents = npt.NDArray[Any] | Fill
"""What an array argument holds."""


@dataclass(frozen=True)
class FlagFile:
    """A file that a compiler flag passes to the compiler.

    `mark` stands for it in a compiler's options: its name, which is the flag's value in
    configurations, and the first digits of the `sha256` of its content.
    """

    mark: str
    path: Path
    sha256: str

    def read(self) -> bytes:
        """Return the content; raises UsageError where it has changed since the space was read."""
        try:
            content = self.path.read_bytes()
        except OSError:
            content = b""
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise UsageError(f"{self.path} has changed since harness read it; start the run again")
        return content


def with_paths(options: Iterable[str], files: Iterable[FlagFile]) -> tuple[str, ...]:
    """Return options with its absolute path in place of each file's mark."""
    words = tuple(options)
    for file in files:
        words = tuple(word.replace(file.mark, str(file.path.absolute())) for word in words)
    return words


def with_marks(output: str, files: Iterable[FlagFile]) -> str:
    """Return a compiler's output with each file's mark in place of its path."""
    for file in files:
        output = output.replace(str(file.path.absolute()), file.mark)
    return output


@dataclass(frozen=True)
class Program:
    """Everything that decides what the compiler produces.

    `text` is complete: the parameters' `#define` lines, a `#line` directive and the source.
    `includes` holds the text of each file that it includes, so that editing a header
    changes the build cache's key; `include_dirs` says where the compiler finds them. A build
    may take `timeout_s`, or as long as the compiler's default where that is None. `files` are
    those that the options name.
    """

    text: str
    options: tuple[str, ...]
    include_dirs: tuple[str, ...]
    includes: tuple[str, ...] = ()
    timeout_s: float | None = None
    files: tuple[FlagFile, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The options as the compiler's command line has them, with paths of files."""
        return with_paths(self.options, self.files)

    def key(self, compiler: str) -> str:
        """Return the build cache's key for this program under a compiler and its target."""
        digest = hashlib.sha256()
        contents = (file.sha256 for file in self.files)
        for part in (compiler, self.text, *self.options, "\x1e", *self.includes, *contents):
            digest.update(part.encode() + b"\x1f")
        return digest.hexdigest()


ANY_CARVEOUT = -1
"""The driver chooses how much of the L1 cache is shared memory."""


@dataclass(frozen=True)
class Launch:
    """One kernel launch: `group` work-items per dimension, `grid` groups per dimension.

    `arguments` are what is passed, in the kernel's order: the names of bound arguments, or
    numpy scalars by value. Raises TypeError for anything else. `shared_bytes` is the dynamic shared
    memory of a group: `extern __shared__` in CUDA, the `local` pointer parameter in OpenCL. In
    CUDA, bound arrays named in `constants` fill the module's variables of these names before. With
    `cooperative`, the groups of the grid may wait for each other (CUDA's grid.sync()). In CUDA,
    `carveout` is the preferred shared memory of a multiprocessor, in percent of its maximum.
    """

    function: str
    group: tuple[int, ...]
    grid: tuple[int, ...]
    arguments: tuple[str | np.generic, ...]
    shared_bytes: int = 0
    constants: tuple[str, ...] = ()
    cooperative: bool = False
    carveout: int = ANY_CARVEOUT

    def __post_init__(self) -> None:
        for extent in (*self.group, *self.grid):
            if not isinstance(extent, (int, np.integer)):
                raise TypeError(f"group and grid hold whole numbers, but got {extent!r}")
        # Drivers take no numbers of numpy, in which sizes may also overflow.
        object.__setattr__(self, "group", tuple(map(int, self.group)))
        object.__setattr__(self, "grid", tuple(map(int, self.grid)))
        if not isinstance(self.shared_bytes, (int, np.integer)) or self.shared_bytes < 0:
            raise TypeError(f"shared_bytes is a whole number from 0, but got {self.shared_bytes!r}")
        object.__setattr__(self, "shared_bytes", int(self.shared_bytes))
        if not isinstance(self.cooperative, bool):
            raise TypeError(f"cooperative is True or False, but got {self.cooperative!r}")
        if self.carveout not in range(ANY_CARVEOUT, 101):
            raise ValueError(f"carveout is a percentage, or -1, but got {self.carveout!r}")
        object.__setattr__(self, "carveout", int(self.carveout))
        # A text would count as a tuple of letters.
        listed = [self.arguments] if isinstance(self.arguments, str) else list(self.arguments)
        wrong = [item for item in listed if not isinstance(item, (str, np.generic))]
        if wrong or listed == [self.arguments]:
            raise TypeError(
                "arguments is a tuple of names and of numpy scalars such as np.int32(3), "
                f"but got {(wrong or listed)[0]!r}"
            )
        if len(self.group) != len(self.grid) or not 1 <= len(self.group) <= 3:
            raise ValueError(
                f"group and grid must have the same 1 to 3 dimensions, "
                f"but got {self.group} and {self.grid}"
            )

    @property
    def block(self) -> tuple[int, int]:
        """The threads of a group (block), and its bytes of dynamic shared memory."""
        return math.prod(self.group), self.shared_bytes

    def filling(self, names: tuple[str, ...]) -> Launch:
        """Return the launch in which these arguments fill variables in place of being passed."""
        if not names:
            return self
        passed = tuple(argument for argument in self.arguments if argument not in names)
        return replace(self, arguments=passed, constants=names)


@dataclass(frozen=True)
class Binary:
    """A build and its output; only the Device of the same backend reads `data`.

    `read` has the files that the compiler says it read, and the SHA-256 of each: those that the
    program does not name, such as headers in folders of the environment.
    """

    build: Build
    data: bytes
    read: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Read:
    """A step between launches: `array = yield Read("name")` gives launches() a copy of an array
    argument as it now is on the device, which may decide what is launched next."""

    name: str


def family(compiler: str) -> str:
    """Return a compiler's name without its version: `gcc` for `gcc-12`."""
    return re.sub(r"-\d+(\.\d+)*$", "", compiler)
