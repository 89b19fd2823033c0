"""python -m harness.discover, as `harness discover`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("discover"))
