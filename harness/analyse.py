"""python -m harness.analyse: print what a results database holds."""

if __name__ == "__main__":
    import sys

    from harness.commands.analyse import main

    sys.exit(main())
