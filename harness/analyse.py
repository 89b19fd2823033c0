"""python -m harness.analyse, as `harness analyse`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("analyse"))
