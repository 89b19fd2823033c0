"""The command that writes a dispatcher: of which results, what it refuses, and what it writes."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import harness
from harness.api import dispatching
from harness.constraints.expression import Expression
from harness.core.records import Config
from harness.dispatch.study import DISPATCHERS, STATIC, learners
from harness.space_file import load_spec
from tests.helpers.commands import dispatch, report
from tests.helpers.dispatch_examples import imported
from tests.helpers.dispatch_results import DEVICE, SPACE, always_16, fill
from tests.helpers.replays import write_space


@pytest.fixture(autouse=True)
def _quick(few_folds, monkeypatch):
    """Without the published models, which the command's own code does not depend on."""
    monkeypatch.setattr(
        dispatching, "learners", lambda names: [STATIC, *(DISPATCHERS[name] for name in names)]
    )


@pytest.fixture
def space(tmp_path):
    return write_space(tmp_path, SPACE)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder with a space and two databases of it."""
    folder = tmp_path_factory.mktemp("measured")
    spec = load_spec(write_space(folder, SPACE))
    fill(folder / "r.db", spec)
    fill(folder / "static.db", spec, times=always_16)
    return folder


@pytest.fixture
def database(measured, tmp_path):
    """Results in which the best block depends on the size."""
    return shutil.copy(measured / "r.db", tmp_path)


@pytest.fixture
def static(measured, tmp_path):
    """Results in which there is nothing to choose."""
    return shutil.copy(measured / "static.db", tmp_path)


def run(database, space, *more):
    out = space.parent / "out"
    asked = [str(database), "-o", str(out), "--spec", str(space), "--choice", "tree", *more]
    return dispatch(asked)


def said(capsys):
    """What was printed since, on one line."""
    printed = capsys.readouterr()
    return " ".join((printed.out + printed.err).split())


def written(database, space, *more):
    """Write a dispatcher; return its module."""
    assert run(database, space, *more) == 0
    return imported(space.parent / "out", "small")


def test_no_more_are_written_than_wanted(database, space):
    for choice in ("tree", "auto"):
        module = written(database, space, "--choice", choice, "--most", "1")
        assert len(module.PORTFOLIO) == 1


def test_spaces_may_name_the_devices_numbers(space, database, capsys):
    """What is illegal on one input is a candidate on the others."""
    module = written(database, space)
    assert re.search(r"oracle +1\.000 .* 1\.00 ", capsys.readouterr().out)
    assert [module.select(n=n)["BLOCK"] for n in (64, 8192)] == [16, 64]
    place = module.select_index(n=8192)
    assert module.launch_size(place, n=8192) == ((64,), (8,))
    assert [module.applies(place, n=n) for n in (16, 32)] == [False, True]


@pytest.mark.parametrize(
    "launch, legal",
    [
        (  # 49,152 bytes; n=32768 was tuned
            '{group: [BLOCK], grid: [1], shared: "n * BLOCK // 32"}',
            {16384: {16, 64}, 32768: {16}, 98304: {16}, 98306: set()},
        ),
        (  # 65,535 groups in y
            '{group: [1, BLOCK], grid: [1, "ceil_div(n, BLOCK)"]}',
            {65535 * 16: {16, 64}, 65535 * 16 + 1: {64}, 65535 * 64: {64}, 2**40: set()},
        ),
        (  # 1,024 work-items
            '{group: ["max(1, n // BLOCK)"], grid: [1]}',
            {16384: {16, 64}, 32768: {64}, 65599: {64}, 65600: set(), 2**62 + 1: set()},
        ),
    ],
)
def test_no_configuration_is_chosen_that_the_device_cannot_launch(tmp_path, launch, legal):
    text = re.sub("launch: .*", f"launch: {launch}", SPACE)
    space = write_space(tmp_path, text)
    spec = load_spec(space)
    six = replace(spec, inputs=spec.inputs[1::2])
    module = written(fill(tmp_path / "r.db", six), space)
    for n, may in legal.items():
        if may:
            assert module.select(n=n)["BLOCK"] in may
            assert module.PORTFOLIO[module.fallback_index(n=n)]["BLOCK"] in may
        else:
            with pytest.raises(LookupError, match="device"):
                module.select(n=n)
        for index, config in enumerate(module.PORTFOLIO):
            assert module.applies(index, n=n) == (config["BLOCK"] in may)
    first = json.loads((tmp_path / "out" / "small" / "small.json").read_text())["configurations"][0]
    assert all("n" in Expression(guard).names for guard in first["guards"])
    assert len(first["guards"]) >= 2


def test_where_choosing_gains_nothing_one_configuration_is_written(space, static, tmp_path, capsys):
    assert run(static, space, "--choice", "auto", "--require-choice") == 1
    assert "leave out --require-choice" in said(capsys)
    assert not (tmp_path / "out").exists()
    module = written(static, space, "--choice", "auto")
    assert "Slowdown" not in capsys.readouterr().out, "there is nothing to compare"
    assert module.PORTFOLIO == ({"BLOCK": 16},)
    assert module.select(n=64) == module.select(n=2**40) == {"BLOCK": 16}
    assert module.PROVENANCE["choice"] == "one configuration for all, seed 0"


def test_a_choice_that_is_asked_for_is_written_though_it_gains_nothing(
    space, static, tmp_path, capsys
):
    module = written(static, space, "--choice", "ensemble")
    assert "(ensemble) is no faster" in capsys.readouterr().out
    assert "not significantly faster" in module.PROVENANCE["choice"]
    head = (tmp_path / "out" / "small.h").read_text().split("*/")[0]
    assert "is no faster" in " ".join(head.split())


def wrong_once(given, config):
    """64 is ten times as fast, and fails on one input."""
    if config["BLOCK"] == 64:
        return math.inf if given["n"] == 128 else 1e-4
    return 1e-3


def test_what_failed_on_an_input_is_not_used_on_every_input(space, tmp_path, capsys):
    database = fill(tmp_path / "r.db", load_spec(space), times=wrong_once)
    (results,) = harness.open_results(database)
    assert results.findings.single.config == Config({"BLOCK": 16})
    assert written(database, space).select(n=128) == {"BLOCK": 64}
    assert "on 1 input, such as n=128." in said(capsys)


@pytest.mark.parametrize("count, choice", [(3, "auto"), (5, "tree")])
def test_where_constraints_rule_the_single_configuration_out_the_default_stands_in(
    space, tmp_path, count, choice
):
    spec = load_spec(space)
    large = replace(spec, inputs=spec.inputs[-count:])
    module = written(fill(tmp_path / "r.db", large), space, "--choice", choice)
    assert [module.select(n=n)["BLOCK"] for n in (8192, 16)] == [64, 16]


@pytest.mark.parametrize("count", [1, 3])
def test_few_inputs_are_answered(space, tmp_path, capsys, count):
    spec = load_spec(space)
    few = replace(spec, inputs=spec.inputs[-count:])
    database = fill(tmp_path / "r.db", few)
    assert written(database, space, "--choice", "auto").select(n=8192) == {"BLOCK": 64}
    assert run(database, space) == 2, "a tree cannot be learnt"
    assert "learnt from 4 inputs" in said(capsys)


def test_gadapts_model_is_judged_and_written(space, database, capsys):
    assert [learner.name for learner in learners(["gadapt"])].count("gadapt") == 1
    module = written(database, space, "--choice", "gadapt")
    assert "(gadapt) is faster" in capsys.readouterr().out
    assert [module.select(n=n)["BLOCK"] for n in (64, 8192)] == [16, 64]
    assert module.PROVENANCE["choice"].startswith("gadapt, seed 0")
    assert module.DATA["choice"]["worth_a_try"] is None, "its costs are no times to try by"


@pytest.mark.parametrize(
    "noted, advice", [("there/x.yaml", "there/x.yaml"), ("<space small>", "built in Python")]
)
def test_a_missing_space_is_named_as_tuned(space, tmp_path, capsys, noted, advice):
    spec = load_spec(space)
    one = replace(spec, path=Path(noted), inputs=spec.inputs[:1])
    database = fill(tmp_path / "r.db", one, replace(DEVICE, backend="opencl"))
    assert dispatch([database, "-o", tmp_path / "out"]) == 2
    assert advice in said(capsys)


def test_an_edited_space_has_the_last_word(space, database, capsys):
    text = space.read_text()
    space.write_text(text.replace("constraints: [", "constraints: [BLOCK < 64 or n != 4096, "))
    module = written(database, space)
    printed = said(capsys)
    assert "1 of 23 measurements" in printed
    assert "space: 1 that its constraints" in printed
    assert [module.select(n=n)["BLOCK"] for n in (4096, 8192)] == [16, 64]
    space.write_text(text.replace("[16, 64]", "[16, 32]"))
    assert written(database, space, "--choice", "auto").PORTFOLIO == ({"BLOCK": 16},)
    printed = said(capsys)
    assert "11 of 23 measurements" in printed
    assert "(BLOCK=64)" in printed


def test_results_of_others_are_named(space, database, capsys):
    space.write_text(space.read_text().replace("name: small", "name: other"))
    assert run(database, space) == 2
    assert "results of small" in capsys.readouterr().err


def test_results_of_the_kernel_as_it_is_are_taken_and_the_last_of_a_device(
    space, static, tmp_path, capsys
):
    with (tmp_path / "kernel.cl").open("a") as kernel:
        kernel.write("\nint edited;")
    assert run(static, space, "--choice", "auto") == 2
    assert "kernel.cl changed" in capsys.readouterr().err
    for driver in ("1.0", "2.0"):
        fill(static, load_spec(space), replace(DEVICE, driver=driver), always_16)
    assert written(static, space, "--choice", "auto").PROVENANCE["driver"] == "2.0"
    printed = capsys.readouterr().out.splitlines()[0]
    assert printed.count("driver 2.0") == 1
    assert printed.count("driver 1.0") == 2


@pytest.mark.parametrize(
    "change, name, names",
    [
        ({"device": "another"}, "a device", "another, warm caches; a device, warm caches"),
        ({"cache": "cold"}, "warm", "a device, cold caches; a device, warm caches"),
        (
            {"device": "not a device"},
            "a device, warm caches",
            "not a device, warm caches; a device, warm caches",
        ),
    ],
)
def test_one_of_two_devices_is_chosen_by_name(space, tmp_path, capsys, change, name, names):
    warm = replace(DEVICE, backend="opencl")
    few = replace(load_spec(space), inputs=load_spec(space).inputs[:2])
    database = fill(tmp_path / "r.db", few, warm)
    fill(database, few, replace(warm, **change))
    assert run(database, space) == 2
    (key,) = change
    assert f"{key}: " in capsys.readouterr().err
    module = written(database, space, "--choice", "auto", "--device", name)
    assert module.PROVENANCE[key] == name.removesuffix(", warm caches")
    assert run(database, space, "--device", "none") == 2
    assert f"`none`; there are {names}" in capsys.readouterr().err


def test_what_cannot_be_written_is_refused_before_anything_is_judged(tmp_path, monkeypatch, capsys):
    space = write_space(tmp_path, SPACE.replace("ceil_div(n, BLOCK)", "floor(log2(n))"))
    database = fill(tmp_path / "r.db", load_spec(space))
    monkeypatch.delattr(dispatching, "Study")
    assert run(database, space) == 2
    assert "log2" in capsys.readouterr().err


@pytest.fixture
def calls(tmp_path):
    """A workload, a part of which was not tuned."""
    path = tmp_path / "calls.csv"
    path.write_text("# workload of small\nn,calls\n16,50\n70,20\n4096,60\n8192,11\n99999,59\n")
    return path


def test_the_verdict_is_weighted(database, space, calls, capsys):
    assert run(database, space, "--weights", str(calls)) == 0
    message = said(capsys)
    assert "weighted by calls" in message
    assert "30% of the calls" in message
    assert "weighted by calls" in (space.parent / "out" / "small.h").read_text()
    assert run(database, space, "--weights", str(calls.with_name("nowhere.csv"))) == 2
    assert "nowhere.csv" in said(capsys)


def test_the_report_shows_the_workload(undrawn, database, calls, tmp_path):
    page = tmp_path / "r.html"
    assert report([database, "-o", page, "--weights", calls]) == 0
    text = page.read_text()
    for part in ("#workload-1", "5 of 5 inputs", "30.0%", "weighted by calls"):
        assert part in text
