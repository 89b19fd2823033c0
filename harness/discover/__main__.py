"""python -m harness.discover, as `harness discover`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("discover"))
