"""python -m harness.devices, as `harness devices`."""

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("devices"))
