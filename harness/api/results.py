"""Results as Python and notebooks see them: tables, rules, trees, the verdict, and plots."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.analysis.inputs import InputReport
from harness.core.config_diff import DEFAULT
from harness.core.errors import UsageError
from harness.core.files import WRITTEN_BY, write_output
from harness.core.records import Config, Input
from harness.core.text import counted, escaped, suggestion
from harness.display.inputs import input_cells
from harness.options.dispatch import DispatchOptions
from harness.results import without_password
from harness.results.view import Results, flat_table, read_results

if TYPE_CHECKING:
    import pandas as pd

    from harness.dispatch.single import Single
    from harness.report.findings import Findings
    from harness.space_file import Spec

_SHOWN = 12
PLOTS = ("speed-ups", "boxes", "search", "seconds", "importance", "tree")
"""The names that `TuneResults.plot` takes."""


class _TunedInput(InputReport):
    """The report of an input, which prints as a few lines."""

    def __repr__(self) -> str:
        default = self.baseline or self.failed_baselines.get(DEFAULT)
        problem, *cells = input_cells(self, default.config if default else Config({}))
        named = zip(("recommended", "time", "default", "speed-up"), cells, strict=True)
        shown = (f"    {name + ':':<12} {text}" for name, text in named)
        return escaped("\n".join([problem, *shown]), "\n")


@dataclass(frozen=True, repr=False)
class TuneResults:
    """The results of one space on one device, read from a database.

    What takes seconds is computed when it is first read. `stored` has all measurements;
    `space` is the space, where it is known.
    """

    stored: Results
    space: Spec | None = None

    # ------------------------------------------------------------------------ each input

    @cached_property
    def inputs(self) -> Sequence[_TunedInput]:
        """The report of each input: best configuration, times in seconds, speed-up, ties."""
        return [_TunedInput(**vars(report)) for report in self.findings.reports]

    @property
    def best(self) -> Mapping[Input, Config]:
        """The configuration to use on each input on which anything worked: the fastest, or the
        default where the fastest is not significantly faster."""
        return {r.problem: r.recommended.config for r in self.inputs if r.recommended is not None}

    def table(self) -> pd.DataFrame:
        """Return a table with a row for each input: its features, the parameters of the
        configuration to use, its `time_s`, `default_s`, and the `speedup` of the fastest over the
        default with its interval; where it is not significant (`is_faster`), use the default."""
        points = [(r.problem, r.recommended.config if r.recommended else {}) for r in self.inputs]
        return flat_table(points, list(map(_row, self.inputs)))

    def measurements(self) -> pd.DataFrame:
        """Return a table with a row for each measurement, with its features and parameters."""
        return self.stored.table()

    # --------------------------------------------------------------------- across inputs

    @property
    def single(self) -> Single | None:
        """The configuration to use where one serves all inputs, with its speed-up over the
        default; None where nothing worked."""
        return self.findings.single

    @property
    def advice(self) -> str:
        """Which configurations to use, and how much faster they are: what `tune` prints first."""
        return self.findings.advice

    @property
    def verdict(self) -> str:
        """Whether choosing by input is faster than one configuration, on held-out inputs."""
        return self.findings.verdict

    @property
    def rule(self) -> str:
        """Which configuration to use for which input, as lines of a tree."""
        return self.findings.rule

    @property
    def tree(self) -> str:
        """What the times depend on: a tree over parameters and features, as lines."""
        from harness.models.starchart import describe

        learnt = self.findings.explanation
        return (
            "\n".join(describe(learnt.tree)) if learnt else "There are too few samples for a tree."
        )

    @cached_property
    def findings(self) -> Findings:
        """What is learnt from the results, for the functions of the rooms below."""
        from harness.report.findings import Findings  # here: it loads what learns

        return Findings(self.stored)

    # --------------------------------------------------------------------------- outputs

    def plot(self, name: str = "speed-ups") -> _Picture:
        """Draw `speed-ups`, `boxes` (samples of the final rounds), `search` (best by tests),
        `seconds` (best by seconds), `importance` or `tree`, as SVG.

        Raises UsageError for another name, and where there is nothing to draw.
        """
        if name not in PLOTS:
            raise UsageError(f"no plot `{name}`; {suggestion(name, PLOTS)}")
        if self.stored.is_replay and name in ("boxes", "seconds"):
            raise UsageError(f"no plot `{name}` of a replay: a recording answered the tests")
        from harness.models.starchart import importance
        from harness.report import figures, plots  # here: they load what draws

        svg = ""
        if name == "speed-ups":
            gains = figures.speed_ups(self.inputs)
            if gains:
                svg = plots.gains(gains)
        elif name == "boxes":
            samples = figures.final_samples(self.stored, self.inputs)
            if samples:
                svg = plots.boxes(samples)
        elif name in ("search", "seconds"):
            draw = plots.best_by_tests if name == "search" else plots.best_by_seconds
            curves = figures.search_curves(self.stored)
            if curves:
                svg = draw(curves)
        elif self.findings.explanation:
            tree = self.findings.explanation.tree
            is_tree = name == "tree"
            svg = plots.tree_picture(tree) if is_tree else plots.importances(importance(tree))
        if not svg:
            raise UsageError(
                f"there is nothing to draw for the plot `{name}`: too few configurations were "
                "measured and worked"
            )
        # The report's pictures take the colours of its page.
        return _Picture(svg.replace("var(--paper)", "white").replace("currentColor", "#444"))

    def report(self, path: str | Path) -> Path:
        """Write the HTML report; return its path."""
        from harness.report import write_report

        write_report(Path(path), [self.stored])
        return Path(path)

    def dispatcher(
        self, folder: str | Path, *, space: str | Path | Spec | None = None, **arguments: Any
    ) -> list[Path]:
        """Write code that chooses a configuration, as `python -m harness dispatch` with the same
        options; return its files.

        `space` defaults to the one that was tuned, or to its file as the database notes it. Raises
        UsageError where nothing worked and, with `require_choice`, where choosing by input is not
        significantly faster than one configuration for all.
        """
        from harness.api.dispatching import learn
        from harness.display.progress import Display

        of_results = {
            "database": self.stored.databases,
            "output": folder,
            "space": self.stored.campaign.space_name,
            "device": self.stored.campaign.environment.device,
            "spec": space or self.space,
        }
        given = {**arguments, **of_results}
        with DispatchOptions.called("dispatcher", given, spec="space") as options:
            learnt = learn(options, Display())
            if learnt.why_not_written:
                raise UsageError(learnt.why_not_written)
            return [Path(folder) / name for name in learnt.write()]

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain data, as `analyse --json` prints them."""
        from harness.api.describing import describe_results

        return describe_results(self.findings).model_dump(mode="json")

    # ---------------------------------------------------------------------------- shown

    @property
    def title(self) -> str:
        """The space, the device, and how much was measured."""
        count = counted(len(self.stored.searched), "measurement")
        inputs = counted(len(self.stored.measured), "input")
        return f"{self.stored.title}: {inputs}, {count}"

    def __repr__(self) -> str:
        databases = ", ".join(map(without_password, self.stored.databases))
        lines = [escaped(f"{self.title}, in {databases}")]
        for report in self.inputs[:_SHOWN]:
            problem, best, _, _, speedup = input_cells(report, self.stored.default)
            gain = f"  {speedup}" if report.recommended else ""
            lines.append(escaped(f"    {problem}: {best}{gain}"))
        if len(self.inputs) > _SHOWN:
            more = counted(len(self.inputs) - _SHOWN, "more input")
            lines.append(f"    and {more}; see .table()")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        title = html.escape(escaped(self.title))
        return f"<p><b>{title}</b></p>{self.table().to_html(max_rows=_SHOWN)}"


def _row(report: InputReport) -> dict[str, object]:
    """Return what the table has of an input beside its features and the parameters."""
    best, ratio = report.recommended, report.speedup
    timed = best is not None and best.timing is not None
    return {
        "time_s": best.time_s if best and timed else None,
        "default_s": report.baseline.time_s if report.baseline else None,
        "speedup": ratio.value if ratio else None,
        "speedup_low": ratio.low if ratio else None,
        "speedup_high": ratio.high if ratio else None,
        "is_faster": ratio.is_faster if ratio else False,
        "ties": report.within_noise,
        "measured": report.measured,
        "note": report.note,
    }


def open_results(
    database: str | Path | Sequence[str | Path],
    *,
    space: str | None = None,
    all_campaigns: bool = False,
) -> list[TuneResults]:
    """Read a results database, or several: one TuneResults for each space and device, the last
    worked on first. `space` keeps those of the space of this name; with `all_campaigns`, campaigns
    that a later --fresh replaced and those of earlier versions of a kernel follow.

    Raises UsageError where there are none, ResultsError for a database that cannot be read.
    """
    named = [database] if isinstance(database, (str, Path)) else list(database)
    read = read_results(list(map(str, named)), space, all_campaigns, builds=False)
    return list(map(TuneResults, read))


@dataclass(frozen=True)
class _Picture:
    """A picture as SVG."""

    svg: str

    def save(self, path: str | Path) -> Path:
        """Write the SVG file, in place of an earlier picture of harness; return its path.

        Raises UsageError where another file is there, and for a name of another kind of file.
        """
        if Path(path).suffix != ".svg":
            raise UsageError(f"{path}: the picture is SVG; name a file that ends in .svg")
        write_output(Path(path), f"<!-- {WRITTEN_BY} -->{self.svg}")
        return Path(path)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({len(self.svg):,} characters of SVG; .save(path) writes it)"
