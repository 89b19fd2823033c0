"""Text for people: counts with their noun, and text from files made safe to print."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def printable(text: str) -> str:
    """A text from a file as one short line that cannot command a terminal."""
    cut = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
    return _escaped(cut, "")


MAX_SHOWN = 200


def _escaped(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    plain = (c.isprintable() or c in kept for c in text)
    pairs = zip(text, plain, strict=True)
    return "".join(c if ok else c.encode("unicode_escape").decode() for c, ok in pairs)
