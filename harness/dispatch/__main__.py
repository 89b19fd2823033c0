"""python -m harness.dispatch, as `harness dispatch`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("dispatch"))
