"""python -m harness.check, as `harness check`."""

import sys

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("check"))
else:
    # `harness.check` is a function for Python: `import harness.check` must not put a module there.
    from harness.commands.check import check

    sys.modules[__name__] = check  # type: ignore[assignment]
