"""The nightly workflow runs: two machines write to one server, and a file keeps the week."""

import os
import re
import subprocess

import pytest
import yaml

from tests.helpers.pages import blocks, read_page
from tests.helpers.postgres_server import execute
from tests.helpers.results_examples import ROOT

pytestmark = pytest.mark.postgres

_PAGE = read_page("docs/howto/share_a_server.md")

_SPACE = """
name: {name}
program:
  sources: [{name}.sh]
  build: [cp, "{{source}}", "{{output}}"]
  run: [sh, "{{output}}", "{{n}}", "{{WAIT}}"]
  time: {{pattern: 'took ([0-9.]+) ms', unit: ms}}
parameters:
  WAIT: {{values: [1, 2, 3], default: 2}}
inputs:
  features: [n]
  values: [{{n: 1}}]
measure: {{warmup: 1, repeats: 4}}
"""
# It lasts as long as it says: a claim that the process does not confirm is withdrawn.
_SOURCE = 'sleep 0.0$2\necho "{name} took ${{2}}0.$((100 + $$ % 7)) ms"\n'


def _step(job, name, harness):
    """The commands of a step of the workflow, with these words for `harness`."""
    workflow = yaml.safe_load((ROOT / "examples/ci/nightly.yml").read_text(encoding="utf-8"))
    (found,) = (s["run"] for s in workflow["jobs"][job]["steps"] if s.get("name") == name)
    return str(found).replace(".venv/bin/harness", harness)


class Night:
    """Runs the steps of the workflow on this machine, against a server of the tests."""

    def __init__(self, folder, server, harness):
        ((_, setup),) = blocks(_PAGE, "sql")
        where = "postgres"
        for statement in setup.strip().splitlines():
            if statement.startswith("\\connect "):
                where = statement.split()[1]
            else:
                execute(server.url(where), statement)
        self._folder = folder
        self._harness = harness
        self._urls = {
            name.upper(): server.url("harness", f"harness_{name}") for name in ("writer", "reader")
        }
        for name in ("one", "two"):
            (folder / f"{name}.yaml").write_text(_SPACE.format(name=name))
            (folder / f"{name}.sh").write_text(_SOURCE.format(name=name))

    def start(self, job, step, spaces):
        options = {"SPACES": spaces, "OPTIONS": "--test-limit 3 --no-reduce"}
        return subprocess.Popen(
            ["bash", "-euc", _step(job, step, self._harness)],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **self._urls, **options},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, job, step, spaces="one.yaml two.yaml"):
        return ended(self.start(job, step, spaces))

    def tune(self):
        """Tune on two machines at once."""
        nodes = [self.start("tune", "tune", f"{name}.yaml") for name in ("one", "two")]
        for code, printed in map(ended, nodes):
            assert code == 0, printed

    def age_a_week(self):
        """Make the file of this week one of last week."""
        (found,) = (self._folder / "results" / "weeks").iterdir()
        words = ["date", "--date", "7 days ago", "+%G-W%V"]
        week = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        found.rename(found.with_name(f"{week}.db"))


def ended(process):
    printed, _ = process.communicate(timeout=600)
    return process.returncode, printed


@pytest.mark.slow
def test_the_nightly_compares_with_last_week(tmp_path, postgres_server, forked_harness):
    night = Night(tmp_path, postgres_server, forked_harness)
    night.tune()
    assert night.run("compare", "compare with last week") == (0, "no results of last week\n")
    code, printed = night.run("compare", "keep this week")
    assert code == 0, printed
    assert "added 2 runs" in printed
    night.age_a_week()
    night.tune()
    code, printed = night.run("compare", "compare with last week")
    assert code == 0, printed
    row = r"^ n=1 +(?:best|default) .*(?:within noise|faster)(?:;|$)"
    tested = re.findall(row, printed, re.MULTILINE)
    assert len(tested) >= 2, printed
