"""python -m harness.devices, as `harness devices`."""

if __name__ == "__main__":
    import sys

    from harness.commands.run import run

    sys.exit(run("devices"))
