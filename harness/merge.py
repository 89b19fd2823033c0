"""python -m harness.merge: merge the results databases of several machines."""

if __name__ == "__main__":
    import sys

    from harness.commands.merge import main

    sys.exit(main())
