"""python -m harness.discover: write a space from the source of a kernel."""

if __name__ == "__main__":
    import sys

    from harness.commands.discover import main

    sys.exit(main())
