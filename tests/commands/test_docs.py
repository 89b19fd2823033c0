"""The README, the tutorial and the how-to pages run, each in its own folder.

- A block whose first line is a comment with a file's name becomes that file.
- The commands of a `console` block run in bash, and print the output that the block shows; numbers
  may differ. The commands of an `sh` block need what a test has not, and are only parsed
  (tests/commands/test_readme.py).
- A `python` block without a file's name runs as a script.
- `<!-- needs: cuda gcc -->` at the top of a page says what it cannot run without, and
  `<!-- after: own_cuda_kernel.md -->` that it goes on in the folder of another page.

Each folder begins with the README's three files and the results of tuning them. The inputs are
smaller than a page says: PoCL takes long for them without its optimiser.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from filelock import FileLock

from tests.helpers import pages
from tests.helpers.forked_commands import forked_commands
from tests.helpers.pages import ROOT, blocks

AFTER = re.compile(r"<!-- after: (.*) -->")
FOLDERS = [ROOT / "docs" / name for name in ("tutorial", "howto")]
PAGES = [page for folder in FOLDERS for page in sorted(folder.glob("*.md"))]
CONTINUED = {page.with_name(name) for page in PAGES for name in AFTER.findall(page.read_text())}
RUN = [str(page.relative_to(ROOT)) for page in PAGES if page not in CONTINUED]

# Short searches: a page's own limits are for its reader.
SHELL = f"""
set -euo pipefail
export PATH={Path(sys.executable).parent}:$PATH
harness() {{
    case "$*" in
        replay*) HARNESS "$@" --test-limit 6 ;;
        tune*blur_gcc*) HARNESS "$@" --inputs "n == 64" --repeats 3 ;;
        tune*) HARNESS "$@" --test-limit 6 --repeats 3 ;;
        *) HARNESS "$@" ;;
    esac
}}
"""


def read_page(path):
    """Return a page with small inputs."""
    text = re.sub(r"\b65536\b", "2048", pages.read_page(path))
    text = re.sub(r"\b4096\b", "512", text)
    return text.replace("--size 256 --count 100\n", "--size 256 --count 12\n")


def run(words, folder):
    """Run a program and return all that it prints; end all that it leaves behind."""
    log = folder / "printed.txt"
    with log.open("w") as out:
        process = subprocess.Popen(
            words, cwd=folder, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(600)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    printed = log.read_text()
    assert code == 0, f"{words[-1]}\n{printed}"
    return printed


def plain(text):
    """Return a text without numbers, units of time and the widths of columns."""
    return re.sub(r"[\d.,]*\d( [num]?s\b)?", "#", " ".join(text.split()))


def try_block(block, folder, shell):
    """Write the file that a block is, or run it."""
    if block.file is not None:
        (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
        (folder / block.file).write_text(block.text)
    elif block.language == "console":
        printed = plain(run(["bash", "-c", shell + block.commands], folder))
        for line in block.output:
            assert plain(line) in printed, f"{line}\n{printed}"
    elif block.language == "yaml":
        yaml.safe_load(block.text)
    elif block.language == "python":
        (folder / "block.py").write_text(block.text)
        run([sys.executable, "block.py"], folder)


def shell_of(words):
    """Return the shell's head, with these words for `harness`."""
    return SHELL.replace("HARNESS", words)


@pytest.fixture
def cuda_shell(nvidia, tmp_path):
    """The shell's head, with commands that find NVIDIA's driver when their process starts; fewer
    tests, since nvcc takes long."""
    with forked_commands(tmp_path / "socket") as words:
        yield shell_of(words).replace("--test-limit 6", "--test-limit 3")


@pytest.fixture(scope="session")
def example(tmp_path_factory, forked_harness):
    """A folder with the README's own kernel, checked and tuned, which pytest's workers share."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "example"
    with FileLock(shared / "example.lock"):
        if folder.exists():
            return folder
        made = tmp_path_factory.mktemp("example")
        for name in ("spaces", "kernels", "examples"):
            (made / name).symlink_to(ROOT / name)
        for block in blocks(read_page("README.md")):
            if block.file is not None or block.language == "console":
                try_block(block, made, shell_of(forked_harness))
        made.rename(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", *RUN])
def test_the_files_commands_and_code_of_a_page_work(
    opencl_of_commands, page, example, forked_harness, tmp_path, request, monkeypatch
):
    text = read_page(page)
    if "needs: cuda" not in text:  # another page's stand-in for a GPU
        monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    if earlier := AFTER.search(text):
        text = read_page(str(Path(page).with_name(earlier[1]))) + text
    shell = shell_of(forked_harness)
    needs = re.search(r"<!-- needs: (.*) -->", text)
    for need in needs[1].split() if needs else ():
        if need == "cuda":
            shell = request.getfixturevalue("cuda_shell")
        elif shutil.which(need) is None and importlib.util.find_spec(need) is None:
            pytest.skip(f"there is no program and no package `{need}`")
    folder = tmp_path / "page"
    shutil.copytree(example, folder, symlinks=True)
    for block in blocks(text):
        if page != "README.md" or block.language != "console":  # they ran for `example`
            try_block(block, folder, shell)
