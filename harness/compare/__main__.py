"""python -m harness.compare, as `harness compare`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("compare"))
