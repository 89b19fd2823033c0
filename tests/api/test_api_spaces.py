"""Spaces that are built in Python: their shapes, their faults, and functions of a notebook."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy import float32

from harness.api.spaces import host_text, load_space, make_space
from harness.core.errors import SpecError, UsageError
from harness.core.modules import load_module
from harness.core.records import Input, Outcome
from harness.measure.choose import open_measurer
from harness.measure.device.host_module import HostModule
from harness.space import ConstrainedSpace
from harness.space_file import read_document
from tests import ROOT

FACTOR = 3
TABLE = np.zeros(3)

SOURCE = """
__kernel void scale(__global const float *x, __global float *y, int n) {
    int i = get_global_id(0) * PER;
    for (int k = 0; k < PER; k++) if (i + k < n) y[i + k] = 3 * x[i + k];
}
"""


def numbers(n: int) -> Any:
    return np.arange(n, dtype=float32)


def arguments(features: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    n = features["n"]
    return {"x": numbers(n), "y": np.zeros(n, float32), "n": np.int32(n)}


def reference(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"y": FACTOR * arguments["x"]}


def with_a_table(arguments):
    return {"y": TABLE}


def build(config: Mapping[str, Any], features: Mapping[str, int]) -> Any:
    step = config["STEP"]

    def scaled(arguments: Mapping[str, Any]) -> None:
        x, y = arguments["x"], arguments["y"]
        for begin in range(0, features["n"], step):
            np.multiply(FACTOR, x[begin : begin + step], out=y[begin : begin + step])

    return scaled


def scale(**changes):
    keys: dict[str, Any] = {
        "name": "scale",
        "kernel": {"function": "scale", "source": SOURCE, "host": [arguments, reference]},
        "parameters": {"BLOCK": [64, 16, 256], "PER": range(1, 5)},
        "launch": {"group": ["BLOCK"], "grid": ["ceil_div(n, BLOCK * PER)"]},
        "inputs": {"n": [1000, 2000]},
    }
    return make_space(**keys | changes)


def faults(**changes):
    with pytest.raises(SpecError) as raised:
        scale(**changes)
    return [fault.text for fault in raised.value.faults]


def test_number_too_large_for_a_space_is_a_fault():
    with pytest.raises(SpecError, match=r"n: must lie between -2\*\*53 and"):
        scale(inputs={"n": [10**400]})


def test_space_in_python_is_the_space_of_the_file(tmp_path):
    spec = scale()
    (tmp_path / "scale.cl").write_text(SOURCE)
    (tmp_path / "scale.py").write_text(spec.host_text)
    (tmp_path / "scale.yaml").write_text(
        "name: scale\n"
        "kernel: {function: scale, source: {opencl: scale.cl}, host: scale.py}\n"
        "parameters:\n"
        "  BLOCK: {values: [64, 16, 256], default: 64}\n"
        "  PER: {values: [1, 2, 3, 4], default: 1}\n"
        'launch: {group: [BLOCK], grid: ["ceil_div(n, BLOCK * PER)"]}\n'
        "inputs: {features: [n], values: [{n: 1000}, {n: 2000}]}\n"
    )
    loaded = load_space(tmp_path / "scale.yaml")
    assert spec.space_sha256 == loaded.space_sha256, "they share their measurements"
    assert spec.inputs == loaded.inputs


@pytest.mark.parametrize("name", ["mvmul", "blur_gcc"])
def test_data_of_a_file_as_arguments_is_its_space(name):
    path = ROOT / "spaces" / f"{name}.yaml"
    loaded, made = load_space(path), make_space(folder=path.parent, **read_document(path).data)
    assert (made.space_sha256, made.inputs) == (loaded.space_sha256, loaded.inputs)


@pytest.mark.parametrize(
    "inputs",
    [
        {"n": range(1, 3), "m": 7},
        {"n": np.array([1, 2]), "m": (7,)},
        ({"n": n, "m": 7} for n in (1, 2)),
        {"features": ["n", "m"], "values": [{"n": 1, "m": 7}, {"n": 2, "m": 7}]},
    ],
    ids=["product", "array", "generator", "as in a file"],
)
def test_inputs_are_products_or_any_iterable(inputs):
    assert scale(inputs=inputs).inputs == (Input({"n": 1, "m": 7}), Input({"n": 2, "m": 7}))


def build_that_raises(config, features):
    step = config["STEP"]
    raise ValueError(f"no {step}")


def build_for_two(config, features):
    return lambda x, y: config["STEP"]


def test_faults_of_copied_functions_name_their_key_and_the_text_of_the_line(kernels_here):
    members = {"arguments": arguments, "reference": reference}
    with pytest.raises(SpecError) as raised:
        callable_of(members)
    assert raised.value.faults[0].text == (
        'kernel.python: kernel["python"] must define the function `build`, but defines FACTOR, '
        "FRAMEWORK, arguments, float32, numbers, reference"
    )
    raising = measured_once(callable_of({**members, "build": build_that_raises}))
    assert raising.message == (
        'kernel["python"]: build() raised ValueError: no 100, at `raise ValueError(f"no {step}")`'
    )
    refused = measured_once(callable_of({**members, "build": build_for_two}))
    assert refused.message.endswith("argument: 'y'; it is called with one dict of all arguments")


def test_fault_names_the_keys_where_there_is_no_line():
    assert faults(launch={"group": ["BLOC"], "grid": [1]})[0].startswith("launch.group.0: `BLOC`")
    assert faults(inputs={"n": [3, 3]}) == [
        "inputs.values.1: the input (n=3) is there already, as inputs.values.0; give each input "
        "once"
    ]
    assert faults(mesure={}) == ["`mesure` is not a key here; did you mean `measure`?"]
    assert faults(measure={"repeat": 3}) == [
        "measure: `repeat` is not a key here; did you mean `repeats`?"
    ]


def test_data_that_no_file_could_hold_is_a_fault():
    (fault,) = faults(measure=object())
    assert fault.startswith('measure: must be a mapping of keys to values, but got "<object object')
    assert faults(parameters={1: [1, 2]}) == ["parameters.1: must be a text, but got 1"]
    (fault,) = faults(inputs={"n": [object]})
    assert fault.startswith("inputs.values.0.n: must be a number or a text, but got ")


def test_same_functions_give_the_same_file_and_the_kernel_its_text():
    one, other = scale(), scale(inputs={"n": 5})
    assert one.host == other.host
    assert list(one.sources) == ["opencl"]
    assert one.sources["opencl"].text == SOURCE


def test_functions_are_copied_with_what_they_use():
    spec = scale()
    host = HostModule(spec.host)
    problem = Input({"n": 4})
    found = host.arguments(problem, np.random.default_rng(0))
    assert host.reference(problem, found)["y"].tolist() == [0, 3, 6, 9]


def with_locals(arguments: Mapping[str, Any], scale: float = FACTOR) -> dict[str, Any]:
    TABLE = arguments["x"]  # noqa: N806 (a global of this name cannot be copied)
    return {"y": scale * sum(TABLE)}


@functools.lru_cache(maxsize=2)
def compiled_for(step):
    return step * 2


def build_with_decorated(config, features):
    return lambda arguments: compiled_for(config["STEP"])


def test_decorated_functions_are_copied_with_their_decorators(tmp_path):
    text = host_text({"build": build_with_decorated}, "kernel.python")
    assert "import functools as functools\n" in text
    assert "@functools.lru_cache(maxsize=2)\ndef compiled_for(" in text
    (tmp_path / "copy.py").write_text(text)
    copied = load_module(tmp_path / "copy.py", "copied")
    assert copied is not None
    assert copied.build({"STEP": 3}, {})({}) == 6
    doubled = functools.wraps(reference)(functools.partial(reference))
    with pytest.raises(UsageError, match=r"kernel\.python: `reference` was made of reference\(\)"):
        host_text({"reference": doubled}, "kernel.python")


def test_messages_of_a_callable_name_its_key():
    with pytest.raises(UsageError, match=r"kernel\.python: `builds` is no name here; did you mean"):
        scale(kernel={"python": {"builds": build}})
    with pytest.raises(UsageError, match=r"kernel\.python: lists functions such as"):
        scale(kernel={"python": [build, 3]})


def test_variables_of_a_function_are_no_notebooks(monkeypatch):
    monkeypatch.setitem(with_locals.__globals__, "sum", max)
    text = host_text({"reference": with_locals})
    assert f"FACTOR = {FACTOR}\n" in text
    assert "from builtins import max as sum\n" in text, "a notebook's `sum` hides Python's"


def test_mapping_gives_functions_other_names_and_constants():
    text = host_text({"arguments": arguments, "reference": reference, "expected": reference})
    assert text.count("def reference") == 1
    assert "expected = reference" in text
    assert "SCRATCH = ('t',)" in host_text({"arguments": arguments, "SCRATCH": ("t",)})


def test_a_misspelled_name_of_the_host_mapping_is_an_error():
    host = {"arguments": arguments, "reference": reference, "INOUTS": ("y",)}
    with pytest.raises(UsageError, match="`INOUTS` is no name here; did you mean `INOUT`"):
        scale(kernel={"function": "scale", "source": SOURCE, "host": host})


def test_what_cannot_be_copied_is_named():
    def inner():
        print(made)

    made = 3
    with pytest.raises(UsageError, match=r"with_a_table\(\) uses `TABLE`, an object .* ndarray"):
        host_text({"reference": with_a_table})
    with pytest.raises(UsageError, match="not a plain function"):
        host_text({"reference": lambda arguments: arguments})
    with pytest.raises(UsageError, match=r"inner\(\) uses made of the function around it"):
        host_text({"reference": inner})
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("def typed(): pass", names)
    with pytest.raises(UsageError, match="source of `typed` is not known"):
        host_text({"reference": names["typed"]})


def test_script_without_a_guard_is_not_run_again_by_measuring_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os\n"
        "from harness.measure.process.child import Child\n"
        "from tests.helpers.child_worker import process_of\n"
        "child = Child(object)\n"
        "print(child.call(process_of, timeout_s=60) != os.getpid())\n"
        "child.close()\n"
    )
    here = tmp_path / "here"  # with a module of a name that Python has
    here.mkdir()
    (here / "socket.py").write_text("raise SystemExit\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, str(script)]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=here, timeout=120, env=environment
    )
    assert done.stdout == "True\n", done.stderr


def callable_of(members):
    return make_space(
        name="scaled",
        kernel={"python": {**members, "FRAMEWORK": "numpy"}},
        parameters={"STEP": [100, 1000]},
        inputs={"n": [1000, 2000]},
    )


def measured_once(spec):
    measurer, _ = open_measurer(spec, "auto")
    with contextlib.closing(measurer):
        space = ConstrainedSpace.of(spec, spec.inputs[0], measurer.limits, measurer.compiler)
        return measurer.measure(space, spec.inputs[0], space.default, None)


def test_callable_of_functions_is_measured(kernels_here):
    spec = callable_of({"arguments": arguments, "reference": reference, "build": build})
    assert (spec.framework, spec.functions) == ("numpy", ("build",))
    found = measured_once(spec)
    assert found.outcome is Outcome.OK, found.message
