"""python -m harness.check: validate spaces, count their configurations, compile their defaults."""

if __name__ == "__main__":
    import sys

    from harness.commands.check import main

    sys.exit(main())
