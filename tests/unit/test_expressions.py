"""Regular expressions of rules mean what Python's mean, and end in time."""

from __future__ import annotations

import contextlib
import re
import resource
import threading
import time

import pytest

from ironic_lite import errors
from ironic_lite.domain.inspection_rules import checks, conditions, expressions

CARELESS = ("(a+)+b", "(a|aa)+b", "(a|a)*b", r"^(\w+\s?)*$")
ALIKE = (
    (r"dell", "(?i)Dell Inc."),
    (r"(?i)dell", "DELL"),
    (r"^R7[0-9]{2}$", "R740"),
    (r"(?<=R)7(?=4)", "R740"),
    (r"(.)\1", "aabb"),
    (r"(?P<n>.)(?P=n)", "abb"),
    (r"a{e}", "zzz"),
    (r"a{e}", "a{e}"),
    (r"(?:abc){e<=2}", "abx"),
    (r"[{e}]", "e"),
    (r"\{x\}", "{x}"),
    (r"a{,2}b", "aab"),
    (r"\N{BULLET}", "\u2022"),
    (r"x{2,3}", "xx"),
    (r"(?s).*", "a\nb"),
    (r"(?m)^b$", "a\nb"),
    (r"\Aa\Z", "a"),
)


@pytest.mark.parametrize(("expression", "text"), ALIKE)
def test_expressions_mean_what_they_mean_in_python(expression: str, text: str) -> None:
    assert expressions.contains(expression, text) == bool(re.search(expression, text))
    assert expressions.matches(expression, text) == bool(re.fullmatch(expression, text))


@pytest.mark.parametrize("expression", CARELESS)
def test_a_careless_expression_ends_while_others_work(expression: str) -> None:
    worst, ended = 0.0, threading.Event()

    def look() -> None:
        try:
            with contextlib.suppress(errors.InvalidParameter):
                expressions.contains(expression, "a" * 40 + "!")
        finally:
            ended.set()

    began = last = time.monotonic()
    threading.Thread(target=look).start()
    while not ended.wait(0.001):
        now = time.monotonic()
        worst, last = max(worst, now - last), now
    assert time.monotonic() - began < 30
    assert worst < 5, "another thread stood still meanwhile"


def test_an_expression_that_is_given_up_says_so() -> None:
    with pytest.raises(errors.InvalidParameter, match="given up after 1 s"):
        conditions.holds({"op": "contains", "args": {"value": "a" * 60, "regex": "(a|aa)+b"}}, {})


@pytest.mark.parametrize("expression", ["(", "[a--", r"\h", "(?R)", "a" * 5000, 7, "(?<n>a)"])
def test_invalid_expression_is_refused_with_its_place(expression: object) -> None:
    rule = {"op": "matches", "args": {"value": "a", "regex": expression}}
    with pytest.raises(errors.InvalidParameter) as refused:
        checks.check([rule], [])
    assert refused.value.facts["path"] == "conditions/0/args/regex"


ENDLESS = ("(?:a{65535}){65535}", "[a-z]{60000}[0-9]{60000}", r"(?:[(]{999}\({999}){999,}")


@pytest.mark.parametrize("expression", ENDLESS)
def test_an_expression_that_would_take_much_memory_is_refused(expression: str) -> None:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(errors.InvalidParameter, match="items with its repetitions written out"):
        expressions.check(expression)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 50_000  # KiB


@pytest.mark.parametrize("expression", ["[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[]{9}]{4}"])
def test_repetitions_of_a_usual_size_are_allowed(expression: str) -> None:
    expressions.check(expression)
