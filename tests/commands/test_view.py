"""Databases as tables: of what was measured, and of candidates on inputs."""

import math
from pathlib import Path

import pytest

from harness.analysis.coverage import not_measured, reservations
from harness.core.errors import UsageError
from harness.core.records import Config, DeviceLimits, Input
from harness.dispatch.candidates import matrix_of
from harness.results.view import read_results, the_one
from tests.helpers.replays import FormulaMeasurer, results_of, small_space

SPACE = small_space(
    "BLOCK: {values: [16, 64, 256], default: 64}, TILE: {values: [1, 2], default: 1}",
    *(8, 16, 32),
    more="constraints: [BLOCK * TILE <= n * 16]\n",
)


def time_s(problem, config):
    """Each input wants a block of its own; TILE=2 fails on the largest."""
    if problem["n"] == 32 and config["TILE"] == 2:
        return math.inf
    best = {8: 16, 16: 64, 32: 256}[problem["n"]]
    return 1e-3 * (1 if config["BLOCK"] == best else 2) * (1.5 if config["TILE"] == 2 else 1)


def fill(folder, name="small"):
    """Run a campaign to its end; return its results."""
    text = SPACE.replace("name: small", f"name: {name}")
    return results_of(folder, text, FormulaMeasurer(time_s))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """All of a small space."""
    return fill(tmp_path_factory.mktemp("tables"))


def test_a_row_of_the_table_is_a_measurement(results):
    table = results.table()
    searched = table[table["stage"] == "search"]
    # 16 * 8 leaves out what is larger than 128 on the smallest input.
    assert searched.groupby("n").size().to_dict() == {8: 4, 16: 5, 32: 6}
    failed = searched[searched["outcome"] == "build_failed"]
    assert set(failed["n"]) == {32}
    assert set(failed["TILE"]) == {2}
    assert failed["time_s"].isna().all()
    worked = searched[searched["outcome"] == "ok"]
    assert worked["samples_s"].map(len).eq(3).all()
    assert not worked["time_s"].isna().any()


def test_measurements_in_two_databases_count_once(results, tmp_path):
    copy = tmp_path / "copy.db"
    copy.write_bytes(Path(results.databases[0]).read_bytes())
    joined = the_one(read_results([results.databases[0], str(copy)]))
    assert len(joined.rows) == len(results.rows)
    assert joined.databases == (results.databases[0], str(copy))


def test_the_devices_limits_are_stored_with_the_results(results, tmp_path):
    assert results.limits == {}  # it was measured without a device
    limits = DeviceLimits(1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 49152, 2, 32)
    measurer = FormulaMeasurer(time_s)
    measurer.limits = limits
    text = SPACE.replace("n * 16", "n * 8 * compute_units")
    found = results_of(tmp_path, text, measurer)
    assert found.limits == limits.names()
    assert matrix_of(found).applies.tolist() == matrix_of(results).applies.tolist()
    assert not matrix_of(found).applies.all()


def renamed_s(problem, config):
    return time_s(problem, Config({"BLOCK": config["BLOCK"], "TILE": config["A"]}))


def test_measurements_of_former_parameters_are_left_out(tmp_path):
    before = fill(tmp_path)
    only_first = SPACE.replace("{n: 8}, {n: 16}, {n: 32}", "{n: 8}, {n: 16}")
    results = results_of(tmp_path, only_first.replace("TILE", "A"), FormulaMeasurer(renamed_s))
    assert results.campaign.key == before.campaign.key
    assert len(matrix_of(results).features) == 2
    (sentence,) = reservations(results)
    assert f"{len(before.rows)} with other parameters (they differ in A, TILE)" in sentence
    why = "its measurements belong to another version of the space"
    assert not_measured(results) == {Input({"n": 32}): f"not measured: {why}"}


def test_what_must_not_mix_is_refused_with_what_differs(results, tmp_path):
    databases = *results.databases, *fill(tmp_path, "other").databases
    with pytest.raises(UsageError, match=r"differ in\n    space: small, other\nchoose one"):
        the_one(read_results(databases))
