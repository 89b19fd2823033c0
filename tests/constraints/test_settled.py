"""Constraints of a catalogue: told as they are written, though some of their flags are left out."""

from __future__ import annotations

from pathlib import Path

from harness.space_file import load_spec

SPACE = Path(__file__).parents[2] / "spaces" / "matmul_flags.yaml"


def test_a_constraint_names_flags_that_the_space_leaves_out_with_their_values() -> None:
    constraints = [constraint.expression for constraint in load_spec(SPACE).constraints]
    (found,) = (c for c in constraints if c.text.startswith("not use_fast_math"))
    assert found.names == {"use_fast_math", "ftz"}
    assert "absent" in found.text
    assert "absent" not in found.written
    values = {"use_fast_math": True, "ftz": "true"}
    assert found.why_false(values) == (
        "`not use_fast_math or (ftz != 'true' and prec_div != 'false' and prec_sqrt != 'false')` "
        "is false with use_fast_math=true, ftz=true, prec_div=absent, prec_sqrt=absent"
    )
    assert found.why_false({**values, "ftz": None}) is None


def test_a_constraint_without_such_flags_is_as_it_stands() -> None:
    constraints = [constraint.expression for constraint in load_spec(SPACE).constraints]
    (found,) = (
        c for c in constraints if c.text == "register_usage_level == absent or opt_level != 0"
    )
    assert found.written == found.text
    assert found.describe_values({}) == ""
