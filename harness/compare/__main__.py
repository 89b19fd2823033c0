"""python -m harness.compare: compare the results of two runs."""

if __name__ == "__main__":
    import sys

    from harness.commands.compare import main

    sys.exit(main())
