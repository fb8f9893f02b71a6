"""What is counted of calls to Redfish BMCs, and what those do who would rather not wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import bmc_metrics, config, run_lines
from ironic_lite.drivers import base, deadline
from ironic_lite.drivers.redfish import power
from tests.emulators import liar as liars
from tests.support import bmc_tasks

POWER = power.RedfishPower()
READ = f"GET {liars.SYSTEM}"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[bmc_metrics.Counters]:
    """Counts of this test alone."""
    made = bmc_metrics.Counters()
    monkeypatch.setattr(bmc_metrics, "BMCS", made)
    yield made


def calls(made: bmc_metrics.Counters) -> dict[tuple[str, str], int]:
    """Return how many calls were counted, by operation and result."""
    told: list[dict[str, Any]] = made.snapshot()["bmc_calls_total"]
    assert {one["kind"] for one in told} == {"redfish"}
    return {(one["operation"], one["result"]): one["value"] for one in told}


def test_each_request_is_counted_with_its_result_and_each_repetition(
    liar: liars.Liar, counted: bmc_metrics.Counters
) -> None:
    task = bmc_tasks.task_at(liar.address)
    POWER.get_power_state(task)
    logins = calls(counted)["GET", "ok"] - 1
    liar.tricks[READ] = liars.says_first(1, liars.hangs_up)
    POWER.get_power_state(task)
    assert calls(counted) == {("GET", "ok"): 2 * logins + 2, ("GET", "silence"): 1}
    assert counted.snapshot()["bmc_retries_total"] == [{"kind": "redfish", "value": 1}]
    (seconds,) = counted.snapshot()["bmc_call_seconds"]
    assert seconds["count"] == sum(calls(counted).values())


def test_an_error_that_the_bmc_tells_of_is_no_silence(
    liar: liars.Liar, counted: bmc_metrics.Counters
) -> None:
    task = bmc_tasks.task_at(liar.address, redfish_system_id="/redfish/v1/Systems/none")
    with pytest.raises(errors.InvalidParameter):
        POWER.get_power_state(task)
    assert calls(counted)["GET", "error"] == 1


def test_call_with_a_short_deadline_fails_at_once_for_a_silent_bmc(
    liar: liars.Liar, counted: bmc_metrics.Counters
) -> None:
    config.CONF.set_override("connection_retry_interval", 1, group="redfish")
    task = bmc_tasks.task_at(liar.address)
    liar.tricks[READ] = liars.hangs_up
    with deadline.limit(deadline.UNHURRIED), pytest.raises(errors.BmcUnreachable):
        POWER.get_power_state(task)
    assert calls(counted)["GET", "silence"] == 1
    assert not task.pauses


def test_patience_bounds_a_request_also_on_a_login_from_before(
    liar: liars.Liar,
) -> None:
    task = bmc_tasks.task_at(liar.address)
    assert POWER.get_power_state(task) == base.POWER_OFF
    liar.tricks[READ] = liars.says_first(1, liars.silent)
    with deadline.limit(0.2), pytest.raises(errors.BmcUnreachable, match=r"within 0\.2 s"):
        POWER.get_power_state(task)
    assert POWER.get_power_state(task) == base.POWER_OFF


def test_patience_ends_with_its_block() -> None:
    assert not deadline.limited()
    with deadline.limit(2.0):
        assert (deadline.within(60.0), deadline.within(1.0)) == (2.0, 1.0)
        with deadline.limit(deadline.UNHURRIED):
            assert deadline.within(60.0) == 60.0
    assert not deadline.limited()


class Lines:
    """A sink that keeps the texts it gets."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []

    def add(self, source: str, text: str, *, minor: bool = False) -> None:
        self.texts.append((source, text))


def test_each_request_is_a_line_of_the_log_without_its_query(liar: liars.Liar) -> None:
    task, lines = bmc_tasks.task_at(liar.address), Lines()
    with run_lines.gathering(lines):
        POWER.get_power_state(task)
        liar.tricks[READ] = liars.hangs_up
        with deadline.limit(deadline.UNHURRIED), pytest.raises(errors.BmcUnreachable):
            POWER.get_power_state(task)
    assert {source for source, _ in lines.texts} == {"bmc"}
    texts = [text.rpartition(" 0.")[0] for _, text in lines.texts]
    assert f"GET {liars.SYSTEM} 200" in texts
    assert texts[-1].startswith(f"GET {liars.SYSTEM} no answer (")
