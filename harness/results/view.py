"""Results databases as pandas tables, for scripts and for the rooms above."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from harness.constraints.expression import Expression
from harness.core.errors import ResultsError, UsageError
from harness.core.records import Config, Input, Measurement, Turn
from harness.core.text import printable
from harness.results import (
    ABLATION,
    CANDIDATE,
    EXHAUSTED,
    FINAL,
    LIMITS,
    SEARCHED,
    Campaign,
    Command,
    Key,
    Row,
    Run,
    Store,
    campaigns,
    in_turns,
    read_campaign,
    reading,
    shown_place,
)
from harness.results.ablation import Ablation
from harness.results.compatible import Comparable, comparable

if TYPE_CHECKING:
    import pandas as pd


UNBIASED = ("Designed", "UniformRandom")
"""Techniques whose samples statistics over parameters may rest on: they ask for what tells most,
or for anything alike, whatever was measured before. A search asks for what it thinks is fast."""

Measured = Mapping[Config, Measurement]


@dataclass(frozen=True)
class Results:
    """Measurements that may be compared: of one space, on one device, of one campaign."""

    campaign: Campaign
    places: tuple[str, ...]
    all_rows: tuple[Row, ...]
    """As they were read; see `rows`."""
    runs: tuple[Run, ...] = ()
    commands: tuple[Command, ...] = ()

    @property
    def title(self) -> str:
        """What it is of."""
        return f"{self.campaign.space_name} on {self.campaign.environment}"

    @property
    def last_at(self) -> str:
        """When it was last worked on, ISO 8601 in UTC."""
        return max((run.last_at for run in self.runs), default="")

    @cached_property
    def comparable(self) -> Comparable:
        """Those of the measurements that may be told beside each other
        (harness.results.compatible)."""
        return comparable(self.all_rows, self.campaign.default)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Measurements of configurations that set what the space tunes now."""
        return self.comparable.rows

    @cached_property
    def measured(self) -> Mapping[Input, Measured]:
        """Of each input the configurations that were searched, or measured across inputs."""
        found: dict[Input, dict[Config, Measurement]] = {}
        for row in self.rows:
            if row.stage in SEARCHED:
                found.setdefault(row.measurement.input, {})[row.measurement.config] = (
                    row.measurement
                )
        return found

    @cached_property
    def finals(self) -> Mapping[Input, Sequence[Measurement]]:
        """Of each input what was last measured again in turn."""
        return {given: turns[-1] for given, turns in self._turns(FINAL).items()}

    @cached_property
    def candidates(self) -> Mapping[Input, Sequence[Turn]]:
        """Of each input the turns of what a dispatcher may choose from, the last in the end."""
        return self._turns(CANDIDATE)

    @cached_property
    def in_turn(self) -> Mapping[Input, Sequence[Turn]]:
        """Of each input the turns of finalists, and after them those of candidates."""
        finals = self._turns(FINAL)
        inputs = dict.fromkeys([*finals, *self.candidates])
        return {i: [*finals.get(i, ()), *self.candidates.get(i, ())] for i in inputs}

    def _turns(self, stage: str) -> Mapping[Input, Sequence[Turn]]:
        rows: dict[Input, list[Row]] = {}
        for row in self.rows:
            if row.stage == stage:
                rows.setdefault(row.measurement.input, []).append(row)
        return {given: in_turns(found) for given, found in rows.items()}

    @cached_property
    def default(self) -> Config:
        """The default, without the flags of compilers other than the one that was used."""
        told, names = self.campaign.default, self.comparable.names
        return Config({name: value for name, value in told.items() if name in names})

    @cached_property
    def baselines(self) -> Mapping[str, Config]:
        """The named baselines of what was tuned, beside the default."""
        default = self.default
        return {
            name: Config({**default, **values})
            for name, values in self.campaign.baselines.items()
            if set(values) <= set(default)
        }

    @cached_property
    def notes(self) -> Mapping[Input, Mapping[str, str]]:
        """What was noted of the runs of each input; of equal names that of the last run."""
        found: dict[Input, dict[str, str]] = {}
        for run in sorted(self.runs, key=lambda run: run.last_at):
            found.setdefault(run.given, {}).update(run.notes)
        return found

    @cached_property
    def ablations(self) -> Mapping[Input, Ablation]:
        """Of each input what of its winner's flags is needed, where that was measured.

        Raises ResultsError where the database is damaged.
        """
        texts = {given: notes.get(ABLATION) for given, notes in self.notes.items()}
        try:
            return {given: Ablation.from_json(text) for given, text in texts.items() if text}
        except (ValueError, TypeError, KeyError) as error:
            raise ResultsError(f"{', '.join(self.places)} is damaged: {error!r}") from error

    @property
    def is_exhausted(self) -> bool:
        """Whether every legal configuration of every input was measured."""
        return all(map(self._is_exhausted, self.measured))

    def _is_exhausted(self, given: Input) -> bool:
        return self.notes.get(given, {}).get(EXHAUSTED) == "yes"

    def is_unbiased(self, row: Row) -> bool:
        """Whether statistics over parameters may rest on a sample: it was designed or drawn
        uniformly, or every legal configuration of its input was measured."""
        return row.requestor in UNBIASED or self._is_exhausted(row.measurement.input)

    @cached_property
    def limits(self) -> Mapping[str, int]:
        """The device's numbers that constraints and launches may name (`DeviceLimits.names()`);
        nothing where what was measured had no device, or where an older database has none.

        Raises ResultsError where the database is damaged.
        """
        texts = [notes[LIMITS] for notes in self.notes.values() if LIMITS in notes]
        try:
            return {str(name): int(limit) for name, limit in json.loads(texts[-1]).items()}
        except IndexError:
            return {}
        except (ValueError, TypeError, AttributeError) as error:
            raise ResultsError(f"{', '.join(self.places)} is damaged: {error!r}") from error

    @cached_property
    def constraints(self) -> tuple[str, ...]:
        """The space's constraints over features, parameters and the device's numbers; without those
        that name such a number where an older database has none."""
        pairs = ((row.measurement.input, row.measurement.config) for row in self.rows)
        known = {name for given, config in pairs for name in (*given, *config)} | set(self.limits)
        texts = self.campaign.constraints
        return tuple(text for text in texts if Expression(text).names <= known)

    def table(self) -> pd.DataFrame:
        """A row a measurement, with two levels of columns: `input` has the features, `config`
        the parameters, `measured` the rest.

        Of these `time_s` is the median, NaN unless the outcome is `ok`; `samples_s` are the raw
        samples; `unbiased` tells whether statistics over parameters may rest on it.
        """
        import pandas as pd  # here: it takes half a second to load

        parts = {
            "input": pd.DataFrame([dict(row.measurement.input) for row in self.rows]),
            "config": pd.DataFrame([dict(row.measurement.config) for row in self.rows]),
            "measured": pd.DataFrame([self._told(row) for row in self.rows]),
        }
        joined: pd.DataFrame = pd.concat(parts, axis=1)
        return joined

    def _told(self, row: Row) -> dict[str, object]:
        m = row.measurement
        return {
            "stage": row.stage,
            "outcome": m.outcome.value,
            "time_s": m.time_s if m.timing else math.nan,
            "mean_s": m.timing.mean_s if m.timing else math.nan,
            "std_s": m.timing.std_s if m.timing else math.nan,
            "samples_s": m.timing.samples_s if m.timing else (),
            "requestor": row.requestor,
            "unbiased": self.is_unbiased(row),
            "message": m.message,
            **m.observed,
        }


# ------------------------------------------------------------------------------ reading


def results_of(store: Store, key: Key, place: str) -> Results | None:
    """What a database that is being written holds of one campaign; None before its first run."""
    connection = store.session.connection()
    campaign = next((found for found in campaigns(connection) if found.key == key), None)
    if campaign is None:
        return None
    return Results(campaign, (place,), *read_campaign(connection, campaign))


def read_results(
    places: str | Sequence[str], space: str | None = None, all_campaigns: bool = False
) -> list[Results]:
    """What a database, or several, hold: one Results for what may be compared, the last worked on
    first.

    Measurements of one campaign that stand in several databases are one Results, each counted
    once. Without `all_campaigns` only the last campaign of each space, program and environment.

    Raises UsageError where nothing is left.
    """
    places = [places] if isinstance(places, str) else places
    found: dict[tuple[Key, str], list[Results]] = {}
    held: set[str] = set()
    for place in places:
        with reading(place) as engine, engine.connect() as connection:
            there = campaigns(connection)
            held |= {campaign.space_name for campaign in there}
            chosen = [c for c in there if space in (None, c.space_name)]
            for campaign in chosen if all_campaigns else _latest(chosen):
                same = found.setdefault((campaign.key, campaign.space_name), [])
                same.append(Results(campaign, (place,), *read_campaign(connection, campaign)))
    if not found:
        raise UsageError(_nothing(places, space, held))
    return [_joined(parts) for parts in found.values()]


def _latest(found: Iterable[Campaign]) -> list[Campaign]:
    """The last campaign of each space, program and environment."""
    latest: dict[tuple[str, str, str], Campaign] = {}
    for campaign in found:
        key = campaign.key
        latest.setdefault((campaign.space_name, key.program_sha256, key.fingerprint), campaign)
    return list(latest.values())


def _joined(parts: Sequence[Results]) -> Results:
    """One of several databases; what two of them have is told as where it was last worked on."""
    rows = {row.uuid: row for part in parts for row in part.all_rows}
    runs: dict[str, Run] = {}
    for run in (run for part in parts for run in part.runs):
        if run.uuid not in runs or run.last_at > runs[run.uuid].last_at:
            runs[run.uuid] = run
    commands: dict[str, Command] = {}
    for command in (command for part in parts for command in part.commands):
        if command.uuid not in commands or command.ended_at is not None:
            commands[command.uuid] = command
    return Results(
        max(parts, key=lambda part: part.last_at).campaign,
        tuple(place for part in parts for place in part.places),
        tuple(rows.values()),
        tuple(runs.values()),
        tuple(commands.values()),
    )


def _nothing(places: Sequence[str], space: str | None, held: Iterable[str]) -> str:
    told, names = ", ".join(map(shown_place, places)), ", ".join(sorted(held))
    if not names:
        return f"{told}: no runs yet; `python -m harness.tune SPACE --database ...` adds some"
    return f"{told}: no results of a space `{space}`; there are {names}"


def the_one(
    found: Sequence[Results],
    advice: str = "choose one with --space NAME, or give the database of one device alone",
) -> Results:
    """The only Results there are; raises UsageError that says in what several differ, since their
    times must not be mixed."""
    if len(found) == 1:
        return found[0]
    told = [_facts(results.campaign) for results in found]
    lines = [
        f"    {name}: {', '.join(dict.fromkeys(facts[name] for facts in told))}"
        for name in told[0]
        if len({facts[name] for facts in told}) > 1
    ]
    raise UsageError(
        f"{len(found)} results that must not be mixed, since they differ in\n"
        + "\n".join(lines)
        + f"\n{advice}"
    )


def _facts(campaign: Campaign) -> dict[str, str]:
    told = campaign.environment
    return {
        "space": campaign.space_name,
        "program (kernel source and host module)": campaign.key.program_sha256[:8],
        "backend": told.backend,
        "device": told.device,
        "platform": told.platform,
        "driver": told.driver,
        "compiler": told.compiler,
        "campaign": str(campaign.key.campaign),
    }


def unfit_told(results: Results) -> Iterator[str]:
    """How many measurements are left out since the space had other parameters, in a sentence;
    nothing where none is."""
    unfit, count = results.comparable.unfit, len(results.all_rows)
    if unfit.count:
        names = _listed(map(printable, unfit.names), ", ")
        yield (
            f"{unfit.count:,} of {count:,} measurements are left out: the space's parameters were "
            f"others then; they differ in {names}."
        )


def _listed(told: Iterable[str], separator: str = "; ") -> str:
    """The first few, and how many more there are."""
    every = list(told)
    more = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return separator.join(every[:_MOST_NAMED]) + more


_MOST_NAMED = 5  # inputs of a sentence
