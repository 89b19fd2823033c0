"""The options of a tuning: those of `python -m harness.tune` and of `harness.tune` in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it takes a while to load
    from harness.space_file import Spec

DATABASE = "database"
"""What `warm_start` has in place of a recording: the results of other devices in the database."""

COVER = 0.95
"""The share of a workload's calls whose inputs are tuned, by default."""


@dataclass(frozen=True)
class TuneOptions:
    """What to tune, where, how, and where to store it; the options of the command by their names.

    `space` is a path, or a space that is loaded already. `seed_configuration` are JSON files, or
    the configurations themselves.
    """

    space: Path | Spec | None = None
    inputs: str | None = None
    inputs_from: Path | None = None
    cover: float | None = None
    most_inputs: int | None = None
    backend: str = "auto"
    device: Sequence[str] = ()
    cluster: str | None = None
    insecure: bool = False
    replay: Path | None = None
    mapping: Path | None = None
    test_limit: int | None = None
    stop_after: float | None = None
    technique: Sequence[str] = ()
    validate: float | None = None
    seed_configuration: Sequence[Path | Mapping[str, Any]] = ()
    parallelism: int | None = None
    warm_start: Sequence[Path] = ()
    seed: int = 0
    repeats: int | None = None
    precision: float | None = None
    give_up_at: float | None = None
    database: str | None = None
    label: str = "unnamed"
    fresh: bool = False
    wait: float = 0.0
    results_log: Path | None = None
    no_cross: bool = False
    finalists: int | None = None
    no_reduce: bool = False
    arguments: Sequence[str] = ()
    """The words of the command as they were typed; none in Python."""

    @property
    def typed(self) -> Sequence[str]:
        """The words of the command, without the passwords of databases."""
        from harness.results.url import without_password  # here: it loads SQLAlchemy

        return [without_password(word) if ":/" in word else word for word in self.arguments]

    @property
    def measure(self) -> Mapping[str, float]:
        """The options that override the space's measure section."""
        values = {name: getattr(self, name) for name in ("repeats", "precision", "give_up_at")}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def warm_recordings(self) -> Sequence[Path]:
        """The recordings that the search learns from."""
        return [path for path in self.warm_start if str(path) != DATABASE]

    @property
    def replays_alone(self) -> Sequence[Path]:
        """The recording that stands in for both space and device, if there is one."""
        return [self.replay] if self.replay is not None and self.space is None else []

    @property
    def space_path(self) -> Path | None:
        """The path of the space's file; None without a space."""
        return self.space if self.space is None or isinstance(self.space, Path) else self.space.path
