"""The requirements of the specifications, and the tests that show each of them.

``requirements.toml`` has a row for each; tests in ``tests/spec`` carry a number in their name:
``test_s1_03_words`` shows S1.3.
"""

from __future__ import annotations

import pathlib
import re
import tomllib
from typing import NamedTuple

DOCS = pathlib.Path(__file__).parent
ROWS = DOCS / "requirements.toml"
TESTS = DOCS.parent / "tests/spec"

_TEST = re.compile(r"^def (?P<name>test_s(?P<spec>\d+)_(?P<place>\d+)_\w+)\(", re.MULTILINE)


class Requirement(NamedTuple):
    """One row: ``number`` as it is cited (S1.5), ``link`` a page and heading of the docs."""

    number: str
    sentence: str
    link: str


def requirements() -> list[Requirement]:
    """Return all rows in their order."""
    rows = tomllib.loads(ROWS.read_text())
    return [
        Requirement(f"{spec}.{place}", sentence, link)
        for spec, places in rows.items()
        for place, (sentence, link) in places.items()
    ]


def tests() -> dict[str, list[tuple[str, str]]]:
    """Return (file, function) of the tests that are named after each number, in their order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(TESTS.glob("test_*.py")):
        for test in _TEST.finditer(path.read_text()):
            number = f"S{test['spec']}.{int(test['place'])}"
            found.setdefault(number, []).append((path.name, test["name"]))
    return found
