"""A program whose build, run and check have files of their own."""

from harness.space_file import load_spec
from tests.helpers.planted import write_files

SPACE = """\
name: script
program:
  sources: [../source/script.sh]
  build: [../source/make.sh, "{source}", "{output}", "{MODE}"]
  run: ["{output}", "{n}"]
  files: ["data_{n}.txt"]
  time: {pattern: 'took (\\d+) us', unit: us}
parameters:
  MODE: {values: [right, wrong, fails, broken], default: right}
inputs: {features: [n], values: [{n: 3}, {n: 4}]}
verify: {against: {host: check.py}}
measure: {repeats: 3, min_repeats: 2, warmup: 1, precision: 0}
"""
MAKE = """\
#!/bin/sh
test $3 = broken && { echo "no such mode" >&2; exit 1; }
{ echo "#!/bin/sh"; echo "mode=$3"; cat "$1"; } > "$2"
"""
SCRIPT = """\
test $mode = fails && kill -SEGV $$
test $mode = wrong || cat data_$1.txt
echo "took 1000 us"
"""
CHECK = """\
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import sums_of_fleet as helper

def check(run):
    found, expected = run.stdout.split()[0], helper.expected(run.features["n"])
    return None if found == expected else f"it is {found}, not {expected}"
"""


def write_program(folder, space=SPACE):
    """Write the program's files; return its space."""
    files = {
        "spaces/space.yaml": space,
        "spaces/check.py": CHECK,
        "spaces/sums_of_fleet.py": "def expected(n):\n    return f'sum{n}'\n",
        "spaces/data_3.txt": "sum3\n",
        "spaces/data_4.txt": "sum4\n",
        "source/make.sh": MAKE,
        "source/script.sh": SCRIPT,
        "source/unused.sh": "",
    }
    write_files(folder, files)
    (folder / "source" / "make.sh").chmod(0o755)
    return load_spec(folder / "spaces" / "space.yaml")
