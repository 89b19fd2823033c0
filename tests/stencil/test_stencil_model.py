"""What a predictor of throughput is trained on, and the order that it gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harness.core.errors import UsageError
from harness.core.records import Config, Environment, Input, Measurement, Outcome, Timing
from harness.results import Store, writing
from harness.stencil.features import FEATURES
from harness.stencil.predicted import predicted_order, read_predictor, table_of, throughput
from tests.helpers.stencil_kernels import made_times


def test_throughput_is_relative_to_the_best_of_a_program_and_a_size() -> None:
    rows = [("a", 512, 2.0), ("a", 512, 4.0), ("a", 1024, 8.0), ("b", 512, 5.0)]
    table = pd.DataFrame(rows, columns=["program", "size", "time_s"])
    assert throughput(table).tolist() == [1.0, 0.5, 1.0, 1.0]


def test_a_table_has_the_successful_points_with_features() -> None:
    observed = dict.fromkeys((*FEATURES, "design"), 1.0)
    problem, config = Input({"size": 64}), Config({"VARIANT": 1})
    ran = Measurement(config, problem, Outcome.OK, Timing((0.5,)), observed=observed)
    bare = Measurement(config, problem, Outcome.OK, Timing((0.5,)))
    failed = Measurement(config, problem, Outcome.TIMEOUT, message="late", observed=observed)
    table = table_of("p", 64, [ran, bare, failed])
    assert table[["program", "size", "time_s", "design"]].to_numpy().tolist() == [["p", 64, 0.5, 1]]
    assert table_of("p", 64, []).empty


def test_points_are_ordered_by_a_predictor_trained_on_other_stencils(tmp_path: Path) -> None:
    table = made_times(programs=3, points=60)
    own, known = table[table["program"] == "p0"], table[table["program"] != "p0"]
    shared = own.assign(design=[*known["design"][:15], *own["design"][15:]])
    columns = [*FEATURES, "design"]
    shared[columns].astype(int).to_csv(tmp_path / "p.features.csv", index_label="VARIANT")
    order = predicted_order(known, tmp_path / "p.features.csv")
    assert order is not None
    assert sorted(c["VARIANT"] for c in order[0]) == list(range(60))
    ranks = [int(config["VARIANT"]) for config in order[0]]  # type: ignore[arg-type]
    times = own["time_s"].to_numpy()[ranks]
    assert np.median(times[:20]) < np.median(times[20:])
    assert order[1] == (
        "ordered by a forest trained on 120 points of p1, p2; "
        "25% of this space's designs are among theirs"
    )


def test_only_a_stencils_space_can_be_ordered(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a stencil's space: mvmul\.features\.csv is not"):
        read_predictor("none.db", tmp_path / "mvmul.yaml")


def test_an_empty_database_gives_no_order(tmp_path: Path) -> None:
    url = str(tmp_path / "empty.db")
    with writing(url) as engine:
        Store(engine).commit()
    (tmp_path / "p.features.csv").touch()
    somewhere = Environment("opencl", "device", "platform", "driver", "compiler")
    assert read_predictor(url, tmp_path / "p.yaml").order(somewhere) is None
