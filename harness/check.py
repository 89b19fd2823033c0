"""python -m harness.check, as `harness check`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("check"))
