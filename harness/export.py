"""python -m harness.export, as `harness export`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("export"))
