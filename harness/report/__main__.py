"""python -m harness.report, as `harness report`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("report"))
