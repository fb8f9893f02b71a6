"""The header Prefer as RFC 7240 defines it."""

from __future__ import annotations

import time

import pytest

from ironic_lite.api.watching import prefer


@pytest.mark.parametrize(
    ("text", "seconds", "asynchronous"),
    [
        ("wait=50", 50, False),
        ("WAIT = 50", 50, False),
        ('wait="50"', 50, False),
        ("wait=50; foo=bar", 50, False),
        ("wait=5, wait=9", 5, False),
        ("wait=9999", 300, False),
        ("Respond-Async", 0, True),
        ("respond-async; a, wait=7", 7, True),
        ("return=minimal,respond-async", 0, True),
        ('foo="a, wait=9", wait=5', 5, False),
        ('foo="say \\", wait=9", wait=5', 5, False),
    ],
)
def test_preferences_are_read(text: str, seconds: int, asynchronous: bool) -> None:
    assert prefer.parse(text, 300) == (seconds, asynchronous)


@pytest.mark.parametrize(
    "text",
    ["", ",", ";", "wait", "wait=", "wait=x", "wait=0", "wait=-1", "wait=1.5", "wait=1234567890",
     'wait="5', 'foo="a, wait=9"', "return=minimal; wait=9", "waits=9", "await=9"],
)  # fmt: skip
def test_broken_and_unknown_preferences_are_ignored(text: str) -> None:
    assert prefer.parse(text, 300) is None


@pytest.mark.parametrize(
    "text",
    ['"' + '\\"' * 500, '"' + 'a"' * 500, ",;" * 500, '"' + "\\" * 999],
    ids=["escaped quotes", "quotes", "separators", "backslashes"],
)
def test_time_to_read_a_header_grows_with_its_length_only(text: str) -> None:
    """A quadratic parser takes more than three seconds here."""
    began = time.thread_time()
    for _ in range(500):
        assert prefer.parse(text, 300) is None
    assert time.thread_time() - began < 1.5


@pytest.mark.parametrize(
    "text", ['"' + '\\"' * 8000, "wait=5" + "," * 8000], ids=["escaped quotes", "separators"]
)
def test_very_long_header_is_ignored_at_once(text: str) -> None:
    began = time.thread_time()
    assert prefer.parse(text, 300) is None
    assert time.thread_time() - began < 0.1


def test_header_of_a_kibibyte_is_read() -> None:
    assert prefer.parse("wait=5".rjust(1024, ","), 300) == (5, False)
    assert prefer.parse("wait=5".rjust(1025, ","), 300) is None


def test_open_quotes_end_the_list() -> None:
    assert prefer.parse('wait=5, foo="a, respond-async', 300) == (5, False)
