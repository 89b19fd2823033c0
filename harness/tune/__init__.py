"""python -m harness.tune SPACE: tune a kernel over its inputs and say what came of it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.analysis import InputReport, describe_failures
from harness.backends.choose import choose
from harness.backends.replay import ReplayMeasurer, read_recording
from harness.campaign import Campaign
from harness.command import run_command
from harness.display import ProgressDisplay, inputs_table, make_console
from harness.errors import UsageError
from harness.inputs import select_inputs
from harness.options import kept_options, make_parser
from harness.recordings.campaign import RecordedCampaign, describe_recording
from harness.recordings.read import recorded_spec, recording_of, sources
from harness.recordings.recorded import Recorded
from harness.records import Config, Value
from harness.results import Store, shown_place, sqlite_path, writing
from harness.search import (
    SearchOptions,
    make_opentuner_tables,
    resolve_techniques,
    taught_techniques,
    techniques,
)
from harness.spec import Spec, load_spec
from harness.workers import LocalMeasurer, Measurer

_PARALLEL_BUILDS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = make_parser()
    parser.set_defaults(given=list(sys.argv[1:] if arguments is None else arguments))
    kept = ": what was measured is kept; the same command goes on from there"
    return run_command(parser, arguments, _tune, kept)


def _tune(args: argparse.Namespace) -> int:
    if args.list_techniques:
        print("\n".join(techniques()))
        return 0
    recorded, teachers = _read_recordings(args)
    whole = _with_measure_options(recorded_spec(recorded) if recorded else _load(args.space), args)
    spec = whole if args.inputs is None else select_inputs(whole, args.inputs)
    _check_log(args.results_log)
    place = args.database or _default_place(spec, bool(args.recording or recorded))
    for option, path in (("--recording", args.recording), ("--replay", args.replay)):
        if path is not None and sqlite_path(place) == path:
            raise UsageError(f"{option} and --database are both {place}; write to another file")
    options = _search_options(spec, args)
    _check_taught(teachers, options)
    console = make_console()
    opened = _replaying(recorded, args, console) if recorded else _measurer(whole, args, console)
    with writing(place) as engine, opened as measurer:
        options = dataclasses.replace(options, seeds=_read_seeds(args, spec, measurer.compiler))
        store = Store(engine)
        make_opentuner_tables(store)
        with ProgressDisplay(console, args.quiet) as display:
            given = (spec, measurer, store, options, display, args.fresh, args.validate, teachers)
            campaign = RecordedCampaign(recorded, *given) if recorded else Campaign(*given)
            campaign.check_seeds()
            reports = campaign.run()
        _print_result(console, campaign, reports, str(measurer.environment))
        if len(spec.inputs) > 1 or recorded is None:
            _print_across(console, campaign, store, place, args.space)
        console.print(Text(_next_step(campaign, args, place, reports)), soft_wrap=True)
        store.sessions.remove()
    failed = [r for r in reports if r.best is None and (r.measured or r.given in campaign.left_out)]
    return 1 if failed else 0


def _load(space: Path | None) -> Spec:
    if space is None:
        raise UsageError("name a space, for example spaces/mvmul.yaml, or --replay FILE")
    return load_spec(space)


def _read_recordings(args: argparse.Namespace) -> tuple[Recorded | None, list[Recorded]]:
    """The recording that stands in for a space and a device, None where there is a space; and
    those that the search is taught by."""
    replayed = [] if args.replay is None else [args.replay]
    if args.mapping is not None and not (replayed or args.warm_start):
        raise UsageError("--mapping goes with --replay FILE or --warm-start FILE")
    if replayed and (args.space or args.recording or args.backend != "auto"):
        raise UsageError(
            "--replay makes its space from the recording alone; leave out the space, --backend "
            "and --recording"
        )
    found = [source.read() for source in sources([*replayed, *args.warm_start], args.mapping)]
    return (found[0] if replayed else None), found[len(replayed) :]


@contextmanager
def _replaying(
    recorded: Recorded, args: argparse.Namespace, console: Console
) -> Iterator[Measurer]:
    """A measurer that serves a recording; what was read is told."""
    if not args.quiet:
        for line in describe_recording(recorded):
            console.print(Text(line), soft_wrap=True)
    yield ReplayMeasurer(recording_of(recorded))


def _default_place(spec: Spec, is_replay: bool) -> str:
    """Replayed results are kept apart from measured ones."""
    return str(Path("results") / (f"{spec.name}.replay.db" if is_replay else f"{spec.name}.db"))


def _with_measure_options(spec: Spec, args: argparse.Namespace) -> Spec:
    given = {name: getattr(args, name) for name in ("repeats", "precision", "give_up_at")}
    return spec.with_measure({name: value for name, value in given.items() if value is not None})


def _search_options(spec: Spec, args: argparse.Namespace) -> SearchOptions:
    stop_at = None if args.stop_after is None else time.monotonic() + args.stop_after
    return SearchOptions(
        techniques=_techniques(spec, args),
        test_limit=args.test_limit or spec.search.test_limit,
        seed=args.seed,
        label=args.label,
        parallelism=args.parallelism or _parallelism(args),
        stop_at=stop_at,
        results_log=args.results_log,
    )


def _parallelism(args: argparse.Namespace) -> int:
    """Builds run side by side; where nothing is built, each proposal can know all results."""
    return 1 if args.replay or args.recording else _PARALLEL_BUILDS


def _techniques(spec: Spec, args: argparse.Namespace) -> tuple[str, ...]:
    """The techniques that were asked for; a validation samples uniformly."""
    if args.validate is None:
        return resolve_techniques(args.technique or [spec.search.technique])
    asked = set(args.technique or ())
    if asked - {"UniformRandom"}:
        raise UsageError(
            "--validate samples with --technique UniformRandom alone, got "
            f"{', '.join(sorted(asked))}; leave --technique out"
        )
    if args.results_log is not None:
        raise UsageError("--results-log does not go with --validate, which seeks no best")
    return resolve_techniques(["UniformRandom"])


def _check_taught(teachers: Sequence[Recorded], options: SearchOptions) -> None:
    learns = taught_techniques()
    if teachers and not set(learns) & set(options.techniques):
        raise UsageError(
            f"--warm-start teaches {' and '.join(learns)} alone, and the technique is "
            f"{', '.join(options.techniques)}; add --technique {learns[0]}"
        )


def _check_log(log: Path | None) -> None:
    if log is not None and not log.parent.is_dir():
        raise UsageError(f"--results-log {log}: the folder {log.parent} does not exist; make it")


def _read_seeds(args: argparse.Namespace, spec: Spec, compiler: str | None) -> tuple[Config, ...]:
    defaults = {p.name: p.default for p in spec.tuned_for(compiler)}
    return tuple(_read_seed(path, defaults) for path in args.seed_configuration)


def _read_seed(path: Path, defaults: Mapping[str, Value]) -> Config:
    """A configuration from a JSON file; parameters that it leaves out keep their defaults."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        seed = Config({**defaults, **dict(values)})
    except OSError as error:
        raise UsageError(f"--seed-configuration {path}: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"--seed-configuration {path}: needs a JSON object of parameters and values: {error}"
        ) from None
    return seed


@contextmanager
def _measurer(spec: Spec, args: argparse.Namespace, console: Console) -> Iterator[Measurer]:
    """The measurer that was asked for, and why, where that was not said."""
    measurer: Measurer
    if (args.backend == "replay") != (args.recording is not None):
        raise UsageError("--backend replay and --recording FILE go together")
    if args.backend == "replay":
        measurer, why = ReplayMeasurer(read_recording(args.recording, spec)), ""
    else:
        backend = choose(args.backend)
        if backend.language not in spec.sources:
            raise UsageError(
                f"{spec.path} has no {backend.language} source, only {', '.join(spec.sources)}; "
                "name the --backend that runs it, or add a source to kernel.source"
            )
        measurer, why = LocalMeasurer(spec, backend), f"; {backend.why}"
    try:
        if not args.quiet:
            told = f"backend {measurer.environment.backend}: {measurer.environment}{why}"
            console.print(Text(told), soft_wrap=True)
        yield measurer
    finally:
        measurer.close()


def _print_result(
    console: Console, campaign: Campaign, reports: Sequence[InputReport], where: str
) -> None:
    spec = campaign.spec
    default = campaign.space(spec.inputs[0]).default
    console.print()
    if isinstance(campaign, RecordedCampaign) and campaign.courses:  # none where it validates
        console.print(campaign.result)
    else:
        console.print(inputs_table(reports, f"{spec.name} on {where}", default))
    console.print()
    if campaign.replayed:
        told = f"{campaign.replayed} tests were answered from the database; --fresh measures anew."
        console.print(Text(told), soft_wrap=True)
        console.print()
    for part in (list(campaign.describe_tests()), list(describe_failures(campaign.measured()))):
        if part:
            console.print(Text("\n".join([*part, ""])), soft_wrap=True)


def _print_across(
    console: Console, campaign: Campaign, store: Store, place: str, space: Path | None
) -> None:
    """Which configuration suits which input; and how to write it as code, if that is worth it."""
    # Here, since they load pandas and scikit-learn, which a search need not wait for.
    from harness.dispatching.study import QUICK
    from harness.dispatching.telling import print_across
    from harness.tables import results_of

    key = dataclasses.replace(campaign.plan(campaign.spec.inputs[0]).key, given=None)
    results = results_of(store, key, place)
    if results is None:
        return
    is_better = print_across(console, results.matrix(), QUICK)
    if is_better and space is not None:
        command = ["python", "-m", "harness.dispatch", _shown(place), "-o", "out"]
        told = shlex.join([*command, "--spec", str(space)])
        console.print(Text(f"To write the choice by input as code: {told}"), soft_wrap=True)
    console.print()


def _shown(place: str) -> str:
    return f"{sqlite_path(place) or shown_place(place)}"


def _next_step(
    campaign: Campaign, args: argparse.Namespace, place: str, reports: Sequence[InputReport]
) -> str:
    """The command to run next."""
    shown = _shown(place)
    look = shlex.join(["python", "-m", "harness.analyse", shown])
    kept = f"Every sample is in {shown}; look again with: {look}"
    if not any(report.best for report in reports):
        return f"{kept}\nMend what the messages above name, then run the same command again."
    if all(report.is_exhausted for report in reports):
        return f"{kept}\nEvery legal configuration was measured: nothing is left to search."
    command = ["python", "-m", "harness.tune"]
    if campaign.has_ended:
        other = [*command, *kept_options(args, with_technique=False), "--technique", "auto"]
        return f"{kept}\nThis sampling has ended. To search on: {shlex.join(other)}"
    limit = args.test_limit or campaign.spec.search.test_limit
    if args.stop_after is None:
        limit *= 2  # the tests ran out, not the time
    again = [*command, *kept_options(args), "--test-limit", str(limit)]
    return f"{kept}\nTo search on: {shlex.join(again)}"
