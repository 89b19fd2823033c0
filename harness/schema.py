"""python -m harness.schema, as `harness schema`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("schema"))
