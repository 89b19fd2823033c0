"""An input made concrete by a host module: the arguments, and the outputs that they must give."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.program import Argument
from harness.core.records import Config, Input
from harness.measure.host_module import Array, HostModule, Steps
from harness.measure.verify import never_right


@dataclass
class Case:
    """One input made concrete: the arguments, the expected outputs, what a run overwrites."""

    arguments: Mapping[str, Argument]
    expected: Mapping[str, Array]
    inout: tuple[str, ...]
    host: HostModule | None = None
    of_twin: dict[Hashable, Mapping[str, Array] | None] = field(default_factory=dict)
    """The outputs that harness.measure.trial holds others against bit for bit, by what gave
    them."""
    _placed: dict[str, Array] = field(default_factory=dict)

    def launches(
        self, config: Config, functions: Sequence[str], asked: set[str] | None = None
    ) -> Steps:
        """The steps of one run, where the host module tells them; only these kernels are
        launched. What goes wrong is this configuration's LaunchFailed. The parameters that the
        module asks for are added to `asked`."""
        assert self.host is not None
        with _as_launch_failed():
            yield from self.host.launches(self.arguments, config, functions, asked)

    def arranged(self, config: Config, asked: set[str] | None = None) -> dict[str, Array]:
        """The arrays that lie otherwise under this configuration; raises LaunchFailed. The
        parameters that the module asks for are added to `asked`."""
        if self.host is None:
            return {}
        with _as_launch_failed():
            return self.host.arrange(self.arguments, config, frozenset(self.expected), asked)

    def observed(self, config: Config) -> dict[str, float]:
        """What the host module tells of a configuration beside its time; raises LaunchFailed."""
        if self.host is None:
            return {}
        with _as_launch_failed():
            return self.host.observe(config)

    def to_place(self, arranged: Mapping[str, Array], in_turn: bool) -> dict[str, Array]:
        """What must be written for the device to hold this arrangement and no other.

        Configurations that take turns all write whatever one of them arranges, before each
        run: else only some would start on data that were just written.
        """
        wanted = {name: self._array(name) for name in self._placed} | dict(arranged)
        moved = {
            name: array
            for name, array in wanted.items()
            if in_turn or self._placed.get(name, self._array(name)) is not array
        }
        self._placed.update(moved)
        return moved

    def bound_anew(self) -> None:
        """The device holds the arguments as arguments() gave them, and no arrangement."""
        self._placed.clear()

    def before_first(self, arranged: Mapping[str, Array]) -> dict[str, Array]:
        """What every output holds before a verified run: in-out arrays their own content,
        the others what is right nowhere, so that an element never written shows."""
        return self.restored(arranged) | {
            name: never_right(expected, self._array(name).dtype)
            for name, expected in self.expected.items()
            if name not in self.inout
        }

    def restored(self, arranged: Mapping[str, Array]) -> dict[str, Array]:
        """The original content of what the kernel reads and overwrites."""
        return {name: arranged.get(name, self._array(name)) for name in self.inout}

    def _array(self, name: str) -> Array:
        return cast(Array, self.arguments[name])


@contextlib.contextmanager
def _as_launch_failed() -> Iterator[None]:
    try:
        yield
    except HostModuleError as error:
        raise LaunchFailed(str(error)) from error


def make_case(path: Path, given: Input, seed: int = 0) -> Case:
    """Run a host module for an input; equal inputs and seeds give equal data.

    Raises HostModuleError for whatever is wrong with the module or with what it returns.
    """
    host = HostModule(path)
    digest = hashlib.sha256(f"{seed}:{given.json}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    arguments = host.arguments(given, rng)
    expected = host.reference(given, arguments)
    return Case(arguments, expected, host.inout(arguments), host)
