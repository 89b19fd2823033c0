"""python -m harness.analyse, as `harness analyse`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("analyse"))
