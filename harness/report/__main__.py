"""python -m harness.report: write an HTML page of measured results."""

if __name__ == "__main__":
    import sys

    from harness.commands.report import main

    sys.exit(main())
