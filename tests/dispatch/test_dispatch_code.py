"""Code that is written for a dispatcher chooses as the dispatcher does, in Python, C and C++."""

import math
import random
import re
import subprocess
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from harness.core.errors import ExpressionError, UsageError
from harness.core.records import Config, Environment
from harness.dispatch.c_code import c_header
from harness.dispatch.choice import Choice, DispatchProgram, Leaf, Split
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.features import Feature, Type, features_of, member, variable
from harness.dispatch.guards import Translator, check_exact
from harness.dispatch.package import files_of
from harness.models.columns import Column, ColumnKind, TunedRange
from harness.space_file import LaunchPlan
from tests.helpers.dispatch_examples import (
    GUARDS,
    PROVENANCE,
    SHAPES,
    STRICT,
    dispatcher_of,
    drawn_input,
    drawn_program,
    imported,
    mvmul_features,
    mvmul_program,
    python_of,
    write_all,
)

NASTY = 'a */ b /* c """ d \\ e ??/ f\n#error g \u202e \u00e9 {{ h }} % " \'\\'


# --------------------------------------------------------------------------- texts from elsewhere


def test_texts_from_elsewhere_stay_in_their_comments_and_literals(tmp_path):
    program = DispatchProgram(
        columns=(Column(ColumnKind.EQUALS, ("t",), NASTY),),
        tuned=(TunedRange("t", words=(NASTY, "x")),),
        portfolio=(Config({"MODE": NASTY, "FLAG": None}), Config({"MODE": "?", "FLAG": 64})),
        choice=Choice.of_trees([Split(0, 0.5, Leaf((0.0, 1.0)), Leaf((1.0, 0.0)))], False),
        guards=((), ()),
    )
    printed = Environment("opencl", NASTY, NASTY, NASTY, NASTY)
    provenance = type(PROVENANCE)(printed, NASTY, (NASTY,), 1, NASTY, NASTY, (NASTY, "??/"))
    feature = Feature("t", Type.WORD, (NASTY, "x"))
    dispatcher = Dispatcher("p", NASTY, ("f",), (feature,), program, provenance)
    module = python_of(dispatcher)
    assert module.PROVENANCE["device"] == NASTY
    assert module.select(NASTY) == {"MODE": "?", "FLAG": 64}
    assert module.select("y") == {"MODE": NASTY, "FLAG": None}
    (tmp_path / "p.h").write_text(c_header(dispatcher))
    (tmp_path / "p.c").write_text(
        '#include "p.h"\n#include <stdio.h>\n'
        'int main(void) { printf("%d %d %s", p_select((enum p_t)0), p_portfolio[0].FLAG == NULL,'
        " P_DEVICE); return 0; }\n"
    )
    for standard in ("c99", "gnu99"):  # with trigraphs and without
        command = ["cc", f"-std={standard}", *STRICT, "p.c", "-o", "p"]
        subprocess.run(command, cwd=tmp_path, check=True)
        said = subprocess.run([tmp_path / "p"], capture_output=True, check=True).stdout
        assert said.decode() == f"1 1 {NASTY}"


# ------------------------------------------------------------------------------------------ guards


def scope():
    program = mvmul_program()
    features = mvmul_features(program)
    named = {feature.name: feature for feature in features}
    constants = {"A": 4, "HALF": 0.5, "MODE": "fast"}
    return Translator(constants, named, "p")


def test_guard_that_cannot_be_exact_is_refused_with_its_reason():
    for guard, reason in (
        ("log2(m) < A", "log2"),
        ("m ** HALF < n", "only powers"),
        ("m * HALF // 1 < n", "ceil_div"),
        ("m < 9007199254740993", "9007199254740993"),
        ("MODE < m", "order"),
        ("MODE * m < n", "calculated"),
        ("k < m", "names k"),
    ):
        with pytest.raises(ExpressionError, match=reason):
            scope().condition(guard)


def of_mvmul(program=None, plan=None):
    """A dispatcher of two features."""
    program = program or mvmul_program()
    return Dispatcher("p", "", ("f",), mvmul_features(program), program, PROVENANCE, plan)


def test_guards_are_computed_outside_of_the_tuned_range_as_well(tmp_path):
    """Also where 64 bits would overflow."""
    guards = (("m * n < 10 ** 12",), ("m * n * m * n > 0 and m > 2 ** 52",), ("m < 0 < m",))
    dispatcher = of_mvmul(mvmul_program(guards=guards))
    (tmp_path / "p.h").write_text(c_header(dispatcher))
    shapes = ((-(2**63), 2, 0), (2**20, 2**20, -1), (2**62, 2**62, 1))
    calls = " && ".join(f"p_select({m + 1} - 1, {n}) == {wanted}" for m, n, wanted in shapes)
    (tmp_path / "main.c").write_text(f'#include "p.h"\nint main(void) {{ return !({calls}); }}\n')
    options = ["-std=c99", *STRICT, "-fsanitize=undefined", "-fno-sanitize-recover", "-O1"]
    subprocess.run(["cc", *options, "main.c", "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)
    module = python_of(dispatcher)
    for m, n, wanted in shapes[::2]:
        assert module.select_index(m, n) == wanted


def test_integers_that_c_cannot_hold_are_refused_for_the_tuned_inputs():
    features = pd.DataFrame({"m": [16, 2**30], "n": [3, 2**25], "t": ["half", "float"]})
    guards = ["m * n > A", 't == "half" or m > 1']
    check_exact(guards, {"A": 4}, features[:1])
    with pytest.raises(ExpressionError, match=r"`m \* n > A`"):
        check_exact(guards, {"A": 4}, features)


# --------------------------------------------------------------------------------------- the rest


def test_names_that_a_language_reserves_are_changed():
    names = ("class", "double")
    program = DispatchProgram(
        columns=(Column(ColumnKind.RAW, ("class",)),),
        tuned=(),
        portfolio=(Config({"class": 1}), Config({"class": 2})),
        choice=Choice.of_trees([Split(0, 4.0, Leaf((1.0, 0.0)), Leaf((0.0, 1.0)))], False),
        guards=(("double < 9",), ()),
    )
    features = features_of(program, names, ({"class": 1, "double": 2},))
    dispatcher = Dispatcher("p", "", ("f",), features, program, PROVENANCE)
    assert python_of(dispatcher).select(class_=3, double=4) == {"class": 2}
    header = c_header(dispatcher)
    assert "int class_;" in header
    assert "int64_t class_, int64_t double_" in header


def own_names(dispatcher):
    """What functions of the header that take features use beside them."""
    header = re.sub(r'/\*.*?\*/|"(\\.|[^"])*"|^#.*?$', "", c_header(dispatcher), flags=re.S | re.M)
    header = re.sub(r"HARNESS_ON_SELECT\(p, .*", "", header)  # a macro takes any names
    functions = re.findall(r"\([^()]*int64_t m,.*?^}", header, flags=re.S | re.M)
    text = re.sub(r"\.[a-z]\w*|\b0x\w+", "", " ".join(functions))
    found = {name for name in re.findall(r"\b[a-zA-Z]\w*", text) if name[:2].lower() != "p_"}
    return found - {feature.name for feature in dispatcher.features}


def test_no_feature_has_a_name_that_written_code_uses():
    rng = random.Random(1)
    inputs = [drawn_input(rng) for _ in range(20)]
    plan = LaunchPlan(group=["A"], grid=["ceil_div(m * n, A)"])
    found = set()
    for shape in SHAPES:
        program = drawn_program(rng, inputs, *shape)
        for guards in (GUARDS, ()):
            every = (guards,) * len(program.portfolio)
            guarded = replace(program, guards=every)
            found |= own_names(dispatcher_of(guarded, "p", launch=plan))
    assert {"i", "numbers", "sqrt"} < found
    assert sorted(name for name in found if variable(name) == name) == []
    assert len({variable(name) for name in ("int", "int_", "int__")}) == 3
    assert (variable("width"), member("count"), member("class")) == ("width", "count", "class_")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "().__class__",
        "m.real",
        "[n for n in [1]]",
        "min(m, key=abs)",
        "f0(m)",
        "min(*m)",
        "os",
    ],
)
def test_module_refuses_what_is_no_expression_of_the_language(tmp_path, text):
    files = files_of(of_mvmul(mvmul_program(guards=(("m < 9",), (), ()))))
    files["p/p.json"] = files["p/p.json"].replace(b"m < 9", text.encode())
    with pytest.raises(ValueError, match=r"p\.json, configuration 0"):
        imported(write_all(tmp_path, files), "p")


@pytest.mark.parametrize("old, new", [(b'"format": 2', b'"format": 99'), (b"}", b"")])
def test_module_names_a_file_that_it_cannot_read(tmp_path, old, new):
    files = files_of(of_mvmul())
    files["p/p.json"] = files["p/p.json"].replace(old, new)
    with pytest.raises(ImportError, match=r"p\.json "):
        imported(write_all(tmp_path, files), "p")


def test_module_refuses_other_features():
    module = python_of(of_mvmul())
    for arguments, features in (
        ((16,), {}),
        ((), {"m": 16}),
        ((16, 16), {"k": 1}),
        ((16,), {"m": 1}),
    ):
        with pytest.raises(TypeError, match="are m, n"):
            module.select_index(*arguments, **features)
    assert module.select_index(16, n=16) == module.select_index(n=16, m=16)
    assert [module.is_tuned(m, 16) for m in (16, 8)] == [True, False]
    for m in ("16", None, 16.5, math.nan, [16]):
        for function in (module.select_index, module.is_tuned, module.leaf_index):
            with pytest.raises(TypeError, match="the feature m of p"):
                function(m=m, n=16)


def test_numbers_of_numpy_are_computed_with_exactly():
    plan = LaunchPlan(group=["64"], grid=["ceil_div(m * n, 64)"])
    module = python_of(of_mvmul(mvmul_program(guards=(("m * n < 10 ** 9",), (), ())), plan))
    assert not module.applies(0, np.int32(65536), np.int32(65536))
    assert module.launch_size(0, np.int32(40000), np.int32(60000)) == ((64,), (37500000,))


@pytest.mark.parametrize(
    "shared, carveout, numbers",
    [
        ("16 * n - 256", "n - 17", [(256, 15), (0, -1), (None, None)]),
        ("n / 16", "3 * n + 5", [(2, None), (1, 53), (None, 29)]),
    ],
)
def test_bytes_and_percentages_of_a_launch_are_computed_in_all_code(
    tmp_path, shared, carveout, numbers
):
    """What is none of them is an error in Python, and -1 in C."""
    plan = LaunchPlan(group=["64"], grid=["1"], shared=shared, carveout=carveout)
    dispatcher = of_mvmul(plan=plan)
    module = python_of(dispatcher)
    checks = []
    for n, both in zip((32, 16, 8), numbers, strict=True):
        for function, number in zip(("shared_bytes", "carveout"), both, strict=True):
            computed = getattr(module, function)
            if number is None:
                with pytest.raises(ValueError, match=function.partition("_")[0]):
                    computed(0, m=16, n=n)
                number = -1
            else:
                assert computed(0, m=16, n=n) == number
            checks.append(f"p_{function}(0, 16, {n}) == {number}")
    (tmp_path / "p.h").write_text(c_header(dispatcher))
    main = f'#include "p.h"\nint main(void) {{ return !({" && ".join(checks)}); }}'
    (tmp_path / "p.c").write_text(main)
    subprocess.run(["cc", "-std=c99", "-o", "p", "p.c", "-lm"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "p"], check=True)


def test_feature_of_numbers_and_words_is_refused():
    with pytest.raises(UsageError, match="m is a number"):
        features_of(mvmul_program(), ("m",), ({"m": 1}, {"m": "one"}))


def test_a_device_of_the_tuned_ones_vendor_is_served_by_the_choice():
    where = replace(PROVENANCE.environment, platform="AMD Accelerated")
    provenance = replace(PROVENANCE, environment=where)
    module = python_of(dispatcher_of(mvmul_program(), "p", provenance=provenance))
    assert module.serves("gfx1100", "AMD Accelerated Parallel Processing")
    assert not module.serves("a GPU", "NVIDIA CUDA")
