"""The plan of a campaign: what is tuned, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.recordings.recording import Recording
from harness.search import SearchOptions
from harness.space_file import Spec


@dataclass(frozen=True)
class Stages:
    """The stages after the search.

    `cross` measures every winner on every input, and a few candidates interleaved. `ablate` finds
    the flags that a winner needs. `finalists` of each input are measured once more beside the
    default; by default two or three.
    """

    cross: bool = True
    ablate: bool = True
    finalists: int | None = None


@dataclass(frozen=True)
class CampaignPlan:
    """What a campaign tunes, and how.

    With a `target` the inputs are not searched but sampled, until a tree predicts times with this
    median relative error (harness.tuning.validation). `warm_start` are recordings of the same
    kernel on other devices, to learn from; `other_devices` says whether new searches start from
    the results of other devices in the database. `fresh` uses no earlier measurements. `arguments`
    are the words that the user typed after `tune`, for the database. With a `recording`, its
    configurations are searched.
    """

    spec: Spec
    options: SearchOptions
    stages: Stages = field(default_factory=Stages)
    target: float | None = None
    warm_start: Sequence[Recording] = ()
    other_devices: bool = False
    fresh: bool = False
    arguments: Sequence[str] = ()
    recording: Recording | None = None
