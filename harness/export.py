"""python -m harness.export: write measurements as T4 results or as CSV."""

if __name__ == "__main__":
    import sys

    from harness.commands.export import main

    sys.exit(main())
