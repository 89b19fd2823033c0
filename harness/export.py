"""python -m harness.export, as `harness export`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("export"))
