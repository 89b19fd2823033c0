"""python -m harness.tune SPACE: tune a kernel over its inputs and say what came of it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.analysis import InputReport, cross_input_report, describe_failures
from harness.backends.choose import BACKENDS, choose
from harness.backends.replay import ReplayMeasurer, read_recording
from harness.campaign import Campaign
from harness.command import run_command
from harness.display import ProgressDisplay, inputs_table, make_console
from harness.errors import UsageError
from harness.records import Config, Value
from harness.results import Store, shown_place, sqlite_path, writing
from harness.search import SearchOptions, make_opentuner_tables, resolve_techniques, techniques
from harness.spec import Spec, load_spec
from harness.workers import LocalMeasurer, Measurer


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = _parser()
    parser.set_defaults(given=list(sys.argv[1:] if arguments is None else arguments))
    kept = ": what was measured is kept; the same command goes on from there"
    return run_command(parser, arguments, _tune, kept)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.tune",
        description="Tune a kernel over its inputs; every result is verified, every sample kept. "
        "The same command again goes on where it stopped.",
    )
    parser.add_argument("space", nargs="?", type=Path, help="the space, a YAML file")
    _add_machine_options(parser.add_argument_group("where it runs"))
    _add_search_options(parser.add_argument_group("search (OpenTuner's options)"))
    _add_measurement_options(parser.add_argument_group("measurement, over the space's own"))
    _add_result_options(parser.add_argument_group("results"))
    return parser


def _add_machine_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--backend",
        choices=BACKENDS,
        default="auto",
        help="auto: CUDA with a GPU, else an OpenCL GPU, else PoCL on the CPU",
    )
    group.add_argument(
        "--recording",
        type=Path,
        metavar="FILE",
        help="for --backend replay: a results database or a CSV file of measurements",
    )


def _add_search_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--test-limit", type=_count, metavar="N", help="tests per input")
    group.add_argument("--stop-after", type=_duration, metavar="SECONDS", help="for all inputs")
    group.add_argument(
        "--technique", "-t", action="append", metavar="NAME", help="may be given several times"
    )
    group.add_argument("--list-techniques", "-lt", action="store_true", help="list them and exit")
    group.add_argument(
        "--seed-configuration",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a configuration to start from, as a JSON object; may be given several times",
    )
    group.add_argument(
        "--parallelism",
        type=_count,
        default=4,
        metavar="N",
        help="proposals a generation, built side by side (default 4)",
    )
    group.add_argument("--seed", type=_seed, default=0, help="of the random numbers (default 0)")


def _add_measurement_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--repeats", type=_count, metavar="N", help="timed launches at most")
    group.add_argument(
        "--precision",
        type=float,
        metavar="P",
        help="stop sampling when the interval of the mean is +- P of it",
    )
    group.add_argument(
        "--give-up-at",
        type=float,
        metavar="F",
        help="stop sampling what is surely F times slower than the best",
    )


def _add_result_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--database",
        type=_text,
        metavar="PLACE",
        help="SQLite file or SQLAlchemy URL (default results/NAME.db)",
    )
    group.add_argument("--label", type=_text, default="unnamed", help="name of the tuning run")
    group.add_argument("--fresh", action="store_true", help="use nothing measured before")
    group.add_argument(
        "--results-log",
        type=Path,
        metavar="FILE",
        help="seconds and time of each new best; one file an input",
    )
    group.add_argument("--quiet", action="store_true", help="only the result, no progress")


_LARGEST = 10**9


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _LARGEST:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 10^9, got {text!r}")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdigit() or int(text) > _LARGEST:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 10^9, got {text!r}")
    return int(text)


def _duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LARGEST:
        raise argparse.ArgumentTypeError(f"must be seconds above 0, got {text!r}")
    return seconds


def _text(text: str) -> str:
    if not text or not text.isprintable():
        raise argparse.ArgumentTypeError(f"must be a text of printable characters, got {text!r}")
    return text


def _tune(args: argparse.Namespace) -> int:
    if args.list_techniques:
        print("\n".join(techniques()))
        return 0
    if args.space is None:
        raise UsageError("name a space, for example spaces/mvmul.yaml")
    spec = _with_measure_options(load_spec(args.space), args)
    _check_log(args.results_log)
    place = args.database or _default_place(spec, args.recording is not None)
    if args.recording is not None and sqlite_path(place) == args.recording:
        raise UsageError(f"--recording and --database are both {place}; write to another file")
    options = _search_options(spec, args)
    console = make_console()
    with writing(place) as engine, _measurer(spec, args, console) as measurer:
        options = dataclasses.replace(options, seeds=_read_seeds(args, spec, measurer.compiler))
        store = Store(engine)
        make_opentuner_tables(store)
        with ProgressDisplay(console, args.quiet) as display:
            campaign = Campaign(spec, measurer, store, options, display, args.fresh)
            campaign.check_seeds()
            reports = campaign.run()
        _print_result(console, campaign, reports, str(measurer.environment))
        console.print(Text(_next_step(spec, args, place, reports)), soft_wrap=True)
        store.sessions.remove()
    failed = [r for r in reports if r.best is None and (r.measured or r.given in campaign.left_out)]
    return 1 if failed else 0


def _default_place(spec: Spec, is_replay: bool) -> str:
    """Replayed results are kept apart from measured ones."""
    return str(Path("results") / (f"{spec.name}.replay.db" if is_replay else f"{spec.name}.db"))


def _with_measure_options(spec: Spec, args: argparse.Namespace) -> Spec:
    given = {name: getattr(args, name) for name in ("repeats", "precision", "give_up_at")}
    return spec.with_measure({name: value for name, value in given.items() if value is not None})


def _search_options(spec: Spec, args: argparse.Namespace) -> SearchOptions:
    stop_at = None if args.stop_after is None else time.monotonic() + args.stop_after
    return SearchOptions(
        techniques=resolve_techniques(args.technique or [spec.search.technique]),
        test_limit=args.test_limit or spec.search.test_limit,
        seed=args.seed,
        label=args.label,
        parallelism=args.parallelism,
        stop_at=stop_at,
        results_log=args.results_log,
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
                f"{spec.path} has no {backend.language} source, which {backend.language} needs"
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
    console.print(inputs_table(reports, f"{spec.name} on {where}", default))
    console.print()
    if campaign.replayed:
        told = f"{campaign.replayed} tests were answered from the database; --fresh measures anew."
        console.print(Text(told), soft_wrap=True)
        console.print()
    failures = list(describe_failures(campaign.measured()))
    across = cross_input_report(campaign.times(), default)
    for line in [*failures, *([""] if failures else []), *across]:
        console.print(Text(line), soft_wrap=True)
    console.print()


def _next_step(
    spec: Spec, args: argparse.Namespace, place: str, reports: Sequence[InputReport]
) -> str:
    """The command to run next."""
    shown = f"{sqlite_path(place) or shown_place(place)}"
    look = shlex.join(["python", "-m", "harness.analyse", shown])
    kept = f"Every sample is in {shown}; look again with: {look}"
    if not any(report.best for report in reports):
        return f"{kept}\nMend what the messages above name, then run the same command again."
    if all(report.is_exhausted for report in reports):
        return f"{kept}\nEvery legal configuration was measured: nothing is left to search."
    limit = args.test_limit or spec.search.test_limit
    if args.stop_after is None:
        limit *= 2  # the tests ran out, not the time
    again = ["python", "-m", "harness.tune", *_kept_options(args), "--test-limit", str(limit)]
    return f"{kept}\nTo search on: {shlex.join(again)}"


_ONLY_ONCE = ("--fresh", "--test-limit", "--stop-after")


def _kept_options(args: argparse.Namespace) -> Iterator[str]:
    """The arguments as they were given, for the command that goes on from here."""
    words = iter(args.given)
    for word in words:
        option, assigned, _ = word.partition("=")
        if option in _ONLY_ONCE:
            if option != "--fresh" and not assigned:
                next(words, None)
        elif args.database and args.database in word:
            yield word.replace(args.database, shown_place(args.database))
        else:
            yield word


if __name__ == "__main__":
    sys.exit(main())
