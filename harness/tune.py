"""python -m harness.tune: tune a kernel over its inputs."""

import sys

if __name__ == "__main__":
    from harness.commands.run import run

    raise SystemExit(run("tune"))
else:
    # `harness.tune` is a function for Python: `import harness.tune` must not put a module there.
    from harness.api.tune import tune

    sys.modules[__name__] = tune  # type: ignore[assignment]
