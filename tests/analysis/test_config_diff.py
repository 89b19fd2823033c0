"""What of a configuration differs from the default."""

from __future__ import annotations

import pytest

from harness.core.config_diff import default_text, difference, differing
from harness.core.records import Config, Value

DEFAULT = Config({"TILE": 0, "level": None, "ivopts": None, "fast_math": False})


@pytest.mark.parametrize(
    ("settings", "printed"),
    [
        ({}, "default"),
        ({"level": 3}, "level=3"),
        ({"level": "3", "ivopts": "no-ivopts"}, "level=3, no-ivopts"),
        ({"ivopts": "ivopts", "fast_math": True}, "ivopts, fast_math=true"),
        ({"ivopts": "ivopts-2"}, "ivopts=ivopts-2"),
        ({"OWN": None}, "OWN=absent"),  # one without a default
    ],
)
def test_only_what_differs_is_told(settings: dict[str, Value], printed: str) -> None:
    assert difference(Config({**DEFAULT, **settings}), DEFAULT) == printed


@pytest.mark.parametrize("value", [False, 0.0, -0.0, "0"])
def test_values_of_another_type_differ(value: Value) -> None:
    assert dict(differing(Config({"TILE": value}), DEFAULT)) == {"TILE": value}
    assert not differing(Config({"TILE": 0}), DEFAULT)


def test_of_a_default_with_many_absent_flags_their_number_is_told() -> None:
    assert default_text(DEFAULT) == "TILE=0, level=absent, ivopts=absent, fast_math=false"
    flags: dict[str, Value] = dict.fromkeys("abcd")
    printed = default_text(Config({**flags, "N": 0, "O": 0, "P": 0, "Q": 0, "fast": False}))
    assert printed == "N=0, O=0, P=0, Q=0, fast=false, 4 parameters absent"
