"""python -m harness.stencil: write the tuning space of a stencil."""

if __name__ == "__main__":
    import sys

    from harness.commands.stencil import main

    sys.exit(main())
