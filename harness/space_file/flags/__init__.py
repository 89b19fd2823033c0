"""Catalogues of compiler flags: spaces name a selection, and what the compiler knows is tuned.

`catalogue` reads them, `resolve` turns a selection into the flags of a space, `asking` asks a
compiler what it knows, and `conflicts` reads its warnings. Nothing is imported here, since
`conflicts` is for processes that compile, and needs none of the rest.
"""
