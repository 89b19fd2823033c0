"""Measurements that configurations of equal machine code and equal launches share."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from harness.core.records import Build, Config, Input, Measurement

_Code = tuple[str, tuple[Hashable, ...]]
"""The digest of machine code, and its launches: none where the host module yields them; for a
program, its words and environment variables."""


@dataclass
class EqualCode:
    """Measurements by input, machine code and launches.

    Many values of compiler flags and macros change nothing. The measurement of one configuration
    then holds for the others on the same input.

    The host module reads the configuration, and may arrange the data and launch accordingly. It
    certainly does the same only where all parameters that it read are equal, so those are compared
    as well. A measurement without a record of what was read is never shared.
    """

    _measured: dict[tuple[Input, _Code, Config], Measurement] = field(default_factory=dict)
    _read: dict[tuple[Input, _Code], list[tuple[str, ...]]] = field(default_factory=dict)

    def add(self, measured: Measurement, launches: tuple[Hashable, ...]) -> None:
        """Add a measurement, which may itself be shared; of equal ones the first stays."""
        code = _code(measured.build, launches)
        names = measured.host_read
        if code is None or names is None or not measured.outcome.repeats:
            return
        read = self._read.setdefault((measured.input, code), [])
        if names not in read:
            read.append(names)
        key = measured.input, code, _part(measured.config, names)
        self._measured.setdefault(key, measured)

    def find(
        self, problem: Input, config: Config, build: Build, launches: tuple[Hashable, ...]
    ) -> Measurement | None:
        """Return the measurement of an equal configuration as this one's; None without one."""
        code = _code(build, launches)
        if code is None:
            return None
        for names in self._read.get((problem, code), ()):
            equal = self._measured.get((problem, code, _part(config, names)))
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
