"""Logs tell for which request something was done, in plain lines and in JSON."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from ironic_lite.conductor.work.workers import Workers
from ironic_lite.core import context

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
        assert workers.wait_idle(30)
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
