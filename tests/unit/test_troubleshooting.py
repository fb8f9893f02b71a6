"""Each answer on docs/troubleshooting.rst has a test that produces it."""

from __future__ import annotations

from tests.support import troubleshooting


def test_each_answer_of_the_page_is_produced() -> None:
    assert set(troubleshooting.answers()) == set(troubleshooting.ALL)
    assert len(set(troubleshooting.ALL)) == len(troubleshooting.ALL)
