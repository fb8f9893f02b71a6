"""The text of the operators' pages, by section."""

from __future__ import annotations

import pathlib
import re

DOCS = pathlib.Path(__file__).parents[2] / "docs"
_TITLE = re.compile(r"^(?P<title>\S.*)\n(?P<line>([=\-~^])\3+)$", re.MULTILINE)


def section(page: str, title: str) -> str:
    """Return the text under a heading of a page, up to the next heading, on one line."""
    text = (DOCS / page).read_text()
    found = list(_TITLE.finditer(text))
    (place,) = (place for place, each in enumerate(found) if each["title"] == title)
    end = found[place + 1].start() if place + 1 < len(found) else len(text)
    return " ".join(text[found[place].end() : end].split())


def lacks(text: str, *parts: str) -> list[str]:
    """Return what a text does not say; case does not matter."""
    return [part for part in parts if part.lower() not in text.lower()]
