"""What others send makes no line of its own in the log, and no sequence of a terminal."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
from oslo_config import cfg
from oslo_log import formatters, log

from ironic_lite.core import log_lines

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
    throttle = log_lines.LogThrottle()
    assert throttle.new("disk full")
    assert not throttle.new("disk full")
    assert throttle.new("server gone")
    with throttle:
        pass
    assert throttle.new("disk full")


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
