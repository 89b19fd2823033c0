"""python -m harness.report DATABASE -o FILE: one self-contained HTML page of what was measured."""
