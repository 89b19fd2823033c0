"""python -m harness.dispatch, as `harness dispatch`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("dispatch"))
