"""Commands for clients without a network: requests, waits, and progress of runs."""

from __future__ import annotations

import argparse
import contextlib
import http.server
import io
import json
import os
import re
import threading
import types
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
from ironicclient import client, exc
from keystoneauth1 import noauth, session

from ironic_lite_cli import commands, http_api, nodes, progress, rows
from ironic_lite_cli.nodes import NotYet

# How long the command line waits for a list of clean steps, by a clock of its own.

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
        return nodes.retry_until_ready(self.ask, bound, now=lambda: self.time, sleep=self.sleep)


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
    command = nodes.ListCleaningSteps(app, None)
    names, rows = command.take_action(command.get_parser("list").parse_args(words))
    assert names == nodes.CLEANING_COLUMNS
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
    parser = nodes.ListCleaningSteps(app, None).get_parser("list")
    with pytest.raises(SystemExit):
        parser.parse_args([*words, "n"] if words else [])


# The progress of a run as the command line shows it: lines, a picture, a screen.

Json = dict[str, Any]


def step(name: str, state: str, **more: Any) -> Json:
    return {
        "kind": "clean",
        "ordinal": 0,
        "interface": "deploy",
        "step": name,
        "state": state,
        "attempt": 1,
        "error": None,
        "ended_at": "2026-01-01T00:00:00+00:00" if state in ("done", "failed") else None,
        "duration_seconds": None if state == "pending" else 7.2,
        "usual_seconds": None,
        "overdue": None,
        **more,
    }


def a_run(state: str, *steps: Json, **more: Any) -> Json:
    numbered = [{**one, "ordinal": number} for number, one in enumerate(steps)]
    known = {"uuid": "u-1", "verb": "clean", "requester": "ann", "error": None, "eta": None}
    return {**known, "state": state, "duration_seconds": 65.0, "steps": numbered, **more}


def test_durations_are_shown_as_on_a_clock() -> None:
    shown = [progress.clock_time(seconds) for seconds in (0.9, 7, 65, 3600, 90061)]
    assert shown == ["0:00", "0:07", "1:05", "1:00:00", "25:01:01"]


def test_lines_show_each_change_once_with_elapsed_time_attempt_and_usual_duration() -> None:
    shown: progress.Shown = {}
    usual = {"p50": 90.0, "p90": 120.0, "samples": 9}
    first = a_run("running", step("a", "running", usual_seconds=usual), step("b", "pending"))
    assert list(progress.changes(first, shown)) == ["1:05 [1/2] deploy.a: running, usually 1:30"]
    assert list(progress.changes(first, shown)) == []
    again = a_run("running", step("a", "running", attempt=2), step("b", "pending"))
    assert list(progress.changes(again, shown)) == ["1:05 [1/2] deploy.a: running, attempt 2"]
    failed = step("b", "failed", error={"text": "disk 3\nis \x1b[31mbroken"})
    last = a_run("failed", step("a", "done", attempt=2), failed, error={"text": "No."})
    assert list(progress.changes(last, shown)) == [
        "1:05 [1/2] deploy.a: done 0:07, attempt 2",
        "1:05 [2/2] deploy.b: failed 0:07 disk 3 is ?[31mbroken",
    ]
    assert progress.ending(last) == "clean: failed after 1:05 No."
    assert progress.opening(last) == "clean u-1 by ann: failed"


def test_picture_counts_on_between_two_answers() -> None:
    usual = {"p50": 20.0, "p90": 30.0, "samples": 9}
    run = a_run(
        "running",
        step("a", "done"),
        step("long_name", "running", usual_seconds=usual, attempt=2, overdue={"since": "x"}),
        step("c", "pending"),
        step("d", "pending"),
        eta={"ends_at": "2026-01-01T12:00:00.5+00:00", "late_at": "2026-01-01T12:05:00+00:00"},
    )
    lines = progress.picture(run, 2.9, 200, 40)
    assert lines[0] == "clean running 1:07  [#######-------------] 1/4"
    assert lines[1] == "  1. deploy.a          done 0:07"
    assert lines[2] == "  2. deploy.long_name  running 0:10, usually 0:20, overdue, attempt 2"
    assert lines[3] == "  3. deploy.c          pending"
    assert lines[5] == "expected end 2026-01-01 12:00:00, late after 2026-01-01 12:05:00 (UTC)"
    done = a_run("done", step("a", "done"))
    assert progress.picture(done, 100, 200, 40)[0] == "clean done 1:05  [####################] 1/1"


def test_picture_fits_into_the_terminal() -> None:
    steps = [step(f"s{number}", "done") for number in range(500)]
    steps += [step("now", "running"), *(step(f"p{number}", "pending") for number in range(499))]
    lines = progress.picture(a_run("running", *steps), 0, 40, 20)
    assert len(lines) == 19
    assert all(len(line) < 40 for line in lines)
    assert any("501. deploy.now" in line for line in lines)


def test_screen_draws_over_its_last_picture() -> None:
    stream = io.StringIO()
    screen = progress.Screen(stream, lambda: os.terminal_size((80, 24)))
    run = a_run("running", step("a", "running"), step("b", "pending"))
    screen.draw(run, 0)
    first = stream.getvalue()
    screen.draw(run, 1)
    assert "\x1b[3F" not in first
    assert stream.getvalue().removeprefix(first).startswith("\x1b[3Fclean running 1:06")


def test_table_of_a_run_has_a_line_for_each_step_with_its_ordinal() -> None:
    error = {"code": "CleanStepFailed", "text": "No\ndisk.", "cause": {"code": "HardwareError"}}
    kept, waived = {"done_in": "u-0"}, {"waiver": {"reason": "No need."}, "duration_seconds": None}
    steps = (
        step("a", "done", **kept),
        step("b", "failed", attempt=2, error=error),
        step("c", "waived", **waived),
        step("d", "pending"),
    )
    eta = {"ends_at": "2026-01-01T01:02:03+00:00", "late_at": "2026-01-01T02:03:04+00:00"}
    shown = progress.run_columns(a_run("failed", *steps, error=error, eta=eta, links=[]))
    assert shown["steps"].human_readable().splitlines() == [
        "0 deploy.a: done 0:07, kept from run u-0",
        "1 deploy.b: failed 0:07, attempt 2 No disk.",
        "2 deploy.c: waived No need.",
        "3 deploy.d: pending",
    ]
    assert shown["error"].human_readable() == "HardwareError: No disk."
    ends = "2026-01-01 01:02:03, late after 2026-01-01 02:03:04 (UTC)"
    assert (shown["eta"].human_readable(), shown["links"].human_readable()) == (ends, "")
    assert [one["step"] for one in shown["steps"].machine_readable()] == ["a", "b", "c", "d"]


# ``baremetal node retry``: its command line, and answers that name no readable run.

RUN = "11111111-1111-4111-8111-111111111111"
LINK = {"Link": f'</v1/nodes/n1/runs/{RUN}>; rel="monitor"'}


class RetryService:
    """Answers a retry with these headers, and refuses or shows the run."""

    def __init__(self, headers: dict[str, str], *, node: str, run: Exception | None = None) -> None:
        self.asked: list[str] = []
        self.body: Any = None
        self._headers = headers
        self._node = node
        self._run = run

    def json_request(self, method: str, url: str, **more: Any) -> tuple[Any, Any]:
        self.asked.append(f"{method} {url.partition('?')[0]}")
        if method == "PUT":
            self.body = more["body"]
            return types.SimpleNamespace(headers=self._headers), None
        if "/runs/" in url:
            if self._run is not None:
                raise self._run
            return None, {"state": "done"}
        return None, {"provision_state": self._node}


def retry(service: RetryService, *words: str) -> tuple[int, str, str]:
    """Return the exit status and what the command prints."""
    output, faults = io.StringIO(), io.StringIO()
    client = types.SimpleNamespace(baremetal=types.SimpleNamespace(http_client=service))
    app = types.SimpleNamespace(client_manager=client, stdout=output, stderr=faults)
    command = nodes.RetryNode(app, None)  # type: ignore[arg-type]
    status = command.take_action(command.get_parser("retry").parse_args(["n1", *words]))
    return status, output.getvalue(), faults.getvalue()


def test_retry_without_a_link_is_accepted_and_waits_for_the_node() -> None:
    status, printed, told = retry(RetryService({}, node="available"))
    assert (status, printed, "Accepted" in told) == (0, "", True)
    assert retry(RetryService({}, node="available"), "--wait", "9")[:2] == (0, "available\n")
    assert retry(RetryService({}, node="clean failed"), "--wait", "9")[:2] == (3, "clean failed\n")


@pytest.mark.parametrize("refusal", [exc.Forbidden, exc.NotFound])
def test_caller_who_may_not_read_the_run_waits_for_the_node(refusal: type[Exception]) -> None:
    """The rule of runs excludes lessees, who may retry."""
    service = RetryService(LINK, node="active", run=refusal("no"))
    assert retry(service, "--wait", "9")[:2] == (0, f"{RUN}\nactive\n")
    assert service.asked[-1] == "GET /v1/nodes/n1"


def test_reason_may_begin_with_a_number() -> None:
    service = RetryService(LINK, node="available")
    words = ("--waive", "10:30 shredder", "--waive-step", "2", "3: bay", "--waive-step", "0", "x")
    assert retry(service, *words, "--wait", "inf")[0] == 0
    assert service.body["retry"]["waive"] == [
        {"reason": "10:30 shredder"},
        {"ordinal": 2, "reason": "3: bay"},
        {"ordinal": 0, "reason": "x"},
    ]


@pytest.mark.parametrize(
    "words",
    [["--wait", "nan"], ["--wait", "-1"], ["--wait", "x"], ["--waive-step", "-1", "x"]],
)
def test_wrong_numbers_are_refused(words: list[str]) -> None:
    service = RetryService(LINK, node="available")
    with pytest.raises(SystemExit) as refused:
        retry(service, *words)
    assert (refused.value.code, service.asked) == (2, [])


@pytest.mark.parametrize("word", ["nan", "NaN", "-0.5", "", "1h"])
def test_seconds_are_a_number_that_is_not_negative(word: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        rows.read_seconds(word)
    assert rows.read_seconds("inf") > rows.read_seconds("0.5")


# ``baremetal node run stop``: the request of each command line.


class StopService:
    """Keeps the requests."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def json_request(self, method: str, url: str, **more: Any) -> tuple[Any, Any]:
        self.asked.append((method, url, more.get("body")))
        return types.SimpleNamespace(headers={}), None


def stop_requests(*words: str) -> list[Any]:
    service = StopService()
    client = types.SimpleNamespace(baremetal=types.SimpleNamespace(http_client=service))
    app = types.SimpleNamespace(client_manager=client, stdout=io.StringIO(), stderr=io.StringIO())
    command = commands.StopRun(app, None)  # type: ignore[arg-type]
    command.take_action(command.get_parser("stop").parse_args(["n1", *words]))
    return service.asked


PATH = "/v1/nodes/n1/runs/current/stop"


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), ("PUT", PATH, {"how": "hold"})),
        (("--abort",), ("PUT", PATH, {"how": "abort"})),
        (
            ("--after", "2", "--reason", "disk 3"),
            ("PUT", PATH, {"how": "hold", "after": 2, "reason": "disk 3"}),
        ),
        (("--run", "r9"), ("PUT", "/v1/nodes/n1/runs/r9/stop", {"how": "hold"})),
        (("--undo",), ("DELETE", PATH, None)),
    ],
)
def test_command_line_becomes_a_request(words: tuple[str, ...], asked: Any) -> None:
    assert stop_requests(*words) == [asked]


def test_abort_and_undo_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        stop_requests("--abort", "--undo")
    assert "not allowed with" in capsys.readouterr().err


# ``baremetal attention``: its lines, and its exit status.

CAUSE = {
    "cause": "c41f0be9a7d2",
    "kind": "failed",
    "verb": "clean",
    "step": "deploy.erase_devices",
    "text": "disk sd#: read-only",
    "nodes": 300,
    "first_at": "2026-11-28T20:10:11+00:00",
    "sample": [{"uuid": "u1", "name": "r01-u01"}, {"uuid": "u2", "name": None}],
    "do": "Then use retry.",
}
NEEDS = {
    "status": "critical",
    "causes": [
        CAUSE,
        {**CAUSE, "kind": "overdue", "text": "overdue", "nodes": 2},
        {**CAUSE, "kind": "health", "text": "Warning", "verb": None, "step": None, "nodes": 2},
    ],
    "causes_left_out": 7,
    "batches": [
        {"uuid": "b1", "name": None, "state": "paused", "nodes": 9, "done": 1, "failed": 2}
    ],
    "conductors": [{"hostname": "c2", "seen_at": "2026-11-28T20:00:00+00:00"}],
    "webhooks": [{"uuid": "w1", "state": "suspended", "behind": 912}],
    "findings": None,
}
EMPTY: dict[str, Any] = {**dict.fromkeys(NEEDS), "causes": [], "causes_left_out": 0}


def attention(answer: Any, *words: str) -> tuple[int, str, str, list[str]]:
    """Run the command; return its exit status, what it prints, and the URLs of its requests."""
    asked: list[str] = []

    def json_request(_method: str, url: str, **_more: Any) -> tuple[Any, Any]:
        asked.append(url)
        if isinstance(answer, Exception):
            raise answer
        return types.SimpleNamespace(headers={}), answer

    client = types.SimpleNamespace(http_client=types.SimpleNamespace(json_request=json_request))
    manager = types.SimpleNamespace(baremetal=client)
    app: Any = types.SimpleNamespace(
        client_manager=manager, stdout=io.StringIO(), stderr=io.StringIO()
    )
    command = commands.Attention(app, None)
    status = command.run(command.get_parser("attention").parse_args(words))
    return status, app.stdout.getvalue(), app.stderr.getvalue(), asked


@pytest.mark.parametrize(("word", "status"), [("ok", 0), ("warning", 1), ("critical", 2)])
def test_exit_status_of_attention_is_that_of_the_fleet(word: str, status: int) -> None:
    assert attention({**EMPTY, "status": word})[0] == status
    assert attention({**EMPTY, "status": word}, "-f", "json")[0] == status


def test_attention_without_an_answer_ends_with_three() -> None:
    for words in ((), ("-f", "json")):
        status, shown, said, _ = attention(exc.ConnectionRefused("nobody listens"), *words)
        assert (status, shown, said) == (3, "", "nobody listens\n")


def test_attention_has_a_line_for_each_cause_batch_and_part() -> None:
    shown = attention(NEEDS, "-f", "value")[1].splitlines()
    at = CAUSE["first_at"]
    assert shown == [
        "300 clean failed at deploy.erase_devices: disk sd#: read-only "
        f"{at} r01-u01, u2, ... Then use retry.",
        f"2 clean is overdue at deploy.erase_devices {at} r01-u01, u2 Then use retry.",
        f"2 health Warning {at} r01-u01, u2 Then use retry.",
        "7 of causes that are not listed   ",
        "3/9 batch b1: paused, 2 failed   baremetal batch resume b1",
        " conductor c2 is dead 2026-11-28T20:00:00+00:00  ",
        " webhook w1 is suspended, 912 events behind   ",
    ]


def test_attention_sends_its_filters_and_prints_the_whole_document() -> None:
    words = ("--filter", "resource_class=gpu", "--filter", "owner=a b", "--limit", "5")
    _, shown, _, asked = attention(NEEDS, "-f", "json", *words)
    assert asked == ["/v1/attention?resource_class=gpu&owner=a+b&limit=5"]
    assert json.loads(shown) == NEEDS


# Refusals: which are repeated, and the words for what to do.


class Refusing:
    """A service that refuses every request, and counts them."""

    def __init__(self, *headers: tuple[str, str], text: str = "no", status: int = 409) -> None:
        self.agents: list[str] = []
        agents = self.agents

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_DELETE(self) -> None:
                agents.append(self.headers["User-Agent"])
                body = json.dumps({"error_message": json.dumps({"faultstring": text})}).encode()
                self.send_response(status)
                for name, value in (*headers, ("Content-Type", "application/json")):
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_PUT = do_POST = do_GET = do_DELETE

            def log_message(self, *args: Any) -> None:
                del args

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @contextlib.contextmanager
    def api(self) -> Iterator[http_api.Api]:
        """Serve, and yield our client of python-ironicclient's."""
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{self.server.server_port}"
        found = session.Session(auth=noauth.NoAuth(endpoint=url))
        made = client.get_client("1", session=found, endpoint=url, os_ironic_api_version="1.115")
        manager = types.SimpleNamespace(baremetal=made)
        try:
            yield http_api.Api(types.SimpleNamespace(client_manager=manager))
        finally:
            self.server.shutdown()
            self.server.server_close()


def test_permanent_refusal_is_sent_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    served = Refusing(text="It is held. End the hold with DELETE /v1/nodes/n1/holds/h-1 first.")
    with served.api() as api, pytest.raises(exc.Conflict) as caught:
        api.change("DELETE", "nodes", "n1")
    assert str(caught.value).startswith(
        "It is held. End the hold with baremetal node hold delete n1 h-1 first."
    )
    assert served.agents == ["ironic-lite-cli"]
    assert "It is held" not in caplog.text


def test_refusal_with_retry_after_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    served = Refusing(("Retry-After", "1"))
    with served.api() as api, pytest.raises(exc.Conflict):
        api.change("DELETE", "nodes", "n1")
    assert len(served.agents) == len(pauses) + 1 > 3
    assert set(pauses) == {1.0}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("with DELETE /v1/nodes/n1/holds/5f-3 first.", "baremetal node hold delete n1 5f-3 first."),
        ("DELETE /v1/nodes/n1/maintenance first.", "baremetal node maintenance unset n1 first."),
        ("Read GET /v1/nodes/n1/erasures. Repeat", "baremetal erasure list --node n1. Repeat"),
        ("GET /v1/nodes/n1/runs lists its", "baremetal node run list n1 lists its"),
        ("PUT /v1/nodes/n1/data_state.", "baremetal node data state set n1."),
        ("PUT /v1/nodes/n1/runs/current/stop ends", "baremetal node run stop n1 ends"),
        ("card: POST /v1/ports.", "baremetal node port create."),
        ("answer. GET /v1/conductors shows", "baremetal conductor list shows"),
        ("; ?plan=true shows", "; --plan shows"),
        (
            "GET /v1/batches/b-1/nodes?result=failed,refused lists",
            "baremetal batch node list b-1 --result failed,refused lists",
        ),
    ],
)
def test_texts_name_commands(text: str, shown: str) -> None:
    assert shown in http_api.in_commands(text)


def test_commands_in_texts_exist() -> None:
    ours = {point.name for point in entry_points(group="openstack.baremetal.v1")}
    for command in http_api.COMMANDS.values():
        words = re.sub(r" (\\\d|--.*)", "", command)
        if words.startswith("baremetal"):
            assert words.replace(" ", "_") in ours, command


# ``baremetal doctor`` and ``baremetal node hold list``.


def run_doctor(*words: str) -> list[str]:
    checks = [
        {"status": "ok", "where": "api", "name": "a", "text": "fine " * 60, "do": None},
        {"status": "warning", "where": "api", "name": "b", "text": "odd", "do": "POST /v1/ports."},
        {"status": "failed", "where": "c1", "name": "c", "text": "broken", "do": "Mend."},
    ]
    found = {"status": "failed", "checks": checks}

    def json_request(_method: str, _url: str, **_more: Any) -> tuple[Any, Any]:
        return types.SimpleNamespace(headers={}), found

    made = types.SimpleNamespace(http_client=types.SimpleNamespace(json_request=json_request))
    app: Any = types.SimpleNamespace(
        client_manager=types.SimpleNamespace(baremetal=made), stdout=io.StringIO()
    )
    command = commands.Doctor(app, None)
    assert command.run(command.get_parser("doctor").parse_args(words)) == 2
    return list(app.stdout.getvalue().splitlines())


def test_doctor_prints_first_what_is_wrong() -> None:
    lines = run_doctor("-f", "value", "-c", "status", "-c", "do")
    assert lines == ["failed Mend.", "warning baremetal node port create.", "ok "]


def test_doctor_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIFF_MAX_TERM_WIDTH", "0")
    monkeypatch.setattr("cliff.utils.terminal_width", lambda: 100)
    assert max(map(len, run_doctor())) <= 100


# Events.


def test_event_of_a_change_has_old_and_new_values() -> None:
    changes = [
        {"path": "extra/rack", "old": None, "new": "r02"},
        {"path": "description", "old": "a", "new_length": 300},
        {"path": "retired", "old": False, "new": True},
    ]
    event = {"before": None, "after": None, "data": {"fields": ["extra"], "changes": changes}}
    read = commands.event_row
    shown = read(event)
    assert shown["before"] == "extra/rack=null; description=a; retired=false"
    assert shown["after"] == "extra/rack=r02; description=(300 characters); retired=true"
    for data in (None, {}, {"fields": ["extra"]}):
        plain = read({"before": "enroll", "after": "verifying", "data": data})
        assert (plain["before"], plain["after"]) == ("enroll", "verifying")
