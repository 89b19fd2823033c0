"""Make the program of a configuration: parameters become macros, flags become options."""

from __future__ import annotations

from harness.core.program import Program
from harness.core.records import Config
from harness.space import Space
from harness.space_file import Spec


def make_program(spec: Spec, space: Space, config: Config, language: str) -> Program:
    """Return the program of a configuration in one of the spec's languages."""
    source = spec.sources[language]
    macros = {p.name: config[p.name] for p in space.parameters if p.role != "flag"}
    # Flags are sorted for the build cache; the words of one flag stay in order.
    flags = sorted(p.options(config[p.name]) for p in space.parameters if p.role == "flag")
    return Program(
        text=source.with_macros(macros),
        options=tuple(word for flag in flags for word in flag),
        include_dirs=source.include_dirs,
        includes=tuple(source.includes.values()),
    )
