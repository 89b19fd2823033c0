"""python -m harness.example, as `harness example`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("example"))
