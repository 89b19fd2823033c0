"""python -m harness.tune: tune a kernel over its inputs."""

if __name__ == "__main__":
    import sys

    from harness.commands.tune import main

    sys.exit(main())
