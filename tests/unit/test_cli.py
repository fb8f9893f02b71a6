"""How long the command line waits for a list of clean steps, by a clock of its own."""

from __future__ import annotations

import types
from typing import Any

import pytest
from ironicclient import exc

from ironic_lite.cli import cleaning
from ironic_lite.cli.cleaning import NotYet

STEPS = [{"interface": "deploy", "step": "scrub", "priority": 7, "abortable": False, "args": []}]


class Clock:
    """A clock that only pauses move, and a service that knows its steps at ``known``."""

    def __init__(self, known: float, *told: int | None) -> None:
        self.time = 100.0
        self.pauses: list[float] = []
        self._known = self.time + known
        self._told = list(told)

    def ask(self) -> list[dict[str, Any]]:
        if self.time >= self._known:
            return STEPS
        raise NotYet("not yet", self._told.pop(0) if len(self._told) > 1 else self._told[0])

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.time += seconds

    def waits(self, bound: float) -> list[dict[str, Any]]:
        return cleaning.retry_until_ready(self.ask, bound, now=lambda: self.time, sleep=self.sleep)


@pytest.mark.parametrize(
    ("told", "pauses"),
    [
        ((7,), [7, 7, 7]),
        ((20,), [20]),
        ((None,), [10, 10]),
        ((0,), [1] * 20),
        ((5, None, 0), [5, 10, 1, 1, 1, 1, 1]),
    ],
)
def test_client_pauses_as_long_as_the_service_asks_or_ten_seconds(
    told: tuple[int | None, ...], pauses: list[float]
) -> None:
    clock = Clock(20, *told)
    assert clock.waits(60) == STEPS
    assert clock.pauses == pauses


@pytest.mark.parametrize(
    ("told", "bound", "pauses"), [(30, 45, [30, 15]), (3600, 45, [45]), (None, 25, [10, 10, 5])]
)
def test_all_pauses_together_are_no_longer_than_the_bound_and_it_asks_a_last_time(
    told: int | None, bound: float, pauses: list[float]
) -> None:
    clock = Clock(1e9, told)
    with pytest.raises(NotYet):
        clock.waits(bound)
    assert clock.pauses == pauses
    assert Clock(bound, told).waits(bound) == STEPS


def test_without_a_bound_it_asks_once() -> None:
    clock = Clock(5, 5)
    with pytest.raises(NotYet):
        clock.waits(0)
    assert clock.pauses == []


# -- answers ---------------------------------------------------------------------------------


class Service:
    """Answers one request with what the test has set, and writes down what was asked."""

    def __init__(self, status: int, body: Any, **headers: str) -> None:
        self.http_client = self
        self.answer = types.SimpleNamespace(status_code=status, headers=headers)
        self.body = body
        self.asked: list[tuple[str, str]] = []
        self.timeout = 0.0

    def json_request(self, method: str, url: str, *, timeout: float) -> tuple[Any, Any]:
        self.asked.append((method, url))
        self.timeout = timeout
        return self.answer, self.body


def listing(service: Service, *words: str) -> list[tuple[Any, ...]]:
    """Run the command's action with this command line."""
    app: Any = types.SimpleNamespace(client_manager=types.SimpleNamespace(baremetal=service))
    command = cleaning.ListCleaningSteps(app, None)
    names, rows = command.take_action(command.get_parser("list").parse_args(words))
    assert names == cleaning.COLUMNS
    return [tuple(row) for row in rows]


@pytest.mark.parametrize("option", ["--min-priority", "--wait"])
@pytest.mark.parametrize("word", ["high", "nan", ""])
def test_refused_number_is_named_without_internal_names(
    option: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        listing(Service(200, STEPS), "n", option, word)
    assert f"argument {option}: {word!r} is not a finite number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "url"),
    [
        (["rack-7"], "/v1/nodes/rack-7/cleaning/steps?min_priority=0"),
        (["a/b ?"], "/v1/nodes/a%2Fb%20%3F/cleaning/steps?min_priority=0"),
        (["n", "--min-priority", "1"], "/v1/nodes/n/cleaning/steps?min_priority=1"),
        (["n", "--min-priority", "0.5"], "/v1/nodes/n/cleaning/steps?min_priority=0.5"),
        (["n", "--min-priority=-1e3"], "/v1/nodes/n/cleaning/steps?min_priority=-1000"),
    ],
)
def test_client_sends_one_request_with_a_time_out(words: list[str], url: str) -> None:
    service = Service(200, STEPS)
    (row,) = listing(service, *words)
    assert row[:4] == ("deploy", "scrub", 7, False)
    assert service.asked == [("GET", url)]
    assert service.timeout > 0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-Request-After": "30"}, 30),
        ({"Retry-Request-After": "0"}, 0),
        ({"Retry-Request-After": "-1"}, None),
        ({"Retry-Request-After": "soon"}, None),
        ({}, None),
    ],
)
def test_a_202_is_its_message_and_the_seconds_of_its_header(
    headers: dict[str, str], seconds: int | None
) -> None:
    with pytest.raises(NotYet, match=r"^patience$") as caught:
        listing(Service(202, {"message": "patience"}, **headers), "n")
    assert caught.value.seconds == seconds


@pytest.mark.parametrize("body", [[], None, {}, {"message": ""}, b"<html>"])
def test_a_202_without_a_message_is_told_in_our_words(body: Any) -> None:
    with pytest.raises(NotYet, match="not available yet"):
        listing(Service(202, body), "n")


@pytest.mark.parametrize("body", [{}, None, b"<html>"])
def test_an_answer_that_is_no_list_is_an_error(body: Any) -> None:
    with pytest.raises(exc.CommandError, match="is not a list"):
        listing(Service(200, body), "n")


@pytest.mark.parametrize("words", [["--wait", "nan"], ["--wait", "inf"], ["--wait", "-1"], []])
def test_a_wait_without_end_and_a_missing_node_are_refused(words: list[str]) -> None:
    app: Any = None  # nothing of it is used
    parser = cleaning.ListCleaningSteps(app, None).get_parser("list")
    with pytest.raises(SystemExit):
        parser.parse_args([*words, "n"] if words else [])
