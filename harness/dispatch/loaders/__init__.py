"""Modules that launch a dispatched kernel or program: copied next to the code that chooses.

Harness may be absent where they run. So what they import of it needs nothing but Python, and is
copied too, as a module beside them.
"""
