"""A BMC that is slower than whoever waits for it: its trouble is told while somebody listens."""

from __future__ import annotations

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base, deadline
from ironic_lite.drivers.redfish import management, power
from ironic_lite.drivers.redfish.bmc import retries
from tests.emulators import bmc
from tests.emulators import liar as liars
from tests.support import bmc_tasks

POWER = power.RedfishPower()
MANAGEMENT = management.RedfishManagement()
READ = f"GET {liars.SYSTEM}"


@pytest.mark.parametrize("trick", [liars.silent, liars.drips, liars.drips_body])
@pytest.mark.parametrize("warm", [True, False])
def test_a_bmc_that_hangs_is_told_of_before_the_caller_goes_away(
    liar: liars.Liar, trick: liars.Trick, warm: bool
) -> None:
    task = bmc_tasks.task_at(liar.address)
    if warm:
        POWER.get_power_state(task)
    liar.tricks[READ] = trick
    with deadline.until(0.5), pytest.raises(errors.BmcUnreachable) as caught:
        POWER.get_power_state(task)
    assert liar.address in caught.value.message
    assert "no complete answer within" in caught.value.message or "is slow" in caught.value.message
    assert liar.log.count(READ) == 1 + warm


def test_many_answers_that_are_each_quick_enough_have_one_limit_together() -> None:
    with bmc.serve() as machine:
        task = bmc_tasks.task_of(machine)
        lamps = MANAGEMENT.get_supported_indicators(task, "disk")
        assert len(lamps["disk"]) > 2
        machine.log.clear()
        with deadline.until(0.5):
            machine.tricks["GET *Drives/*"] = late
            with pytest.raises(errors.BmcUnreachable, match=r"took more than the 0\.5 s"):
                MANAGEMENT.get_supported_indicators(task, "disk")
        asked = [title for title in machine.log if "/Drives/" in title]
        assert len(asked) < len(lamps["disk"])


def late(handler: bmc.Handler) -> None:
    """Answer, when most of the time is over."""
    handler.serving.stopping.wait(0.3)
    handler.truth()


def test_a_bmc_that_is_busy_for_longer_than_a_caller_waits_is_not_asked_again(
    liar: liars.Liar,
) -> None:
    busy = {"error": {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.1.SYS518"}]}}
    liar.tricks[f"PATCH {liars.SYSTEM}"] = liars.says(503, busy)
    task = bmc_tasks.task_at(liar.address)
    with (
        deadline.until(retries.BUSY_SECONDS - 0.1),
        pytest.raises(errors.BmcUnreachable, match="is not ready"),
    ):
        MANAGEMENT.set_boot_device(task, "pxe")
    assert task.pauses == []


def test_a_login_made_in_a_hurry_serves_those_who_have_time(liar: liars.Liar) -> None:
    task = bmc_tasks.task_at(liar.address)
    with deadline.until(0.4):
        POWER.get_power_state(task)
    liar.tricks[READ] = lambda handler: late_by(handler, 0.5)
    assert POWER.get_power_state(task) == base.POWER_OFF
    with deadline.limit(0.1), pytest.raises(errors.BmcUnreachable, match=r"within 0\.1 s"):
        POWER.get_power_state(task)


def late_by(handler: bmc.Handler, seconds: float) -> None:
    handler.serving.stopping.wait(seconds)
    handler.truth()


def test_nothing_is_asked_when_the_time_is_over(liar: liars.Liar) -> None:
    with deadline.until(0), pytest.raises(errors.BmcUnreachable, match="is slow"):
        POWER.get_power_state(bmc_tasks.task_at(liar.address))
    assert liar.log == []
