"""python -m harness.worker, as `harness worker`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("worker"))
