"""Logs tell for which request something was done, in plain lines and in JSON."""

from __future__ import annotations

import json
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
    assert within.endswith(" WARNING ironic_lite.some [req-ours] within")
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
