"""Measurements that configurations of equal machine code and equal launches share."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from harness.core.records import Build, Config, Measurement

_Code = tuple[str, tuple[Hashable, ...]]
"""The digest of machine code, and its launches: none where the host module yields them; for a
program, its words and environment variables."""


@dataclass
class EqualCode:
    """The measurements of one input, by machine code and launches.

    Many values of compiler flags and macros change nothing. The measurement of one configuration
    then holds for the others on the same input.

    The host module reads the configuration, and may arrange the data and launch accordingly. It is
    known to do the same only where all parameters that it read are equal, so those are compared
    as well. A measurement without a record of what was read is never shared.
    """

    _found: dict[tuple[_Code | None, Config], Measurement] = field(default_factory=dict)
    _read: dict[_Code | None, list[tuple[str, ...]]] = field(default_factory=dict)

    def add(self, measured: Measurement, launches: tuple[Hashable, ...]) -> None:
        """Add a measurement, which may itself be shared; of equal ones the first stays."""
        code, names = _code(measured.build, launches), measured.host_read
        if code is not None and names is not None and measured.outcome.repeats:
            read = self._read.setdefault(code, [])
            if names not in read:
                read.append(names)
            self._found.setdefault((code, _part(measured.config, names)), measured)

    def find(
        self, config: Config, build: Build, launches: tuple[Hashable, ...]
    ) -> Measurement | None:
        """Return the measurement of an equal configuration as this one's; None without one."""
        code = _code(build, launches)
        for names in self._read.get(code, ()):
            equal = self._found.get((code, _part(config, names)))
            # The same configuration is measured again when it is requested again.
            if equal is not None and equal.config != config:
                return _shared(equal, config, build)
        return None


def _code(build: Build | None, launches: tuple[Hashable, ...]) -> _Code | None:
    if build is None or build.binary_sha256 is None:
        return None
    return build.binary_sha256, launches


def _part(config: Config, names: Iterable[str]) -> Config:
    return Config({name: config[name] for name in names if name in config})


def _shared(equal: Measurement, config: Config, build: Build) -> Measurement:
    """Return another's measurement as this configuration's, which took no time."""
    origin = equal.shared_with or equal.config.digest
    return dataclasses.replace(equal, config=config, build=build, wall_s=0.0, shared_with=origin)
