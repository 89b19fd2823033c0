"""Configurations of equal machine code that are launched alike are one measurement.

Many settings of compiler flags and macros change nothing. What was measured of one configuration
then holds for the others, on the same input: times, verdict and what was observed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from harness.core.records import Build, Config, Measurement


@dataclass(frozen=True)
class _Code:
    """Machine code and how it is launched; no launches where the host module tells them. Of a
    program they are its words."""

    sha256: str
    launches: tuple[Hashable, ...]


@dataclass
class EqualCode:
    """The measurements of one input, found by what was launched.

    The host module is given the configuration, and may lay out the data or launch as that says.
    What it does is only known to be the same where all that it asked for is the same, so that is
    compared as well. A measurement of which it is not known what was asked for is never shared.
    """

    _found: dict[tuple[_Code | None, Config], Measurement] = field(default_factory=dict)
    _asked: dict[_Code | None, list[tuple[str, ...]]] = field(default_factory=dict)

    def add(self, measured: Measurement, launches: tuple[Hashable, ...]) -> None:
        """What was measured, or shared, joins; the first of equals stays."""
        code, names = _code(measured.build, launches), measured.host_read
        if code is not None and names is not None and measured.outcome.repeats:
            asked = self._asked.setdefault(code, [])
            if names not in asked:
                asked.append(names)
            self._found.setdefault((code, _part(measured.config, names)), measured)

    def find(
        self, config: Config, build: Build, launches: tuple[Hashable, ...]
    ) -> Measurement | None:
        """The measurement that another configuration has in common with this one, as this
        one's; None where this one must be measured."""
        code = _code(build, launches)
        for names in self._asked.get(code, ()):
            found = self._found.get((code, _part(config, names)))
            # Who asks for the same configuration again wants it measured again.
            if found is not None and found.config != config:
                return _shared(found, config, build)
        return None


def _code(build: Build | None, launches: tuple[Hashable, ...]) -> _Code | None:
    if build is None or build.binary_sha256 is None:
        return None
    return _Code(build.binary_sha256, launches)


def _part(config: Config, names: Iterable[str]) -> Config:
    return Config({name: config[name] for name in names if name in config})


def _shared(found: Measurement, config: Config, build: Build) -> Measurement:
    """Another's measurement as this configuration's, which cost no time."""
    origin = found.shared_with or found.config.digest
    return dataclasses.replace(found, config=config, build=build, wall_s=0.0, shared_with=origin)
