"""python -m harness.worker ADDRESS: measure on this machine for tuning runs elsewhere."""

if __name__ == "__main__":
    import sys

    from harness.commands.worker import main

    sys.exit(main())
