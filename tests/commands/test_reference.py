"""What the reference and the troubleshooting of docs/ say is what the code does."""

import doctest
import functools
import re
import runpy

import pytest

from harness.space_file.compiler import NvccModel
from harness.space_file.model import (
    Inputs,
    KernelModel,
    KernelVerify,
    LaunchPlan,
    Search,
    SpaceFile,
)
from harness.space_file.program_model import (
    FeatureSource,
    Limits,
    ProgramModel,
    ProgramVerify,
    TimePattern,
)
from tests import ROOT

REFERENCE = ROOT / "docs" / "reference"


@functools.cache
def _texts():
    """The code of harness, with its texts joined where they go on in the next line."""
    modules = (ROOT / "harness").rglob("*.py")
    code = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    return re.sub(r'"\s*\n\s*f?"', "", code)


@functools.cache
def _generate():
    return runpy.run_path(str(ROOT / "docs/generate.py"))


@pytest.mark.parametrize("page", sorted(REFERENCE.glob("*.md")), ids=lambda page: str(page.stem))
def test_tables_are_those_of_the_models(page):
    text = page.read_text(encoding="utf-8")
    assert _generate()["fresh"](text) == text, "run python docs/generate.py"


@pytest.mark.parametrize(
    "page, models",
    [
        ("space.md", [SpaceFile, KernelModel, LaunchPlan, Inputs, KernelVerify, Search, NvccModel]),
        ("program.md", [ProgramModel, TimePattern, Limits, ProgramVerify, FeatureSource]),
    ],
)
def test_every_key_is_on_its_page(page, models):
    text = (REFERENCE / page).read_text(encoding="utf-8")
    keys = {key for model in models for key in model.model_fields}
    assert not [key for key in keys if not re.search(rf"[`{{ ]{key}[`:]", text)]


def test_each_message_of_the_troubleshooting_is_written_somewhere():
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    lists = re.findall(r"^- ((?:`[^`]+`(?:, )?)+): ", page, re.MULTILINE)
    messages = [message for part in lists for message in re.findall("`([^`]+)`", part)]
    assert len(messages) > 15
    for message in messages:
        for part in message.split("..."):
            assert part.strip() in _texts(), message


def test_all_variables_of_harness_are_on_the_page_and_no_others():
    pattern = r"HARNESS_[A-Z_]+[A-Z]\b"
    page = (REFERENCE / "environment.md").read_text(encoding="utf-8")
    obeyed = set(re.findall(pattern, _texts()))
    templates = (ROOT / "harness/dispatch/templates").glob("*.j2")
    for template in templates:
        obeyed.update(re.findall(pattern, template.read_text(encoding="utf-8")))
    assert set(re.findall(pattern, page)) == obeyed - {"HARNESS_ONCE"}


def test_examples_of_python_do_what_the_page_shows(monkeypatch):
    monkeypatch.chdir(ROOT)
    found = doctest.testfile(str(REFERENCE / "python.md"), module_relative=False)
    assert found.attempted
    assert not found.failed
