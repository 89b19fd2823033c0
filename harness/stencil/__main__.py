"""python -m harness.stencil, as `harness stencil`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("stencil"))
