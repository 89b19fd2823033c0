"""What a predictor of throughput is trained on, and the order that it gives."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.core.errors import UsageError
from harness.core.records import Config, Environment, Input, Measurement, Outcome, Timing
from harness.results import writing
from harness.space_file import Parameter
from harness.stencil.features import FEATURES
from harness.stencil.predicted import StencilPredictor, throughput
from tests.helpers.results_examples import ENVIRONMENT, SPEC, Store, make_plan
from tests.helpers.stencil_kernels import made_times

SIZE = Input({"size": 4096})
COLUMNS = [*FEATURES, "design"]


def test_throughput_is_relative_to_the_best_of_a_program_and_a_size():
    rows = [("a", 512, 2.0), ("a", 512, 4.0), ("a", 1024, 8.0), ("b", 512, 5.0)]
    table = pd.DataFrame(rows, columns=["program", "size", "time_s"])
    assert throughput(table).tolist() == [1.0, 0.5, 1.0, 1.0]


def measured(table):
    """Return the rows as measurements, and two that nothing can be learnt from."""
    rows = []
    for row in table.to_dict("records"):
        observed = {name: row[name] for name in COLUMNS}
        config, timing = Config({"VARIANT": len(rows)}), Timing((row["time_s"],))
        rows.append(Measurement(config, SIZE, Outcome.OK, timing, observed=observed))
    bare = dataclasses.replace(rows[0], config=Config({"VARIANT": len(rows)}), observed={})
    late = Measurement(
        Config({"VARIANT": len(rows) + 1}),
        SIZE,
        Outcome.TIMEOUT,
        message="late",
        observed=rows[0].observed,
    )
    return [*rows, bare, late]


@pytest.fixture
def url(tmp_path):
    """A database with the points of p0, p1 and p2, and of a kernel that is no stencil."""
    url = str(tmp_path / "stencil.db")
    table = made_times(programs=3, points=30)
    variant = Parameter("VARIANT", "integer", range(32), "choice", 0)
    with writing(url) as engine:
        store = Store(engine)
        for program, rows in table.groupby("program"):
            spec = dataclasses.replace(
                SPEC, name=program, host_text=program, parameters=(variant,), constraints=(),
                features=("size",), inputs=(SIZE,), baselines=(),
            )  # fmt: skip
            plan = make_plan(SIZE, spec=spec)
            store.add_measurements(store.begin_run(plan, {}), plan, "search", measured(rows))
        plan = make_plan()
        other = Measurement(SPEC.default, SPEC.inputs[0], Outcome.OK, Timing((0.5,)))
        store.add_measurements(store.begin_run(plan, {}), plan, "search", [other])
        store.commit()
    return url


def test_points_are_ordered_by_a_predictor_trained_on_other_stencils(url, tmp_path):
    table = made_times(programs=3, points=30)
    points = table[:30]
    designs = [*table["design"][30:45], *points["design"][15:]]
    features = points[COLUMNS].assign(design=designs).astype(int)
    features.to_csv(tmp_path / "p0.features.csv", index_label="VARIANT")
    orders = set()
    for predictor in (
        StencilPredictor(url, tmp_path / "p0.yaml"),
        StencilPredictor(url, tmp_path / "p0.yaml", "PredictedKNN"),
    ):
        configs, sentence = predictor.order(ENVIRONMENT) or ([], "")
        ranks: list[Any] = [config["VARIANT"] for config in configs]
        assert sorted(ranks) == list(range(30))
        times = points["time_s"].to_numpy()[ranks]
        assert np.median(times[:10]) < np.median(times[10:])
        assert "60 points of p1, p2; 50%" in sentence
        orders.add(tuple(ranks))
    assert len(orders) == 2
    elsewhere = Environment("opencl", "device", "platform", "driver", "compiler")
    assert predictor.order(elsewhere) is None


def test_only_a_stencils_space_can_be_ordered(tmp_path):
    with pytest.raises(UsageError, match=r"mvmul\.features\.csv"):
        StencilPredictor("none.db", tmp_path / "mvmul.yaml")


def test_points_of_another_version_cannot_be_predicted(tmp_path):
    (tmp_path / "ring.features.csv").write_text(f"VARIANT,{','.join(FEATURES[:-1])}\n")
    with pytest.raises(UsageError, match=rf"ring\.features\.csv .* {FEATURES[-1]}"):
        StencilPredictor("none.db", tmp_path / "ring.yaml")
