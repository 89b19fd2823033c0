"""python -m harness.worker, as `harness worker`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("worker"))
