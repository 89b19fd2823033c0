"""What processes of tests import: nothing that takes long to load, since many of them die."""

import os


class Worker(list[object]):
    """A worker that is a list, and runs any function."""

    def run(self, function, *args):
        """Call a function."""
        return function(*args)

    @property
    def must_be_replaced(self):
        """Say whether it may not be used again."""
        return "spoilt" in self


def process_of(_):
    """Return the id of the process that runs this."""
    return os.getpid()


def end_once(journal, end, argument):
    """End this process, but only at the first call."""
    with journal.open("a") as file:
        file.write("called\n")
    if len(journal.read_text().splitlines()) == 1:
        end(argument)
    return os.getpid()


class Unreadable(Exception):
    """An exception that does not survive being sent."""

    def __init__(self, one, two):
        super().__init__(one + two)


def raise_unreadable():
    """Raise it."""
    raise Unreadable(1, 2)


def refuse():
    """Make no worker."""
    raise ValueError("no worker")
