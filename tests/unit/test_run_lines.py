"""Lines that find the log of the run that their thread works on."""

from __future__ import annotations

import logging
import threading

import pytest

from ironic_lite.core import bmc_metrics, run_lines


class Lines:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str, bool]] = []

    def add(self, source: str, text: str, *, minor: bool = False) -> None:
        self.found.append((source, text, minor))


@pytest.fixture(autouse=True)
def installed() -> None:
    run_lines.install(["of_another_project"])
    run_lines.install(["of_another_project"])


def test_log_message_goes_to_the_sink_of_its_thread_once() -> None:
    mine, other = Lines(), Lines()

    def work() -> None:
        with run_lines.gathering(other):
            logging.getLogger("ironic_lite.drivers.agent.client").warning("late by %d s", 3)

    thread = threading.Thread(target=work)
    with run_lines.gathering(mine):
        thread.start()
        thread.join()
        logging.getLogger("of_another_project.power").warning("outlet %s", "7")
        logging.getLogger("ironic_lite.conductor.flows.power").error("no")
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
    with run_lines.gathering(mine):
        log = logging.getLogger("ironic_lite.conductor.work.task")
        log.debug("detail")
        log.info("moved", extra=run_lines.OMITTED)
        log.info("kept")
    assert mine.found == [("run", "kept", False)]


def test_message_without_a_sink_goes_nowhere() -> None:
    logging.getLogger("ironic_lite.drivers.fake").warning("nobody works on a node")
    run_lines.note("bmc", "nobody works on a node")


def test_arguments_that_log_do_not_recurse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("ironic_lite"), "propagate", False)
    mine, log = Lines(), logging.getLogger("ironic_lite.drivers.fake")

    class Loud:
        def __str__(self) -> str:
            log.warning("again %s", self.__class__.__name__)
            return "loud"

    with run_lines.gathering(mine):
        log.warning("%s", Loud())
    assert mine.found == [("driver", "loud", False)]


def test_arguments_that_do_not_fit_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    mine = Lines()
    with run_lines.gathering(mine):
        logging.getLogger("ironic_lite.drivers.fake").warning("%d", "x")
    assert mine.found == [("driver", "%d", False)]


def test_inner_work_below_adds_to_the_outer_sink() -> None:
    outer, inner, own = Lines(), Lines(), Lines()
    with run_lines.gathering(outer):
        with run_lines.gathering(inner, below=True):
            run_lines.note("run", "of a child")
        with run_lines.gathering(own):
            run_lines.note("run", "of another")
        run_lines.note("run", "last")
    with run_lines.gathering(inner, below=True):
        run_lines.note("run", "alone")
    assert [text for _, text, _ in outer.found] == ["of a child", "last"]
    assert [text for _, text, _ in own.found] == ["of another"]
    assert [text for _, text, _ in inner.found] == ["alone"]


def test_bmc_call_is_a_line_with_its_answer_and_time() -> None:
    mine, counters = Lines(), bmc_metrics.Counters()
    with run_lines.gathering(mine):
        with counters.call("redfish", "GET", "GET /redfish/v1", reads=True) as call:
            call.result, call.answer = bmc_metrics.OK, "200"
        with pytest.raises(OSError), counters.call("redfish", "GET", "GET /x", reads=True):
            raise OSError
    (first, second) = mine.found
    assert (first[0], first[1][:20], first[2]) == ("bmc", "GET /redfish/v1 200 ", True)
    assert (second[1][:17], second[2]) == ("GET /x no answer ", False)
    assert first[1].endswith(" s")
