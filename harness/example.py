"""python -m harness.example, as `harness example`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("example"))
