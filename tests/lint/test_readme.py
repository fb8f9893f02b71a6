"""The README of the tests lists every folder and every helper."""

from __future__ import annotations

import pathlib
import re

TESTS = pathlib.Path(__file__).parents[1]
README = (TESTS / "README.rst").read_text(encoding="utf-8")
LONGEST_LINE = 120


def rows(title: str) -> list[str]:
    """Return the first cells of the rows of a section's tables."""
    section = re.split(rf"^{title}\n-+$", README, flags=re.MULTILINE)[1]
    section = re.split(r"^.+\n-+$", section, flags=re.MULTILINE)[0]
    cells = re.findall(r"^   \* - (.*)$", section, flags=re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"``([\w.]+)``", cell)]


def children(folder: pathlib.Path) -> list[str]:
    """Return the modules and packages in a folder."""
    found = [*folder.glob("*.py"), *(path.parent for path in folder.glob("*/*.py"))]
    return sorted({path.stem for path in found} - {"__init__"})


def test_every_helper_is_listed_in_order() -> None:
    assert rows("The helpers") == [*children(TESTS / "support"), *children(TESTS / "emulators")]


def test_every_folder_of_tests_is_listed() -> None:
    folders = {path.parent.name for path in TESTS.glob("*/*.py")} - {"emulators", "support"}
    assert sorted(rows("Where a test belongs")) == sorted(folders)


def test_lines_are_short() -> None:
    assert [line for line in README.splitlines() if len(line) > LONGEST_LINE] == []
