"""python -m harness.report, as `harness report`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("report"))
