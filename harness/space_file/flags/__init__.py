"""Catalogues of compiler flags: spaces name a selection, and what the compiler knows is tuned.

`catalogue` reads them, `resolve` turns a selection into the flags of a space. What a compiler knows
and warns about is asked in `harness.measure`.
"""
