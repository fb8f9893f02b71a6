"""Logins that a BMC refuses: nobody is locked out by us, and a corrected login is tried at once."""

from __future__ import annotations

import logging
import time
from concurrent import futures

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import power
from ironic_lite.drivers.redfish.bmc import connection, sessions
from tests.emulators import liar as liars
from tests.support import bmc_tasks

POWER = power.RedfishPower()
LOGIN = f"POST {liars.SESSIONS}"
WHY = errors.BmcAccessDenied(address="https://bmc", user="root")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    told = Clock()
    monkeypatch.setattr(connection.LINKS, "refusals", sessions.Refusals(told))
    return told


def task(liar: liars.Liar, password: str = "wrong", **info: object) -> bmc_tasks.BmcTask:
    liar.users = liar.users or {"root": "right"}
    return bmc_tasks.task_at(
        liar.address,
        redfish_username="root",
        redfish_password=password,
        redfish_auth_type="session",
        **info,
    )


def denied(wanted: bmc_tasks.BmcTask, said: str = "refused the credentials of user root") -> None:
    with pytest.raises(errors.BmcAccessDenied, match=said):
        POWER.get_power_state(wanted)


@pytest.mark.parametrize("kind", ["basic", "session", "auto"])
def test_a_wrong_password_is_not_tried_again_and_again(
    liar: liars.Liar, clock: Clock, kind: str
) -> None:
    wanted = task(liar)
    wanted.node.driver_info["redfish_auth_type"] = kind
    denied(wanted)
    asked = list(liar.log)
    clock.now += 50
    denied(
        wanted, "does not retry these credentials for 10 s, because the BMC may lock that user out"
    )
    assert liar.log == asked
    clock.now += 11
    denied(wanted)
    assert len(liar.log) > len(asked)


@pytest.mark.parametrize("kind", ["basic", "session", "auto"])
def test_a_wrong_password_is_refused_once(liar: liars.Liar, clock: Clock, kind: str) -> None:
    wanted = task(liar)
    wanted.node.driver_info["redfish_auth_type"] = kind
    for _ in range(2):
        denied(wanted)
    logins = [title for title in liar.log if title == LOGIN]
    logins += [one.title for one in liar.requests if "Authorization" in one.headers]
    assert len(logins) == 1


def test_the_nodes_behind_one_bmc_try_a_wrong_password_once(liar: liars.Liar, clock: Clock) -> None:
    liar.tricks[LOGIN] = liars.thinks
    members = [task(liar, redfish_system_id=f"/redfish/v1/Systems/{n}") for n in range(8)]
    with futures.ThreadPoolExecutor(8) as pool:
        for told in [pool.submit(denied, member) for member in members]:
            told.result(30)
    assert liar.log.count(LOGIN) == 1


def test_another_password_is_tried_at_once(liar: liars.Liar, clock: Clock) -> None:
    denied(task(liar))
    assert POWER.get_power_state(task(liar, "right")) == base.POWER_OFF


def test_login_fixed_on_the_bmc_is_tried_again_after_a_while(
    liar: liars.Liar, clock: Clock
) -> None:
    wanted = task(liar)
    denied(wanted)
    liar.users = {"root": "wrong"}
    clock.now += sessions.REFUSED_SECONDS
    assert POWER.get_power_state(wanted) == base.POWER_OFF
    liar.users = {"root": "right"}
    liar.forget_sessions()
    denied(wanted)
    denied(wanted, f"credentials for {sessions.REFUSED_SECONDS:g} s")


def test_a_session_that_runs_out_under_a_changed_password_is_one_refusal(
    liar: liars.Liar, clock: Clock
) -> None:
    wanted = task(liar, "right")
    POWER.get_power_state(wanted)
    liar.users = {"root": "newer"}
    liar.forget_sessions()
    for _ in range(3):
        denied(wanted)
    assert liar.log.count(LOGIN) == 2


def test_rights_that_are_missing_are_asked_for_again(liar: liars.Liar, clock: Clock) -> None:
    wanted = task(liar, "right")
    for _ in range(2):
        liar.tricks[f"GET {liars.SYSTEM}"] = liars.says(403)
        denied(wanted, "does not allow this to user root")
    del liar.tricks[f"GET {liars.SYSTEM}"]
    assert POWER.get_power_state(wanted) == base.POWER_OFF


@pytest.mark.parametrize("kind", ["basic", "session", "auto"])
def test_a_bmc_that_echoes_the_password_does_not_get_it_into_the_log(
    liar: liars.Liar, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.DEBUG)
    wanted = task(liar, "hush-hush")
    wanted.node.driver_info["redfish_auth_type"] = kind
    said = {"MessageId": "Base.1.8.InsufficientPrivilege", "MessageArgs": ["root", "hush-hush"]}
    error = {"message": "No such password: hush-hush", "@Message.ExtendedInfo": [said]}
    liar.tricks["* *"] = liars.says(401, {"error": error})
    liar.tricks[f"GET {liars.ROOT}"] = liars.Handler.truth
    denied(wanted, "No such password: [*]+")
    told = "\n".join((caplog.text, *map(str, (one.args for one in caplog.records))))
    assert "No such password" in told
    assert "hush-hush" not in told


# -- the memory of refusals -----------------------------------------------------------------------


def left(refusals: sessions.Refusals, login: str) -> str | None:
    try:
        refusals.check(login)
    except errors.BmcAccessDenied as why:
        assert why.message.startswith(WHY.message)
        return why.message.partition("credentials for ")[2].partition(" ")[0]
    return None


def test_pauses_double_up_to_a_bound() -> None:
    clock = Clock()
    refusals = sessions.Refusals(clock)
    pauses = []
    for _ in range(5):
        refusals.note("one", WHY)
        pauses.append(left(refusals, "one"))
        clock.now += sessions.REFUSED_LONGEST
        assert left(refusals, "one") is None
    assert pauses == ["60", "120", "240", "300", "300"]
    assert left(refusals, "other") is None
    refusals.forget("one")
    refusals.note("one", WHY)
    assert left(refusals, "one") == "60"


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_REMEMBERED", 2)
    refusals = sessions.Refusals(time.monotonic)
    for login in "abc":
        refusals.note(login, WHY)
    assert [left(refusals, login) is None for login in "abc"] == [True, False, False]
