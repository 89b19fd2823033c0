"""python -m harness.dispatch: write code that chooses a configuration by input."""

if __name__ == "__main__":
    import sys

    from harness.commands.dispatch import main

    sys.exit(main())
