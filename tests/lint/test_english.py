"""Docstrings and pages are in plain English: the part of it that a program can check."""

from __future__ import annotations

import ast
import functools
import pathlib
import re

from tests.support import source_trees

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = (
    *("ironic_lite", "benchmarks", "cli", "demo", "tools"),
    *("tests/support", "tests/emulators"),
)
OTHERS = ("README", "CHANGELOG", "CONTRIBUTING", "benchmarks/README", "tests/README")
PAGES = [*sorted((ROOT / "docs").glob("*.rst")), *(ROOT / f"{name}.rst" for name in OTHERS)]
LONGEST_LINE = 120
QUESTION = re.compile(r"(What|Which|Who|Whoever|Whose|Whether|Where|How|Tell whether)\b(?! to\b)")
PRIVATE = re.compile(r"\b([Ww]hoever|[Ll]est|is none\b|[Mm]end(s|ed|ing)?)\b")
"""Words that readers who are no native speakers look up."""
TABLE_OR_CODE = re.compile(r"[ |+=]|\.\. |.*\S  ")
NUMBER = re.compile(r"\((?:[SC]\d[\w., ]*|invariant \d+[^)]*)\)")


@functools.cache
def docstrings() -> list[tuple[str, str]]:
    """Return each docstring with its place, ``path:line``."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [
        (f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "migrations" not in path.parts
        for node in source_trees.nodes(path)
        if isinstance(node, documented) and (text := ast.get_docstring(node))
    ]


def test_docstrings_open_with_an_imperative_or_a_noun() -> None:
    assert [where for where, text in docstrings() if QUESTION.match(text)] == []


def test_docstrings_use_common_words() -> None:
    assert [where for where, text in docstrings() if PRIVATE.search(text)] == []


def test_summaries_have_no_requirement_numbers() -> None:
    assert [where for where, text in docstrings() if NUMBER.search(text.splitlines()[0])] == []


def test_lines_of_prose_are_short() -> None:
    found = [
        f"{page.name}:{number}"
        for page in PAGES
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LONGEST_LINE and not TABLE_OR_CODE.match(line)
    ]
    assert found == []


def test_pages_use_common_words() -> None:
    assert [str(page) for page in PAGES if PRIVATE.search(page.read_text("utf-8"))] == []
