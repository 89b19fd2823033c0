"""What is written of a command, a page and a text, so that it is alike wherever it is made."""

import re
from html.parser import HTMLParser

import harness
from harness.commands.run import make_parser
from tests import ROOT

BLOCKS = ("h1", "h2", "p", "tr", "code", "summary", "nav")
HIDDEN = ("style", "svg")
PROGRESS = re.compile(r"^judged on held-out inputs: .*\n", re.M)
LONG_NUMBER = re.compile(r"\d+\.\d{6,}(e-?\d+)?")
DIGEST = re.compile(r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,64}\b")
_DAY = r"20\d\d-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(\.\d+)?)?( UTC|\+00:00|Z)?"
DATE = re.compile(rf"\b{_DAY}( to {_DAY})?")


def help_of(command):
    """Return a command's options as its help has them, laid out alike by all versions of Python."""
    parser = make_parser(command)
    formatter = parser._get_formatter()
    lines = [f"$ harness {command} --help", parser.description or ""]
    for group in parser._action_groups:
        lines += ["", f"{group.title}:"] * bool(group._group_actions)
        for action in group._group_actions:
            taken = [formatter._format_args(action, action.dest.upper())] * (action.nargs != 0)
            name = " ".join([", ".join(action.option_strings), *taken]).strip()
            lines.append(f"  {name}: {formatter._expand_help(action) if action.help else ''}")
    return "\n".join([*lines, "", parser.epilog or ""]).rstrip() + "\n"


class _Page(HTMLParser):
    """The text of a page, a line for each block and each line of code; pictures by their names."""

    def __init__(self):
        super().__init__()
        self.lines = [""]
        self._hidden = 0

    def handle_starttag(self, tag, attrs):
        """Begin a line for a block; count what is no text."""
        self._hidden += tag in HIDDEN
        if tag == "figure":
            self.lines.append(f"[picture: {dict(attrs)['aria-label']}]")
        elif tag in BLOCKS:
            self.lines.append(f"{tag}: ")

    def handle_endtag(self, tag):
        """End a cell."""
        self._hidden -= tag in HIDDEN
        if tag in ("td", "th"):
            self.lines[-1] += " | "

    def handle_data(self, data):
        """Add text, which has lines of its own in code."""
        if not self._hidden and data.strip():
            first, *others = data.rstrip().split("\n")
            self.lines[-1] += first
            self.lines += others


def text_of_page(text):
    """Return the text of an HTML page."""
    page = _Page()
    page.feed(text)
    return "\n".join(line.rstrip() for line in page.lines if line.strip())


def masked(text, folder):
    """Return the text without what differs between machines, versions and days."""
    text = text.replace(str(folder), "FOLDER").replace(str(ROOT), "REPOSITORY")
    version = re.escape(harness.__version__)
    text = re.sub(rf"(harness|autotuner)(\W{{1,4}}|_?version\W+){version}", r"\1\2VERSION", text)
    text = PROGRESS.sub("", text)
    text = LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6g}", text)
    return DATE.sub("DATE", DIGEST.sub("HASH", text))
