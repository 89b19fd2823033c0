"""python -m harness.stencil, as `harness stencil`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("stencil"))
