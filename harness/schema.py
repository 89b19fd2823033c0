"""python -m harness.schema, as `harness schema`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("schema"))
