"""The commands as functions of the words of a command line, such as paths, which return their exit
codes."""

from harness.commands import run as commands


def command(name):
    """Return the command of this name."""

    def run(words):
        return commands.run(name, list(map(str, words)))

    return run


analyse = command("analyse")
check = command("check")
compare = command("compare")
devices = command("devices")
discover = command("discover")
dispatch = command("dispatch")
export = command("export")
merge = command("merge")
recheck = command("recheck")
replay = command("replay")
report = command("report")
schema = command("schema")
stencil = command("stencil")
tune = command("tune")
