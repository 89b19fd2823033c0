"""python -m harness.tune SPACE: tune a kernel over its inputs and say what came of it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.analysis import InputReport, cross_input_report
from harness.backends.choose import BACKENDS, choose
from harness.backends.replay import ReplayMeasurer, read_recording
from harness.campaign import Campaign
from harness.command import run_command
from harness.display import ProgressDisplay, inputs_table, make_console
from harness.errors import UsageError
from harness.records import Config
from harness.results import Store, shown_place, sqlite_path, writing
from harness.search import SearchOptions, make_opentuner_tables, resolve_techniques, techniques
from harness.spec import Spec, load_spec
from harness.workers import LocalMeasurer, Measurer


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = _parser()
    return run_command(parser, arguments, _tune)


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
    group.add_argument("--stop-after", type=float, metavar="SECONDS", help="for all inputs")
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
    group.add_argument("--seed", type=int, default=0, help="of the random numbers (default 0)")


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
        metavar="PLACE",
        help="SQLite file or SQLAlchemy URL (default results/NAME.db)",
    )
    group.add_argument("--label", default="unnamed", help="name of the tuning run")
    group.add_argument("--fresh", action="store_true", help="use nothing measured before")
    group.add_argument(
        "--results-log",
        type=Path,
        metavar="FILE",
        help="seconds and time of each new best; one file an input",
    )
    group.add_argument("--quiet", action="store_true", help="only the result, no progress")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, but got {text}")
    return number


def _tune(args: argparse.Namespace) -> int:
    if args.list_techniques:
        print("\n".join(techniques()))
        return 0
    if args.space is None:
        raise UsageError("name a space, for example spaces/mvmul.yaml")
    spec = _with_measure_options(load_spec(args.space), args)
    options = _search_options(spec, args)
    place = args.database or str(Path("results") / f"{spec.name}.db")
    console = make_console()
    with writing(place) as engine, _measurer(spec, args, console) as (measurer, compiler):
        store = Store(engine)
        make_opentuner_tables(store)
        with ProgressDisplay(console, args.quiet) as display:
            campaign = Campaign(spec, measurer, store, options, compiler, display, args.fresh)
            campaign.check_seeds()
            reports = campaign.run()
        _print_result(console, campaign, reports, str(measurer.environment))
        console.print(Text(_next_step(spec, args, place, reports)), soft_wrap=True)
        store.sessions.remove()
    return 0 if any(report.best for report in reports) else 1


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
        seeds=tuple(_read_seed(path, spec) for path in args.seed_configuration),
    )


def _read_seed(path: Path, spec: Spec) -> Config:
    """A configuration from a JSON file; parameters that it leaves out keep their defaults."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        seed = Config({p.name: p.default for p in spec.parameters} | dict(values))
    except OSError as error:
        raise UsageError(f"--seed-configuration {path}: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"--seed-configuration {path}: needs a JSON object of parameters and values: {error}"
        ) from None
    return seed


@contextmanager
def _measurer(
    spec: Spec, args: argparse.Namespace, console: Console
) -> Iterator[tuple[Measurer, str | None]]:
    """The measurer that was asked for, and the compiler whose flags are tuned."""
    measurer: Measurer
    if (args.backend == "replay") != (args.recording is not None):
        raise UsageError("--backend replay and --recording FILE go together")
    if args.backend == "replay":
        replay = ReplayMeasurer(read_recording(args.recording, spec))
        measurer, compiler, why = replay, replay.compiler, ""
    else:
        backend = choose(args.backend)
        if backend.language not in spec.sources:
            raise UsageError(
                f"{spec.path} has no {backend.language} source, which {backend.language} needs"
            )
        measurer, compiler = LocalMeasurer(spec, backend), backend.compiler
        why = f"; {backend.why}"
    try:
        if not args.quiet:
            told = f"backend {measurer.environment.backend}: {measurer.environment}{why}"
            console.print(Text(told), soft_wrap=True)
        yield measurer, compiler
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
    for line in cross_input_report(campaign.times(), default):
        console.print(Text(line), soft_wrap=True)
    console.print()


def _next_step(
    spec: Spec, args: argparse.Namespace, place: str, reports: Sequence[InputReport]
) -> str:
    """The command to run next."""
    shown = f"{sqlite_path(place) or shown_place(place)}"
    kept = f"Every sample is in {shown}; look again with: python -m harness.analyse {shown}"
    if all(report.is_exhausted for report in reports):
        return f"{kept}\nEvery legal configuration was measured: this is the best of the space."
    limit = 2 * (args.test_limit or spec.search.test_limit)
    again = f"python -m harness.tune {args.space} --test-limit {limit}"
    if args.database:
        again += f" --database {shown_place(args.database)}"
    return f"{kept}\nTo search on: {again}"


if __name__ == "__main__":
    sys.exit(main())
