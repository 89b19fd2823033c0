"""python -m harness.merge, as `harness merge`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("merge"))
