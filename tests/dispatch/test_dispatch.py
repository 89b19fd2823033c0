"""The command that writes a dispatcher: of which results, what it refuses, and what it writes."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

import harness
from harness.api import dispatching
from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Config, Input
from harness.dispatch.study import DISPATCHERS, STATIC, learners
from harness.space_file import load_spec
from tests.helpers.commands import analyse, dispatch, report
from tests.helpers.dispatch_examples import imported
from tests.helpers.dispatch_results import DEVICE, SPACE, always_16, fill
from tests.helpers.replays import write_space

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the published models, which the command's own code does not depend on."""
    monkeypatch.setattr(
        dispatching, "learners", lambda names: [STATIC, *(DISPATCHERS[name] for name in names)]
    )


@pytest.fixture
def space(tmp_path: Path) -> Path:
    return write_space(tmp_path, SPACE)


@pytest.fixture
def database(space: Path, tmp_path: Path) -> Path:
    """Results in which the best block depends on the size."""
    return fill(tmp_path / "r.db", load_spec(space))


@pytest.fixture
def static(space: Path, tmp_path: Path) -> Path:
    """Results in which there is nothing to choose."""
    return fill(tmp_path / "static.db", load_spec(space), times=always_16)


def run(database: Path, space: Path, *more: str) -> int:
    out = space.parent / "out"
    asked = [str(database), "-o", str(out), "--spec", str(space), "--choice", "tree", *more]
    return dispatch(asked)


def test_no_more_are_written_than_wanted(database: Path, space: Path, capsys: Capture) -> None:
    assert run(database, space) == 0
    assert len(written(space).PORTFOLIO) == 2
    for choice in ("tree", "auto"):
        assert run(database, space, "--choice", choice, "--most", "1") == 0
        assert len(written(space).PORTFOLIO) == 1
    said(capsys)
    assert analyse([str(database), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["analyses"]
    assert [len(one["configs"]) for one in found["portfolios"]] == [1, 2]
    first, second = (one["slowdown"]["value"] for one in found["portfolios"])
    assert first > second == 1


def said(capsys: Capture) -> str:
    """What was printed since, on one line."""
    printed = capsys.readouterr()
    return " ".join((printed.out + printed.err).split())


def written(space: Path) -> ModuleType:
    return imported(space.parent / "out", "small")


def test_spaces_may_name_the_devices_numbers(space: Path, database: Path, capsys: Capture) -> None:
    assert run(database, space) == 0
    # What is illegal on one input is a candidate on the others.
    assert re.search(r"oracle +1\.000 .* 1\.00 ", capsys.readouterr().out)
    module = written(space)
    assert module.select(n=64) == {"BLOCK": 16}
    assert module.select(n=8192) == {"BLOCK": 64}
    place = module.select_index(n=8192)
    assert module.launch_size(place, n=8192) == ((64,), (8,))
    assert not module.applies(place, n=16)
    assert module.applies(place, n=32)


def compiled(space: Path, inputs: Sequence[int]) -> list[int]:
    """What the header selects for these inputs, then whether each configuration applies to them."""
    folder = space.parent
    calls = [f"small_select({n})" for n in inputs]
    calls += [f"small_applies({index}, {n})" for index in (0, 1) for n in inputs]
    prints = "".join(f'printf("%d ", {call}); ' for call in calls)
    (folder / "p.c").write_text(
        f'#include <stdio.h>\n#include "out/small.h"\nint main(void) {{ {prints} return 0; }}\n'
    )
    subprocess.run(["cc", "-std=c99", "p.c", "-o", "p"], cwd=folder, check=True)
    said = subprocess.run([folder / "p"], capture_output=True, text=True, check=True).stdout
    return list(map(int, said.split()))


@pytest.mark.parametrize(
    ("launch", "legal"),
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
def test_no_configuration_is_chosen_that_the_device_cannot_launch(
    tmp_path: Path, launch: str, legal: Mapping[int, set[int]]
) -> None:
    text = re.sub("launch: .*", f"launch: {launch}", SPACE)
    space = write_space(tmp_path, text)
    assert run(fill(tmp_path / "r.db", load_spec(space)), space) == 0
    module = written(space)
    blocks = [config["BLOCK"] for config in module.PORTFOLIO]
    selected, applied = [], []
    for n, may in legal.items():
        if may:
            assert module.select(n=n)["BLOCK"] in may
            assert module.PORTFOLIO[module.fallback_index(n=n)]["BLOCK"] in may
        else:
            with pytest.raises(LookupError, match="limits of the device rule out all of them"):
                module.select(n=n)
        selected.append(module.select_index(n=n) if may else -1)
    for index, block in enumerate(blocks):
        applied += [block in may for may in legal.values()]
        assert [module.applies(index, n=n) for n in legal] == [block in m for m in legal.values()]
    assert compiled(space, list(legal)) == [*selected, *applied]
    first = json.loads((tmp_path / "out" / "small" / "small.json").read_text())["configurations"][0]
    assert all("n" in Expression(guard).names for guard in first["guards"])
    assert len(first["guards"]) >= 2


def test_where_choosing_gains_nothing_one_configuration_is_written(
    space: Path, static: Path, tmp_path: Path, capsys: Capture
) -> None:
    required = run(static, space, "--choice", "auto", "--require-choice")
    printed = said(capsys)
    assert required == 1
    assert "or leave out --require-choice to write that one (default)." in printed
    assert not (tmp_path / "out").exists()
    assert run(static, space, "--choice", "auto") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Keep the default on every input")
    assert "Slowdown" not in printed, "there is nothing to compare"
    module = written(space)
    assert module.PORTFOLIO == ({"BLOCK": 16},)
    assert module.select(n=64) == module.select(n=2**40) == {"BLOCK": 16}
    assert module.PROVENANCE["choice"] == "one configuration for all, seed 0"


def test_a_choice_that_is_asked_for_is_written_though_it_gains_nothing(
    space: Path, static: Path, tmp_path: Path, capsys: Capture
) -> None:
    for choice in ("tree", "ensemble"):
        assert run(static, space, "--choice", choice) == 0
        assert f"Choosing by input ({choice}) is no faster than" in capsys.readouterr().out
        assert written(space).PROVENANCE["choice"] == (
            f"{choice}, seed 0, not significantly faster than one configuration for all"
        )
    head = (tmp_path / "out" / "small.h").read_text().split("*/")[0]
    assert "is no faster than one configuration" in " ".join(head.split())


def wrong_once(given: Input, config: Config) -> float:
    """64 is ten times as fast, and fails on one input."""
    if config["BLOCK"] == 64:
        return math.inf if given["n"] == 128 else 1e-4
    return 1e-3


def test_what_failed_on_an_input_is_not_used_on_every_input(
    space: Path, tmp_path: Path, capsys: Capture
) -> None:
    database = fill(tmp_path / "r.db", load_spec(space), times=wrong_once)
    assert run(database, space, "--choice", "auto") == 0
    (found,) = harness.open_results(database)
    assert found.findings.single is not None
    assert found.findings.single.config == Config({"BLOCK": 16})
    capsys.readouterr()
    assert run(database, space, "--choice", "tree") == 0
    printed = said(capsys)
    assert written(space).select(n=128) == {"BLOCK": 64}
    assert (
        "The tree chooses a configuration that failed when it was tuned on 1 input, such as n=128."
    ) in printed


@pytest.mark.parametrize(("count", "choice"), [(3, "auto"), (5, "tree")])
def test_where_constraints_rule_the_single_configuration_out_the_default_stands_in(
    space: Path, tmp_path: Path, count: int, choice: str
) -> None:
    spec = load_spec(space)
    large = dataclasses.replace(spec, inputs=spec.inputs[-count:])
    assert run(fill(tmp_path / "r.db", large), space, "--choice", choice) == 0
    module = written(space)
    assert module.select(n=8192) == {"BLOCK": 64}
    assert module.select(n=16) == {"BLOCK": 16}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_inputs_are_answered(space: Path, tmp_path: Path, capsys: Capture, count: int) -> None:
    spec = load_spec(space)
    few = dataclasses.replace(spec, inputs=spec.inputs[-count:])
    database = fill(tmp_path / "r.db", few)
    assert run(database, space, "--choice", "auto") == 0
    assert capsys.readouterr().out.startswith("Use BLOCK=64")
    assert written(space).select(n=8192) == {"BLOCK": 64}
    assert run(database, space) == 2, "a tree cannot be learnt"
    assert "learnt from 4 inputs, and judged with some 16; there" in said(capsys)


def test_gadapts_model_is_judged_and_written(space: Path, database: Path, capsys: Capture) -> None:
    assert [learner.name for learner in learners(["gadapt"])].count("gadapt") == 1
    assert run(database, space, "--choice", "gadapt") == 0
    printed = capsys.readouterr().out
    assert re.search(r"gadapt +1\.\d+ ", printed)
    assert "Choosing by input (gadapt) is faster than one configuration" in printed
    module = written(space)
    assert [module.select(n=n) for n in (64, 8192)] == [{"BLOCK": 16}, {"BLOCK": 64}]
    assert module.PROVENANCE["choice"].startswith("gadapt, seed 0")
    assert module.DATA["choice"]["worth_a_try"] is None, "its costs are no times to try by"


def test_python_is_told_its_own_arguments(space: Path, static: Path, tmp_path: Path) -> None:
    (found,) = harness.open_results(static)
    with pytest.raises(UsageError, match="leave out `require_choice` to write that one"):
        found.dispatcher(tmp_path / "out", space=space, require_choice=True)
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match=r"no choice `gadpt`; did you mean `gadapt`\?"):
        found.dispatcher(tmp_path / "out", space=str(space), choice="gadpt")
    assert found.dispatcher(tmp_path / "out", space=str(space))
    space.unlink()
    with pytest.raises(UsageError, match="name the YAML file of small with `space=FILE`"):
        found.dispatcher(tmp_path / "out")


def test_a_missing_space_is_named_as_tuned(space: Path, tmp_path: Path, capsys: Capture) -> None:
    measured = load_spec(space)
    for noted, advice in (
        ("there/x.yaml", "there/x.yaml, which was tuned, is not here; go to the folder where"),
        ("<space small>", "built in Python and has no file: write its dispatcher there, with"),
    ):
        spec = dataclasses.replace(measured, path=Path(noted))
        opencl = dataclasses.replace(DEVICE, backend="opencl")
        database = fill(tmp_path / f"{len(noted)}.db", spec, opencl)
        assert dispatch([str(database), "-o", str(tmp_path / "out")]) == 2
        assert advice in said(capsys)


def test_an_edited_space_has_the_last_word(space: Path, database: Path, capsys: Capture) -> None:
    text = space.read_text()
    space.write_text(text.replace("constraints: [", "constraints: [BLOCK < 64 or n != 4096, "))
    assert run(database, space) == 0
    printed = said(capsys)
    assert "1 of 23 measurements belongs to another version of the space" in printed
    assert "space: 1 that its constraints do not allow." in printed
    module = written(space)
    assert module.select(n=4096) == {"BLOCK": 16}
    assert module.select(n=8192) == {"BLOCK": 64}
    space.write_text(text.replace("[16, 64]", "[16, 32]"))
    assert run(database, space) == 0
    printed = said(capsys)
    assert "11 of 23 measurements belong to another version of the space" in printed
    assert "space: 11 with values that it lacks (BLOCK=64)." in printed
    assert "not significantly faster" in written(space).PROVENANCE["choice"]


def test_results_of_others_are_named(space: Path, database: Path, capsys: Capture) -> None:
    space.write_text(space.read_text().replace("name: small", "name: other"))
    assert run(database, space) == 2
    assert "whose name is other; there are results of small" in capsys.readouterr().err


def test_results_of_the_kernel_as_it_is_are_taken_and_the_last_of_a_device(
    space: Path, static: Path, tmp_path: Path, capsys: Capture
) -> None:
    with (tmp_path / "kernel.cl").open("a") as kernel:
        kernel.write("\nint edited;")
    assert run(static, space) == 2
    assert "is not what was measured: kernel.cl changed since. Tune it" in capsys.readouterr().err
    fill(static, load_spec(space), times=always_16)
    fill(static, load_spec(space), dataclasses.replace(DEVICE, driver="2.0"))
    assert run(static, space) == 0
    assert written(space).PROVENANCE["driver"] == "2.0"
    printed = capsys.readouterr().out.splitlines()[0]
    assert printed.startswith("Learnt from small on a device (a platform, driver 2.0), program ")
    assert printed.count("small on a device (a platform, driver 1.0), program ") == 2


def test_one_of_two_devices_is_chosen_by_name(space: Path, database: Path, capsys: Capture) -> None:
    fill(database, load_spec(space), dataclasses.replace(DEVICE, device="another"))
    assert run(database, space) == 2
    printed = capsys.readouterr().err
    assert "device: another, a device" in printed
    assert printed.endswith("choose one with --device NAME\n")
    assert run(database, space, "--device", "a device") == 0
    assert written(space).PROVENANCE["device"] == "a device"
    assert run(database, space, "--device", "none") == 2
    assert "on a device `none`; there are another; a device" in capsys.readouterr().err


def test_cold_and_warm_caches_are_two_devices(space: Path, tmp_path: Path, capsys: Capture) -> None:
    warm = dataclasses.replace(DEVICE, backend="opencl")
    database = fill(tmp_path / "r.db", load_spec(space), warm)
    fill(database, load_spec(space), dataclasses.replace(warm, cache="cold"))
    assert run(database, space) == 2
    assert "cache: cold, warm" in capsys.readouterr().err
    assert run(database, space, "--device", "warm") == 0
    assert written(space).PROVENANCE["cache"] == "warm"
    assert run(database, space, "--device", "none") == 2
    assert "there are a device, cold caches; a device, warm caches" in capsys.readouterr().err


def test_what_cannot_be_written_is_refused_before_anything_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    space = write_space(tmp_path, SPACE.replace("ceil_div(n, BLOCK)", "floor(log2(n))"))
    database = fill(tmp_path / "r.db", load_spec(space))
    monkeypatch.delattr(dispatching, "Study")
    assert run(database, space) == 2
    assert "log2 of a feature differs between mathematical libraries" in capsys.readouterr().err


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """A workload, a part of which was not tuned."""
    path = tmp_path / "calls.csv"
    path.write_text("# workload of small\nn,calls\n16,50\n70,20\n4096,60\n8192,11\n99999,59\n")
    return path


def test_the_verdict_is_weighted(database: Path, space: Path, calls: Path, capsys: Capture) -> None:
    assert run(database, space, "--weights", str(calls)) == 0
    message = said(capsys)
    assert "on held-out inputs, weighted by calls" in message
    assert "30% of the calls were outside of the tuned range" in message
    assert "weighted by calls" in (space.parent / "out" / "small.h").read_text()
    assert run(database, space, "--weights", str(calls.with_name("nowhere.csv"))) == 2
    assert "nowhere.csv cannot be read: No such file" in said(capsys)


def test_the_report_shows_the_workload(database: Path, calls: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    assert report([str(database), "-o", str(page), "--weights", str(calls)]) == 0
    text = page.read_text()
    for part in ("#workload-1", "The most frequent 5 of 5 inputs:", "30.0%", "in the tuned range",
                 "outside of the tuned range", "weighted by calls"):  # fmt: skip
        assert part in text
