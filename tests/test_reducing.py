"""Which of a winner's flags are needed: measured after the finals, kept, and told again."""

from __future__ import annotations

from pathlib import Path

from harness.records import Config, Input
from harness.tables import read_results, the_one
from tests.replays import FormulaMeasurer, make_spec, opened

SPACE = """\
name: small
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 64], default: 16}
flags:
  opencl:
    cl-mad-enable: boolean
    cl-fast-relaxed-math: boolean
    cl-no-signed-zeros: boolean
baselines:
  fast: {cl-fast-relaxed-math: true}
launch: {group: [BLOCK], grid: [n]}
inputs: {features: [n], values: [{n: 8}]}
"""


def time_s(given: Input, config: Config) -> float:
    """One flag helps, two do nothing; where all three are set it is a hair faster."""
    helps = config["cl_fast_relaxed_math"]
    flags = sum(bool(config[name]) for name in config if name.startswith("cl_"))
    return 1e-3 * (0.5 if helps else 1.0) * (1 if config["BLOCK"] == 64 else 1.2) - 1e-9 * flags


class OpenCl(FormulaMeasurer):
    """It times the flags of OpenCL."""

    compiler = "opencl"


def test_flags_that_do_nothing_are_dropped_and_the_answer_is_kept(tmp_path: Path) -> None:
    spec, measurer = make_spec(tmp_path, SPACE), OpenCl(time_s)
    with opened(spec, tmp_path / "r.db", measurer) as (campaign, _):
        (report,) = campaign.run()
        (reduction,) = campaign.reductions.values()
    assert report.best is not None
    assert report.best.config["cl_mad_enable"] is True
    assert reduction.needed == ("cl_fast_relaxed_math",)
    assert reduction.config["BLOCK"] == 64
    results = the_one(read_results([str(tmp_path / "r.db")]))
    assert list(results.reductions.values()) == [reduction]
    assert results.baselines["fast"]["cl_fast_relaxed_math"] is True
    ratio = report.over["fast"]
    assert ratio.value > 1.1
    asked = len(measurer.asked)
    with opened(spec, tmp_path / "r.db", measurer) as (campaign, _):
        campaign.run()
        assert list(campaign.reductions.values()) == [reduction]
    assert len(measurer.asked) == asked
