"""One self-contained HTML page of a results database: what was tuned, and what came of it."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import jinja2
import numpy as np

from harness import __version__
from harness.analysis import InputReport, describe_failures, report_input
from harness.dispatching.study import Study, choosers, sentence, study
from harness.dispatching.telling import tree_lines, verdict_lines
from harness.display import format_ratio, format_timing
from harness.effects import Effects, Trials, causes, effects_on_time, telling, trials
from harness.effects.telling import reduction_lines
from harness.errors import UsageError
from harness.explanation import Explanation, explain, samples
from harness.report import figures, plots, reproducing
from harness.results import shown_place
from harness.starchart import Target, describe, importance
from harness.tables import Results

_MOST_FAILURES = 40


@dataclass(frozen=True)
class Section:
    """A part of the page: a heading, then paragraphs, a picture, a table or plain lines."""

    anchor: str
    title: str
    texts: tuple[str, ...] = ()
    picture: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Findings:
    """Everything that the page tells, computed once."""

    results: Results
    reports: Sequence[InputReport] = field(init=False)

    def __post_init__(self) -> None:
        results = self.results
        reports = [
            report_input(
                given,
                known,
                results.finals.get(given, ()),
                results.default,
                None,
                baselines=results.baselines,
            )
            for given, known in results.measured.items()
        ]
        object.__setattr__(self, "reports", reports)

    @cached_property
    def across(self) -> Study | None:
        """What was learnt across inputs; None where there are too few."""
        try:
            return study(self.results.matrix(), choosers())
        except ValueError:
            return None

    @cached_property
    def trials(self) -> Trials:
        """All that was tried, failures included."""
        return trials(self.results)

    @cached_property
    def effects(self) -> Effects | None:
        """What each value does to the time; None where nothing was varied."""
        return effects_on_time(self.trials) if self.trials.parameters else None

    @cached_property
    def explanation(self) -> Explanation | None:
        """What slowdowns depend on; None where there is too little to tell."""
        try:
            return explain(samples(self.results), Target("slowdown", log=True))
        except UsageError:
            return None


def page(found: Sequence[Results], when: datetime.datetime) -> str:
    """The page, a part for each of what must not be mixed. Raises UsageError where nothing was
    measured."""
    parts = [_part(results) for results in found if results.measured]
    if not parts:
        raise UsageError("there are no measurements to report; tune first")
    loader = jinja2.PackageLoader("harness.report")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    return environment.get_template("report.html.j2").render(
        title=", ".join(dict.fromkeys(results.campaign.space_name for results in found)),
        parts=parts,
        when=when.strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
    )


def _part(results: Results) -> dict[str, object]:
    findings = Findings(results)
    return {
        "title": results.campaign.title or results.campaign.space_name,
        "verdict": list(_verdict(findings)),
        "facts": _facts(results),
        "sections": [section for section in _sections(findings) if section is not None],
    }


def _verdict(findings: Findings) -> Iterator[str]:
    """What came of it, a sentence each."""
    gains = figures.speed_ups(findings.reports)
    if len(gains) == 1:
        one = gains[0]
        told = f"{one.value:.2f} times [{one.low:.2f}, {one.high:.2f}]"
        yield f"Tuned, it is {told} as fast as the default."
    elif gains:
        clear = sum(one.low > 1 for one in gains)
        yield (
            f"Tuned for each of {len(gains)} inputs, it is {figures.mean_speed_up(gains):.2f} "
            f"times as fast as the default in geometric mean; surely faster on {clear} of them."
        )
    else:
        yield "No speed-up is told: no winner was measured again beside the default."
    if findings.across is not None:
        yield sentence(findings.across, findings.across.best)


def _facts(results: Results) -> list[tuple[str, str]]:
    told = results.campaign.environment
    outcomes = Counter(m.outcome for known in results.measured.values() for m in known.values())
    counted = f"{outcomes.total():,}: " + ", ".join(f"{n:,} {o}" for o, n in outcomes.most_common())
    return [
        ("device", f"{told.device} ({told.backend})"),
        ("platform, driver", f"{told.platform}, {told.driver}"),
        ("compiler", told.compiler),
        ("program", results.campaign.key.program_sha256[:12]),
        ("inputs", f"{len(results.measured):,}"),
        ("configurations measured", counted),
        ("distinct", figures.distinct_code(results)),
        ("samples", f"{figures.sample_count(results):,}"),
        ("measured", reproducing.when(results.runs)),
        ("databases", ", ".join(map(shown_place, results.places))),
    ]


# ---------------------------------------------------------------------------- sections


def _sections(findings: Findings) -> Iterator[Section | None]:
    yield _winners(findings)
    yield _boxes(findings)
    yield _search(findings)
    yield _distribution(findings)
    yield from _across(findings)
    yield _failures(findings)
    yield _flags(findings)
    yield from _explained(findings)
    yield _noise(findings)
    yield _again(findings.results)


def _winners(findings: Findings) -> Section:
    """A row an input, and the speed-ups as a picture."""
    gains = figures.speed_ups(findings.reports)
    return Section(
        "inputs",
        "Best configuration of each input",
        picture=plots.gains(gains) if gains else "",
        head=("input", "best configuration", "best", "default", "speed-up", "ties", "measured"),
        rows=tuple(_winner(report) for report in findings.reports),
    )


def _winner(report: InputReport) -> tuple[str, ...]:
    best, baseline, speedup = report.best, report.baseline, report.speedup
    return (
        figures.name_of(report.given),
        str(best.config) if best else "none worked",
        format_timing(best.timing) if best and best.timing else "",
        format_timing(baseline.timing) if baseline and baseline.timing else "",
        format_ratio(speedup) if speedup else report.note,
        str(report.within_noise),
        f"{report.measured:,}",
    )


def _boxes(findings: Findings) -> Section | None:
    found = figures.boxes(findings.results, findings.reports)
    if not found:
        return None
    shown = f"{len(found)} of {len(findings.reports)} inputs" if len(found) > 1 else "the input"
    text = f"Samples of {shown}, measured in turn; boxes over the quartiles."
    reductions = findings.results.reductions
    return Section(
        "boxes",
        "Tuned against the baselines",
        (text,),
        plots.tuned_against_baselines(found),
        lines=tuple(reduction_lines(reductions)) if reductions else (),
    )


def _search(findings: Findings) -> Section | None:
    found = figures.courses(findings.results)
    if not found:
        return None
    text = "The best so far, as a fraction of the best that is known of the input."
    if len(found) > 1:
        text += " A grey line an input; blue is their median."
    return Section("search", "Best over time", (text,), plots.best_over_time(found))


def _distribution(findings: Findings) -> Section | None:
    found = figures.distribution(findings.results)
    if not len(found.slowdowns):
        return None
    near = float((found.slowdowns <= 1.05).mean())
    text = (
        f"{len(found.slowdowns):,} configurations worked and {found.failed:,} failed, over all "
        f"inputs; {near:.1%} of those that worked are within 5 % of their input's best."
    )
    return Section("times", "Distribution of times", (text,), plots.times(found))


def _across(findings: Findings) -> Iterator[Section]:
    """Which configuration for which input, and how good that is."""
    found = findings.across
    if found is None:
        return
    learnt = found.learnt(found.best)
    chosen = learnt.places(found.matrix.features, found.matrix.applies)
    yield Section(
        "heat-map",
        "Inputs and configurations",
        ("Slowdown of each configuration on each input. A ring is what the dispatcher chooses.",),
        plots.inputs_by_candidates(figures.heat_map(found.matrix, chosen)),
    )
    tree = found.learnt(found.dispatchers[0]).program(found.matrix.candidates)
    yield Section("choice", "Which configuration for which input", lines=tuple(tree_lines(tree)))
    yield Section(
        "verdict",
        "Verdict on inputs that were held out",
        (sentence(found, found.best),),
        lines=tuple(verdict_lines(found)),
    )


def _explained(findings: Findings) -> Iterator[Section]:
    """Importance, and the tree as a picture and as text."""
    told = findings.explanation
    if told is None:
        return
    drawn = "all" if told.unbiased == len(told.tree.samples) else f"{told.unbiased:,}"
    text = (
        f"From {len(told.tree.samples):,} samples, {drawn} of them designed or drawn uniformly. "
        f"Such trees predict held-out samples with R2 {told.accuracy.r2:.3f} and a median error of "
        f"{told.accuracy.error.median:.1%}."
    )
    yield Section(
        "importance",
        "What the slowdown depends on",
        (text,),
        plots.importances(importance(told.tree)),
    )
    yield Section(
        "tree",
        "The tree of slowdowns",
        picture=plots.tree_picture(told.tree),
        lines=tuple(describe(told.tree, 4)),
    )


def _failures(findings: Findings) -> Section:
    """A row a kind, what explains it, and the commonest reasons with an example each."""
    rows = telling.failures_rows(findings.trials)
    if not rows:
        return Section("failures", "Failures", ("No configuration failed.",))
    explained = telling.causes_lines(causes(findings.trials), failed=True)
    reasons = tuple(describe_failures(findings.results.measured))[:_MOST_FAILURES]
    return Section(
        "failures",
        "Failures",
        head=telling.FAILURES_HEAD,
        rows=tuple(rows),
        lines=(*explained, "", *reasons),
    )


def _flags(findings: Findings) -> Section | None:
    """What each value of each parameter does to the time, alone and in pairs."""
    found = findings.effects
    if found is None:
        return None
    told = tuple(telling.effects_lines(found, findings.results))
    clear = [effect for effect in found.first if effect.is_clear][: telling.MOST_EFFECTS]
    return Section(
        "flags",
        "Flags and parameters",
        told if found.is_enough else told[:1],
        plots.effects(clear) if clear else "",
        telling.EFFECTS_HEAD,
        tuple(telling.effects_rows(found)),
        tuple(telling.pairs_lines(found.pairs)) if found.is_enough else told[1:],
    )


def _noise(findings: Findings) -> Section | None:
    found = figures.noise(findings.results)
    if not len(found):
        return None
    middle, tail = 100 * np.quantile(found, [0.5, 0.9])
    text = (
        f"Half of the measurements vary by less than {middle:.2g} %, nine in ten by less than "
        f"{tail:.2g} %."
    )
    return Section("noise", "Measurement noise", (text,), plots.spreads(found))


def _again(results: Results) -> Section:
    lines = tuple(reproducing.commands(results))
    return Section("commands", "To reproduce it", lines=lines)
