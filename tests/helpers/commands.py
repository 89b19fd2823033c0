"""The commands as functions of the words of a command line, which return their exit codes."""

from functools import partial

from harness.commands.run import run

analyse = partial(run, "analyse")
check = partial(run, "check")
compare = partial(run, "compare")
devices = partial(run, "devices")
discover = partial(run, "discover")
dispatch = partial(run, "dispatch")
export = partial(run, "export")
merge = partial(run, "merge")
recheck = partial(run, "recheck")
replay = partial(run, "replay")
report = partial(run, "report")
schema = partial(run, "schema")
stencil = partial(run, "stencil")
tune = partial(run, "tune")
