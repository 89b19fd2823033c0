"""python -m harness.compare, as `harness compare`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("compare"))
