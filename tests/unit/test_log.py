"""Lines of the log and of runs: their request, their run, their form, and their sentences."""

from __future__ import annotations

import datetime
import io
import json
import logging
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from oslo_config import cfg
from oslo_log import formatters, log

from ironic_lite import errors
from ironic_lite.conductor.engine.workers import Workers
from ironic_lite.core import context, log_lines, metrics
from ironic_lite.domain import run_log
from ironic_lite.records import Event

# Logs tell for which request something was done, in plain lines and in JSON.

_PROGRAM = """
import logging, sys
from ironic_lite.core import config, context
config.load("ironic-lite-conductor", ["--config-file", sys.argv[1]])
log = logging.getLogger("ironic_lite.some")
log.warning("before")
who = {"user": "ann", "project": "lab", "global_request_id": "req-theirs"}
context.enter(context.Context("req-ours", **who))
log.warning("within")
context.enter(None)
log.warning("after")
"""


def said(folder: pathlib.Path, *options: str) -> list[str]:
    path = folder / "test.conf"
    path.write_text("\n".join(["[DEFAULT]", f"state_path = {folder}", *options]))
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr.splitlines()


def test_a_line_names_the_request_it_was_written_for(tmp_path: pathlib.Path) -> None:
    before, within, after = said(tmp_path)
    assert before.endswith(" WARNING ironic_lite.some before")
    assert within.endswith(" WARNING ironic_lite.some [req-ours ann] within")
    assert after.endswith(" WARNING ironic_lite.some after")


def test_the_operator_s_own_format_holds(tmp_path: pathlib.Path) -> None:
    own = "%(request_id)s|%(global_request_id)s|%(user_identity)s|%(message)s"
    options = (f"logging_context_format_string = {own}", "logging_user_identity_format = %(user)s")
    assert said(tmp_path, *options)[1] == "req-ours|req-theirs|ann|within"


def test_json_lines_hold_the_context(tmp_path: pathlib.Path) -> None:
    before, within, _ = (json.loads(line) for line in said(tmp_path, "use_json = true"))
    assert before["context"] == {}
    assert within["message"] == "within"
    found = within["context"]
    assert (found["request_id"], found["global_request_id"]) == ("req-ours", "req-theirs")
    assert (found["user"], found["project"]) == ("ann", "lab")


def test_work_that_is_handed_over_is_done_for_the_same_request() -> None:
    workers, seen = Workers(2), []
    who = context.Context("req-1")
    for whose in (who, None):
        context.enter(whose)
        workers.claim()
        workers.run(lambda: seen.append(context.current()))
        assert workers.wait_idle(60)
    workers.close()
    assert seen == [who, None]


@pytest.fixture(autouse=True)
def nobody() -> None:
    """No test begins in the request of another."""
    context.enter(None)


def test_lines_for_the_journal_begin_with_their_priority(tmp_path: pathlib.Path) -> None:
    settings, log = tmp_path / "test.conf", tmp_path / "journal"
    settings.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    code = _PROGRAM + "\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception('broken')\n"
    with log.open("wb") as stream:
        about = os.fstat(stream.fileno())
        for told in (f"{about.st_dev}:{about.st_ino}", "1:1"):
            subprocess.run(
                [sys.executable, "-c", code, str(settings)],
                stderr=stream,
                env={**os.environ, "JOURNAL_STREAM": told},
                timeout=60,
                check=True,
            )
    lines = [line for line in log.read_text().splitlines() if "ironic_lite.some" in line]
    assert [line[:3] for line in lines[:3]] == ["<4>"] * 3
    trace = log.read_text().split("Traceback", 1)[1].split("ZeroDivisionError", 1)[0].splitlines()
    assert {line[:3] for line in trace[1:]} == {"<3>"}
    assert not any(line.startswith("<") for line in lines[len(lines) // 2 :])


def test_file_beside_the_journal_has_no_priorities(tmp_path: pathlib.Path) -> None:
    settings, journal, log = (tmp_path / name for name in ("test.conf", "journal", "file"))
    settings.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\nlog_file = {log}\nuse_stderr = true\n"
    )
    with journal.open("wb") as stream:
        about = os.fstat(stream.fileno())
        subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(settings)],
            stderr=stream,
            env={**os.environ, "JOURNAL_STREAM": f"{about.st_dev}:{about.st_ino}"},
            timeout=60,
            check=True,
        )
    assert [line[:3] for line in journal.read_text().splitlines()] == ["<4>"] * 3
    assert [line[:2] for line in log.read_text().splitlines()] == ["20"] * 3


def test_refused_start_is_an_error_of_the_journal(tmp_path: pathlib.Path) -> None:
    journal, argv = tmp_path / "journal", ["--config-file", "/no/such/file"]
    code = f"from ironic_lite.cmd import api; api.main({argv!r})"
    with journal.open("wb") as stream:
        about = os.fstat(stream.fileno())
        done = subprocess.run(
            [sys.executable, "-c", code],
            stderr=stream,
            env={**os.environ, "JOURNAL_STREAM": f"{about.st_dev}:{about.st_ino}"},
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert journal.read_text().startswith("<3>ironic-lite-api: cannot read the configuration")


def test_rotation_by_several_processes_is_warned_of(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    said(tmp_path, f"log_file = {log}", "log_rotation_type = size")
    assert "log_rotation_type = size loses lines" in log.read_text()


def test_new_log_file_is_not_for_everybody(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "some.log"
    said(tmp_path, f"log_file = {log}")
    assert log.stat().st_mode & 0o777 == 0o640
    log.chmod(0o604)
    said(tmp_path, f"log_file = {log}")
    assert log.stat().st_mode & 0o777 == 0o604  # the operator's choice


# What others send makes no line of its own in the log, and no sequence of a terminal.

FORGED = "2026-11-22 00:00:00.000 1 CRITICAL ironic_lite.conductor.service All is lost"


class Written:
    """A logger whose only handler formats as the service does."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.stream = io.StringIO()
        self.logger = logging.Logger("tested")
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(formatters.ContextFormatter(config=conf))
        self.logger.addHandler(handler)
        log_lines.guard(self.logger)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().split("\n")[:-1]


@pytest.fixture
def written() -> Iterator[Written]:
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    yield Written(conf)
    conf.clear()


@pytest.mark.parametrize(
    "bad",
    [*"\n\r\x00\x07\x0b\x0c\x1b\x7f\x85\x9b", "\u2028", "\u2029", "\u202e", "\u200b", "\ud800"],
    ids=ascii,
)
def test_a_control_character_is_written_as_its_code(written: Written, bad: str) -> None:
    written.logger.warning("from %s", f"a{bad}{FORGED}")
    (line,) = written.lines
    code = f"\\x{ord(bad):02x}" if ord(bad) < 256 else f"\\u{ord(bad):04x}"
    assert line.endswith(f"from a{code}{FORGED}")
    assert bad not in line


def test_plain_text_of_any_script_is_written_as_it_is(written: Written) -> None:
    written.logger.info("r\xe4ck\t3, \u0440\u044f\u0434 %s \\x0a", "\u5217")
    assert written.lines[0].endswith("r\xe4ck\t3, \u0440\u044f\u0434 \u5217 \\x0a")


def test_a_traceback_keeps_its_lines_and_forges_none(written: Written) -> None:
    try:
        raise ValueError(f"first\n{FORGED}\r\x1b[2J")
    except ValueError:
        written.logger.exception("It failed: %s", f"\n{FORGED}")
    first, *rest = written.lines
    assert "It failed: \\x0a" in first
    assert "Traceback (most recent call last)" in rest[0]
    assert any("raise ValueError" in line for line in rest)
    for line in written.lines:
        assert not line.startswith(FORGED[:20])
        assert not set(line) & set("\r\x1b")


def test_another_handler_gets_the_record_as_it_was(written: Written) -> None:
    seen: list[logging.LogRecord] = []

    class Second(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record)

    written.logger.addHandler(Second())
    written.logger.info("a %s", "b\nc")
    assert seen[0].getMessage() == "a b\nc"


def test_a_long_path_is_cut() -> None:
    assert log_lines.path("/v1/nodes") == "/v1/nodes"
    assert log_lines.path("x" * 60_000) == "x" * 256 + "..."


def test_a_fault_is_logged_once_until_it_is_over() -> None:
    now = [0.0]
    throttle = log_lines.LogThrottle(lambda: now[0])
    assert throttle.new("disk full")
    assert not throttle.new("disk full")
    assert throttle.new("server gone")
    now[0] = 100.0
    assert not throttle.new("disk full"), "it goes on"
    with throttle:
        pass
    assert throttle.new("disk full")


def test_a_fault_between_successes_is_logged_once_a_minute() -> None:
    now = [0.0]
    throttle = log_lines.LogThrottle(lambda: now[0])
    logged = 0
    for now[0] in range(300):
        with throttle:
            pass
        logged += throttle.new("disk full")
    assert logged == 5


def test_a_fault_that_goes_on_is_not_a_new_one() -> None:
    throttle = log_lines.LogThrottle()
    assert throttle.new("disk full")
    with pytest.raises(OSError), throttle:
        raise OSError
    assert not throttle.new("disk full")


def test_remarks_about_one_answer_are_few() -> None:
    assert log_lines.some(["one", "two"]) == ["one", "two"]
    found = log_lines.some([f"card {number}" for number in range(1000)])
    assert (len(found), found[-1]) == (21, "980 more remarks are left out")


def test_lines_of_all_nodes_about_an_unavailable_database_are_one(written: Written) -> None:
    written.logger.addFilter(log_lines.Seldom("amqp"))
    full = errors.Unavailable("The database has no space left.", url="sqlite", doubtful=False)
    busy = errors.Unavailable("The conductor is busy.")
    for why in (full, busy):
        for node in range(3):
            written.logger.info("Node %s: it is read later: %s", node, why)
    for node in range(3):
        try:
            raise full
        except errors.Unavailable:
            written.logger.exception("Node %s: its console failed", node)
    lines = [line for line in written.lines if " Node " in line]
    assert len([line for line in lines if "it is read later: The database" in line]) == 1
    assert len([line for line in lines if "it is read later: The conductor" in line]) == 3
    assert len([line for line in lines if "its console failed" in line]) == 1


def test_repeated_warnings_of_a_logger_are_written_once(written: Written) -> None:
    written.logger.addFilter(log_lines.Seldom())
    for request in range(3):
        written.logger.warning("Request %s cannot be served", request)
        written.logger.info("Request %s was served", request)
    assert len([line for line in written.lines if "cannot be served" in line]) == 1
    assert len([line for line in written.lines if "was served" in line]) == 3


def test_statements_of_named_libraries_are_written_once(written: Written) -> None:
    written.logger.addFilter(log_lines.Seldom(written.logger.name, least=logging.INFO))
    for number in range(3):
        written.logger.info("Connection %s was lost", number)
        written.logger.info("Connection %s was made", number)
    assert len(written.lines) == 2
    other = log_lines.Seldom("another", least=logging.INFO)
    assert all(other.filter(record(written.logger.name)) for _ in range(3))
    assert [other.filter(record("another.part")) for _ in range(3)] == [True, False, False]


def record(name: str) -> logging.LogRecord:
    """Return what a logger passes to its filters."""
    return logging.LogRecord(name, logging.ERROR, "place.py", 7, "away", None, None)


# Lines that find the log of the run that their thread works on.


class Lines:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str, bool]] = []

    def add(self, source: str, text: str, *, minor: bool = False) -> None:
        self.found.append((source, text, minor))


@pytest.fixture(autouse=True)
def installed() -> None:
    log_lines.install_run_lines(["of_another_project"])
    log_lines.install_run_lines(["of_another_project"])


def test_log_message_goes_to_the_sink_of_its_thread_once() -> None:
    mine, other = Lines(), Lines()

    def work() -> None:
        with log_lines.gathering_run_lines(other):
            logging.getLogger("ironic_lite.drivers.agent.client").warning("late by %d s", 3)

    thread = threading.Thread(target=work)
    with log_lines.gathering_run_lines(mine):
        thread.start()
        thread.join()
        logging.getLogger("of_another_project.power").warning("outlet %s", "7")
        logging.getLogger("ironic_lite.conductor.flows.operations").error("no")
        logging.getLogger("ironic_lite.drivers.redfish.power").warning("no")
        logging.getLogger("of_nobody").error("left out")
    assert other.found == [("agent", "late by 3 s", False)]
    assert mine.found == [
        ("driver", "outlet 7", False),
        ("run", "no", False),
        ("driver", "no", False),
    ]


def test_message_below_info_or_omitted_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    mine = Lines()
    caplog.set_level(logging.DEBUG, "ironic_lite")
    with log_lines.gathering_run_lines(mine):
        log = logging.getLogger("ironic_lite.conductor.engine.task")
        log.debug("detail")
        log.info("moved", extra=log_lines.OMITTED)
        log.info("kept")
    assert mine.found == [("run", "kept", False)]


def test_message_without_a_sink_goes_nowhere() -> None:
    logging.getLogger("ironic_lite.drivers.fake").warning("nobody works on a node")
    log_lines.note_run_line("bmc", "nobody works on a node")


def test_arguments_that_log_do_not_recurse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("ironic_lite"), "propagate", False)
    mine, log = Lines(), logging.getLogger("ironic_lite.drivers.fake")

    class Loud:
        def __str__(self) -> str:
            log.warning("again %s", self.__class__.__name__)
            return "loud"

    with log_lines.gathering_run_lines(mine):
        log.warning("%s", Loud())
    assert mine.found == [("driver", "loud", False)]


def test_arguments_that_do_not_fit_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    mine = Lines()
    with log_lines.gathering_run_lines(mine):
        logging.getLogger("ironic_lite.drivers.fake").warning("%d", "x")
    assert mine.found == [("driver", "%d", False)]


def test_inner_work_below_adds_to_the_outer_sink() -> None:
    outer, inner, own = Lines(), Lines(), Lines()
    with log_lines.gathering_run_lines(outer):
        with log_lines.gathering_run_lines(inner, below=True):
            log_lines.note_run_line("run", "of a child")
        with log_lines.gathering_run_lines(own):
            log_lines.note_run_line("run", "of another")
        log_lines.note_run_line("run", "last")
    with log_lines.gathering_run_lines(inner, below=True):
        log_lines.note_run_line("run", "alone")
    assert [text for _, text, _ in outer.found] == ["of a child", "last"]
    assert [text for _, text, _ in own.found] == ["of another"]
    assert [text for _, text, _ in inner.found] == ["alone"]


def test_bmc_call_is_a_line_with_its_answer_and_time() -> None:
    mine, counters = Lines(), metrics.BmcCounters()
    with log_lines.gathering_run_lines(mine):
        with counters.call("redfish", "GET", "GET /redfish/v1", reads=True) as call:
            call.result, call.answer = metrics.OK, "200"
        with pytest.raises(OSError), counters.call("redfish", "GET", "GET /x", reads=True):
            raise OSError
    (first, second) = mine.found
    assert (first[0], first[1][:20], first[2]) == ("bmc", "GET /redfish/v1 200 ", True)
    assert (second[1][:17], second[2]) == ("GET /x no answer ", False)
    assert first[1].endswith(" s")


# Lines of the log of a run: times, sentences of events, and the join by time.

AT = datetime.datetime(2026, 11, 22, 10, 11, 12, 123456)


def event(kind: str, second: int = 0, **more: Any) -> Event:
    row: Any = {
        "id": 1,
        "at": AT + datetime.timedelta(seconds=second),
        "node_uuid": "n",
        "run_uuid": "r",
        "kind": kind,
        "event": None,
        "before": None,
        "after": None,
        "conductor": "c1",
        "requester": "ann",
        "request_id": "req-1",
        "data": None,
    }
    return cast(Event, {**row, **more})


def told(*events: Event) -> list[str]:
    """Return the texts, without time and source."""
    lines = run_log.RunLogWriter().lines(events)
    assert all(line[27:37] == " run      " for line in lines), lines
    return [line[37:] for line in lines]


def test_line_has_time_source_and_text() -> None:
    line = run_log.line(AT, run_log.BMC, "GET /redfish/v1 200 0.213 s")
    assert line == "2026-11-22T10:11:12.123456Z bmc      GET /redfish/v1 200 0.213 s"


def test_line_stays_one_line() -> None:
    line = run_log.line(AT, run_log.DRIVER, "one\ntwo\x1b[31m\u202e")
    assert line.endswith(r"one\x0atwo\x1b[31m\u202e")


def test_long_line_is_cut() -> None:
    assert len(run_log.line(AT, run_log.DRIVER, "x" * 9000)) < run_log.LONGEST + 60


def test_lines_are_joined_by_time_and_events_come_first() -> None:
    at = [run_log.line(AT + datetime.timedelta(seconds=n), run_log.RUN, "e") for n in range(3)]
    stored = [
        "\n".join(
            run_log.line(AT + datetime.timedelta(seconds=n), run_log.BMC, f"b{n}") for n in (0, 1)
        ),
        run_log.line(AT, run_log.BMC, "late row"),
    ]
    merged = [line[28:].split(maxsplit=1) for line in run_log.merge(at, stored)]
    assert merged == [
        ["run", "e"],
        ["bmc", "b0"],
        ["bmc", "late row"],
        ["run", "e"],
        ["bmc", "b1"],
        ["run", "e"],
    ]


def test_move_names_its_request_once() -> None:
    moves = [
        event("provision", event="clean", before="manageable", after="cleaning"),
        event("provision", event="wait", before="cleaning", after="clean wait"),
        event("provision", event="resume", before="clean wait", after="cleaning", request_id="b"),
    ]
    assert told(*moves) == [
        "clean, manageable -> cleaning (ann, req-1)",
        "wait, cleaning -> clean wait",
        "resume, clean wait -> cleaning (ann, b)",
    ]


def test_error_is_worded_once() -> None:
    error = {"error": "disk 3 is broken"}
    step = {"step": "deploy.erase_devices", "ordinal": 0}
    lines = told(
        event("step_started", event="clean", data=step),
        event("step_ended", event="clean", data={**step, **error}),
        event("flow_ended", event="cleaning", data={"outcome": "failed", "step": None}),
        event("provision", event="fail", before="cleaning", after="clean failed", data=error),
        event("fault", event="error", data=error),
    )
    assert lines == [
        "deploy.erase_devices begins",
        "deploy.erase_devices failed: disk 3 is broken",
        "Cleaning failed",
        "fail, cleaning -> clean failed (ann, req-1)",
    ]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (event("power", event="changed", before=None, after="power on"), "power changed, power on"),
        (
            event("power", event="changed", before="power off", after="power on"),
            "power changed, power off -> power on",
        ),
        (event("taken_over", data={"from": "c1"}), "Taken over from the conductor c1"),
        (
            event("agent_changed", data={"step": "a.b", "error": "other managers"}),
            "another agent refused a.b: other managers",
        ),
        (event("fault", event="error", data={"error": "x"}), "fault error: x"),
        (event("overdue", data={"step": "a.b"}), "a.b takes longer than usual"),
        (event("step_waived", data={"step": "a.b", "reason": "r"}), "a.b is waived: r"),
        (event("stop_requested", event="hold", data={"reason": "r"}), "stop requested hold r"),
    ],
)
def test_event_has_a_sentence(found: Event, text: str) -> None:
    assert told(found) == [text]


def test_addresses_in_sentences_show_no_password_and_no_query() -> None:
    error = "cannot fetch https://ann:hunter2@images/x.qcow2?sig=hunter3"
    (text,) = told(event("fault", event="error", data={"error": error}))
    assert "hunter" not in text
    assert "images/x.qcow2" in text
