"""python -m harness.merge, as `harness merge`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("merge"))
