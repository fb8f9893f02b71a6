"""The table of requirements is whole: every number, its place in the documentation, its tests."""

from __future__ import annotations

import re

import pytest

from docs import requirements
from docs.requirements import Requirement
from tests.unit.test_docs import anchors

HOW_MANY = {"S1": 38, "S2": 39, "S3": 24, "S4": 15, "S5": 30}
CONFLICTS = 37
ROWS = requirements.requirements()
NUMBERS = [row.number for row in ROWS]


def test_every_requirement_of_every_specification_is_there_once_and_in_order() -> None:
    wanted = [f"{spec}.{place + 1}" for spec, count in HOW_MANY.items() for place in range(count)]
    assert wanted == NUMBERS


@pytest.mark.parametrize("row", ROWS, ids=NUMBERS)
def test_a_requirement_is_told_in_a_sentence(row: Requirement) -> None:
    assert row.sentence.endswith(".")
    assert row.sentence.count("`") % 2 == 0


@pytest.mark.parametrize("row", ROWS, ids=NUMBERS)
def test_a_heading_of_the_documentation_speaks_of_each_requirement(row: Requirement) -> None:
    name, _, anchor = row.link.partition("#")
    page = requirements.DOCS / name
    assert page.exists(), row.link
    assert anchor in anchors(page), row.link


@pytest.mark.parametrize("number", NUMBERS)
def test_every_requirement_is_shown_by_a_test(number: str) -> None:
    assert requirements.tests().get(number, []) != []


def test_no_requirement_is_excused() -> None:
    excuse = re.compile(r"pytest\.(mark\.)?(skip|xfail)|importorskip")
    files = {name for tests in requirements.tests().values() for name, _ in tests}
    assert {one for one in files if excuse.search((requirements.TESTS / one).read_text())} == set()


def test_no_test_is_named_after_a_requirement_that_does_not_exist() -> None:
    assert requirements.tests().keys() - set(NUMBERS) == set()


def test_every_conflict_between_the_texts_has_its_rule() -> None:
    page = (requirements.DOCS / "specifications.rst").read_text()
    cells = re.findall(r"^   \* - (C\d[^\n]*)\n     - \S", page, re.MULTILINE)
    told = [number for cell in cells for number in cell.split(", ")]
    assert sorted(told) == sorted(f"C{number}" for number in range(1, CONFLICTS + 1))


def test_no_two_tests_of_requirements_share_a_name() -> None:
    names = [name for tests in requirements.tests().values() for _, name in tests]
    assert sorted(set(names)) == sorted(names)
