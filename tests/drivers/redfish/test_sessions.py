"""Logins at BMCs: kept, shared, renewed, bounded; one thread at a time."""

from __future__ import annotations

import logging
import pathlib
import threading
import time
from collections.abc import Callable
from concurrent import futures
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base, deadline
from ironic_lite.drivers.redfish import hardware, management, power
from ironic_lite.drivers.redfish.bmc import connection, transport
from tests.emulators import liar as liars
from tests.emulators import redfish
from tests.support import bmc_tasks

POWER = power.RedfishPower()
LOGIN = f"POST {liars.SESSIONS}"
READ = f"GET {liars.SYSTEM}"


def member(liar: liars.Liar, **driver_info: Any) -> bmc_tasks.BmcTask:
    """Return a task that logs in as root."""
    liar.users = {"root": "secret"}
    login = {"redfish_username": "root", "redfish_password": "secret"}
    return bmc_tasks.task_at(liar.address, **{**login, **driver_info})


@pytest.fixture
def cache_of() -> Any:
    def bound(size: int) -> None:
        config.CONF.set_override("connection_cache_size", size, group="redfish")

    yield bound
    config.CONF.clear_override("connection_cache_size", group="redfish")


def test_a_power_read_on_a_known_bmc_is_one_request(liar: liars.Liar) -> None:
    task = member(liar)
    POWER.get_power_state(task)
    liar.log.clear()
    for _ in range(3):
        POWER.get_power_state(task)
    assert liar.log == [READ] * 3
    assert liar.logins == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_login_and_changes_follow_a_redirection_to_the_same_path_with_a_slash(
    liar: liars.Liar, status: int
) -> None:
    liar.habits.redirects = status
    task = member(liar, redfish_auth_type="session")
    POWER.set_power_state(task, base.POWER_ON)
    assert (liar.logins, liar.sent) == (1, ["On"])
    asked = [one for one in liar.requests if one.title == f"{LOGIN}/"]
    assert [one.body for one in asked] == [{"UserName": "root", "Password": "secret"}]


@pytest.mark.parametrize("place", ["http://other.example/Sessions/", f"{liars.SYSTEM}/", ""])
def test_login_that_is_redirected_elsewhere_falls_back_to_basic(
    liar: liars.Liar, place: str
) -> None:
    liar.tricks[LOGIN] = liars.says(301, Location=place) if place else liars.says(301)
    task = member(liar)
    assert POWER.get_power_state(task) == base.POWER_OFF
    assert liar.requests[-1].headers["Authorization"].startswith("Basic ")
    if place:
        with pytest.raises(errors.BmcBadAnswer, match="redirects"):
            POWER.get_power_state(member(liar, redfish_auth_type="session"))


@pytest.mark.parametrize("status", [503, 429])
@pytest.mark.parametrize("title", [LOGIN, READ, f"POST {liars.RESET}"])
def test_request_is_sent_again_when_the_bmc_wants_it(
    liar: liars.Liar, title: str, status: int
) -> None:
    liar.tricks[title] = liars.says_first(4, liars.says(status, Retry_After="30"))
    task = member(liar)
    POWER.set_power_state(task, base.POWER_ON)
    assert liar.sent == ["On"]
    assert task.pauses[:4] == [30, 30, 30, 30]
    assert liar.requests[-1].headers["X-Auth-Token"]


@pytest.mark.parametrize(
    ("told", "date", "pauses"),
    [
        ("0", None, [1.0, 1.0, 1.0]),
        ("100000", None, [120.0, 120.0]),
        ("Sun, 06 Nov 1994 08:50:07 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", [30.0, 30.0, 30.0]),
        ("Sun, 06 Nov 1994 08:50:07 GMT", None, [1.0, 1.0, 1.0]),
    ],
)
def test_pauses_that_a_bmc_asks_for_are_bounded(
    liar: liars.Liar, told: str, date: str | None, pauses: list[float]
) -> None:
    def early(handler: liars.Handler) -> None:
        handler.send_response_only(503)
        for name, value in {"Retry-After": told, "Date": date, "Content-Length": "0"}.items():
            if value is not None:
                handler.send_header(name, value)
        handler.end_headers()

    liar.tricks[READ] = liars.says_first(3, early)
    task = member(liar)
    if told == "100000":
        with pytest.raises(errors.BmcUnreachable, match="is not ready: HTTP 503"):
            POWER.get_power_state(task)
    else:
        POWER.get_power_state(task)
    assert task.pauses == pauses


def test_caller_with_little_time_does_not_wait_as_long_as_the_bmc_wants(liar: liars.Liar) -> None:
    liar.tricks[READ] = liars.says(503, Retry_After="30")
    with deadline.until(5), pytest.raises(errors.BmcUnreachable, match="is not ready"):
        POWER.get_power_state(member(liar))
    assert liar.log.count(READ) == 1


def test_a_session_that_ran_out_is_renewed_unseen(liar: liars.Liar) -> None:
    task = member(liar)
    POWER.get_power_state(task)
    liar.forget_sessions()
    assert POWER.get_power_state(task) == base.POWER_OFF
    assert liar.logins == 2


def test_a_session_that_ran_out_is_renewed_unseen_even_for_a_change(liar: liars.Liar) -> None:
    task = member(liar)
    POWER.get_power_state(task)

    def expire(handler: liars.Handler) -> None:
        liar.forget_sessions()
        handler.truth()

    liar.tricks[f"POST {liars.RESET}"] = liars.says_first(1, expire)
    POWER.set_power_state(task, base.POWER_ON)
    assert liar.sent == ["On"]
    assert liar.logins == 2


def test_a_bmc_that_gives_places_of_sessions_again_keeps_those_of_others_and_ours(
    liar: liars.Liar,
) -> None:
    liar.habits.session_numbers_again = True
    task = member(liar)
    POWER.get_power_state(task)

    def restart(handler: liars.Handler) -> None:
        liar.forget_sessions()
        liar.start_session("another")
        liars.hangs_up(handler)

    for trick in (restart, lambda _: liar.forget_sessions()):
        liar.tricks[READ] = liars.says_first(1, trick)
        for _ in range(2):
            assert POWER.get_power_state(task) == base.POWER_OFF
        users = sorted(session.user for session in liar.sessions.values())
        assert users == (["another", "root"] if trick is restart else ["root"])


def test_a_broken_connection_is_repaired_unseen_for_a_read_and_leaves_no_session_behind(
    liar: liars.Liar,
) -> None:
    task = member(liar)
    POWER.get_power_state(task)
    liar.tricks[READ] = liars.says_first(1, liars.hangs_up)
    assert POWER.get_power_state(task) == base.POWER_OFF
    assert liar.tokens == {"token-2"}


def test_a_change_that_may_have_happened_is_not_sent_twice(liar: liars.Liar) -> None:
    def reset_and_hang_up(handler: liars.Handler) -> None:
        liar.sent.append("once")
        handler.close_connection = True

    liar.power = "On"
    liar.tricks[f"POST {liars.RESET}"] = reset_and_hang_up
    with pytest.raises(errors.BmcUnreachable):
        POWER.set_power_state(member(liar), base.SOFT_POWER_OFF)
    assert liar.sent == ["once"]


def test_a_switch_is_sent_again_only_after_a_look_that_shows_it_did_not_happen(
    liar: liars.Liar,
) -> None:
    works = iter([False, True])

    def reset_and_hang_up(handler: liars.Handler) -> None:
        liar.sent.append("again")
        liar.power = "On" if next(works) else "Off"
        handler.close_connection = True

    liar.tricks[f"POST {liars.RESET}"] = reset_and_hang_up
    POWER.set_power_state(member(liar), base.POWER_ON)
    assert liar.sent == ["again"] * 2


def test_document_with_one_wrong_answer_is_read_again(liar: liars.Liar) -> None:
    liar.tricks[READ] = liars.says_first(1, liars.says(200, b"<html>"))
    assert POWER.get_power_state(member(liar)) == base.POWER_OFF


def test_basic_authentication_makes_no_session(liar: liars.Liar) -> None:
    POWER.get_power_state(member(liar, redfish_auth_type="basic"))
    assert LOGIN not in liar.log


def test_auto_falls_back_to_basic_where_there_are_no_sessions(liar: liars.Liar) -> None:
    liar.without_sessions()
    task = member(liar, redfish_auth_type="auto")
    assert POWER.get_power_state(task) == base.POWER_OFF


def test_session_does_not_fall_back_and_says_so(liar: liars.Liar) -> None:
    liar.without_sessions()
    with pytest.raises(errors.BmcBadAnswer, match="no session service; set redfish_auth_type"):
        POWER.get_power_state(member(liar, redfish_auth_type="session"))


def test_the_option_says_how_to_log_in_where_the_node_does_not(liar: liars.Liar) -> None:
    config.CONF.set_override("auth_type", "basic", group="redfish")
    try:
        POWER.get_power_state(member(liar))
    finally:
        config.CONF.clear_override("auth_type", group="redfish")
    assert LOGIN not in liar.log


def test_users_and_passwords_may_be_of_any_script(liar: liars.Liar) -> None:
    task = member(
        liar, redfish_username="Jürgen", redfish_password="密码", redfish_auth_type="basic"
    )
    liar.users = {"Jürgen": "密码"}
    assert POWER.get_power_state(task) == base.POWER_OFF


def test_the_emulator_with_users_lets_only_them_in(tmp_path: pathlib.Path) -> None:
    users = redfish.users(tmp_path, root="secret")
    with redfish.Emulator(auth_file=users) as bmc:
        for kind in ("basic", "auto"):
            task = bmc_tasks.task_at(
                bmc.address,
                redfish_username="root",
                redfish_password="secret",
                redfish_auth_type=kind,
            )
            assert POWER.get_power_state(task) == base.POWER_OFF
        wrong = bmc_tasks.task_at(bmc.address, redfish_username="root", redfish_password="x")
        with pytest.raises(errors.BmcAccessDenied, match="credentials of user root"):
            POWER.get_power_state(wrong)


# -- the cache --------------------------------------------------------------------------------


def test_nodes_of_one_bmc_share_a_session_and_keep_their_systems(liar: liars.Liar) -> None:
    other = "/redfish/v1/Systems/2"
    liar.tricks[f"GET {other}"] = liars.says(200, {"Id": "2", "PowerState": "On"})
    first = member(liar, redfish_system_id=liars.SYSTEM)
    second = member(liar, redfish_system_id=other)
    for _ in range(2):
        assert POWER.get_power_state(first) == base.POWER_OFF
        assert POWER.get_power_state(second) == base.POWER_ON
    assert liar.logins == 1


def test_a_new_password_is_a_new_session(liar: liars.Liar) -> None:
    POWER.get_power_state(member(liar))
    task = member(liar, redfish_password="newer")
    liar.users = {"root": "newer"}
    POWER.get_power_state(task)
    assert liar.logins == 2


def test_no_password_is_kept_in_a_key(liar: liars.Liar) -> None:
    POWER.get_power_state(member(liar))
    assert "secret" not in repr(list(connection.LINKS._links))


def test_beyond_its_bound_the_cache_logs_out_of_a_bmc(liar: liars.Liar, cache_of: Any) -> None:
    cache_of(2)
    with liars.Liar() as second, liars.Liar() as third:
        bmcs = (liar, second, third)
        for bmc in bmcs:
            POWER.get_power_state(member(bmc))
        assert len(connection.LINKS) == 2
        assert sorted(len(bmc.tokens) for bmc in bmcs) == [0, 1, 1]


def test_a_bmc_that_did_not_answer_takes_no_place_of_one_that_did(
    liar: liars.Liar, cache_of: Any
) -> None:
    cache_of(1)
    with liars.Liar() as sick:
        sick.tricks["GET *"] = liars.hangs_up
        for _ in range(5):
            POWER.get_power_state(member(liar))
            with pytest.raises(errors.BmcUnreachable):
                POWER.get_power_state(member(sick))
    assert (liar.logins, liar.tokens, len(connection.LINKS)) == (1, {"token-1"}, 1)


def test_a_bmc_whose_login_must_leave_holds_nobody_up_for_long(
    liar: liars.Liar, cache_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    def notes_its_time(link: connection.Link) -> None:
        limits.append(deadline.within(60.0))

    monkeypatch.setattr(connection.Link, "close", notes_its_time)
    with liars.Liar() as second:
        cache_of(1)
        POWER.get_power_state(member(liar))
        monkeypatch.setattr("random.randrange", lambda _count: 0)  # the other's
        POWER.get_power_state(member(second))
        cache_of(0)
        POWER.get_power_state(member(second))  # its own
    assert limits == [connection.EVICTION_SECONDS, 60.0]


def test_a_fleet_that_is_larger_than_the_cache_still_mostly_needs_no_login() -> None:
    """In a sweep all are used in the same order."""
    kept: dict[int, Any] = {}
    misses, rounds, fleet, most = 0, 20, 220, 200
    for number in list(range(fleet)) * rounds:
        misses += number not in kept
        kept[number] = kept.pop(number, SimpleNamespace(used=1.0))
        over = len(kept) - most
        if over > 0:
            kept.pop(next(connection.logins_to_close(kept, (), over=over, idle=0.0)))
    assert misses < 0.4 * fleet * rounds


def test_idle_sessions_are_evicted_first_then_those_without_a_login() -> None:
    links = {name: SimpleNamespace(used=float(at)) for at, name in enumerate("abcdef")}
    order = list(connection.logins_to_close(links, ["e"], over=3, idle=1.0))
    assert order[:3] == ["a", "b", "e"]
    assert sorted(order[3:]) == sorted(links)
    assert list(connection.logins_to_close(links, ["e"], over=0, idle=1.0)) == ["a", "b"]


def test_without_a_cache_each_call_logs_in_and_out(liar: liars.Liar, cache_of: Any) -> None:
    cache_of(0)
    task = member(liar)
    for _ in range(2):
        POWER.get_power_state(task)
    assert liar.logins == 2
    assert liar.tokens == set()
    assert len(connection.LINKS) == 0


def test_a_certificate_that_is_not_verified_is_told_once_not_at_each_login(
    certificate: tuple[pathlib.Path, pathlib.Path],
    cache_of: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache_of(0)
    with liars.Liar(tls=(str(certificate[0]), str(certificate[1]))) as bmc:
        for _ in range(3):
            POWER.get_power_state(member(bmc, redfish_verify_ca=False))
        assert bmc.logins == 3
    assert len([text for text in caplog.messages if "is not verified" in text]) == 1


# -- logging out ------------------------------------------------------------------------------


def test_a_conductor_that_stops_logs_out_of_all_bmcs(liar: liars.Liar) -> None:
    with liars.Liar() as second:
        for bmc in (liar, second):
            POWER.get_power_state(member(bmc))
        POWER.close()
        assert (liar.tokens, second.tokens, len(connection.LINKS)) == (set(), set(), 0)
        management.RedfishManagement().close()
        assert POWER.get_power_state(member(liar)) == base.POWER_OFF


@pytest.mark.parametrize("size", [1000, 0])
def test_login_of_a_call_that_failed_is_ended_too(
    liar: liars.Liar, cache_of: Any, size: int
) -> None:
    """The login is not used again after a fault, but the BMC would keep it for half an hour."""
    cache_of(size)
    liar.tricks[READ] = liars.says(500)
    with pytest.raises(errors.BmcBadAnswer):
        POWER.get_power_state(member(liar))
    POWER.close()
    assert liar.tokens == set()


def test_silent_bmc_holds_up_nobody_who_ends_its_login(
    liar: liars.Liar, cache_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_of(0)
    monkeypatch.setattr(connection, "EVICTION_SECONDS", 0.2)
    liar.tricks[READ] = liars.says(500)
    liar.tricks["DELETE *"] = liars.silent
    start = time.monotonic()
    with pytest.raises(errors.BmcBadAnswer):
        POWER.get_power_state(member(liar))
    assert time.monotonic() - start < 20


def test_bmcs_that_are_silent_hold_no_stop_up(
    liar: liars.Liar, monkeypatch: pytest.MonkeyPatch
) -> None:
    POWER.get_power_state(member(liar))
    liar.tricks["DELETE *"] = liars.silent
    monkeypatch.setattr(hardware, "CLOSE_SECONDS", 0.2)
    POWER.close()
    assert len(connection.LINKS) == 0


def test_a_login_that_nobody_uses_any_more_is_ended(
    liar: liars.Liar, monkeypatch: pytest.MonkeyPatch
) -> None:
    with liars.Liar() as other:
        POWER.get_power_state(member(liar))
        POWER.get_power_state(member(other))
        assert liar.tokens == {"token-1"}
        (first, _) = connection.LINKS._links.values()
        first.used -= connection.IDLE_SECONDS
        POWER.get_power_state(member(other))
        assert (liar.tokens, other.tokens) == (set(), {"token-1"})
        assert len(connection.LINKS) == 1


# -- threads ----------------------------------------------------------------------------------


def test_one_thread_at_a_time_speaks_to_a_bmc(liar: liars.Liar) -> None:
    task = member(liar)
    liar.tricks[READ] = liars.thinks
    with futures.ThreadPoolExecutor(8) as pool:
        states = list(pool.map(lambda _: POWER.get_power_state(task), range(40)))
    assert states == [base.POWER_OFF] * 40
    assert liar.most_at_once == 1
    assert liar.logins == 1


def test_a_silent_bmc_does_not_hold_up_another_one(liar: liars.Liar) -> None:
    asked = threading.Event()

    def silent(handler: liars.Handler) -> None:
        asked.set()
        liars.silent(handler)

    liar.tricks[READ] = silent
    with liars.Liar() as other, futures.ThreadPoolExecutor(1) as pool:
        lost = pool.submit(POWER.get_power_state, member(liar))
        assert asked.wait(60)
        assert POWER.get_power_state(member(other)) == base.POWER_OFF
        assert not lost.done()
        liar.server.stopping.set()
        with pytest.raises(errors.BmcUnreachable):
            lost.result(60)


def test_wait_for_a_busy_bmc_ends_with_an_error(
    liar: liars.Liar, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = member(liar)
    monkeypatch.setattr(connection, "_timeouts", lambda: (0.1, 0.1))
    with (
        connection.LINKS.held(connection.settings(task), task.confirm_lock),
        futures.ThreadPoolExecutor(1) as pool,
        pytest.raises(errors.BmcUnreachable, match=r"is busy: .* took more than 0\.2 s"),
    ):
        pool.submit(POWER.get_power_state, task).result(60)


def test_other_nodes_of_a_bmc_get_their_turn_while_a_machine_changes_its_power(
    liar: liars.Liar,
) -> None:
    liar.stuck = True
    looked = threading.Event()
    other = "/redfish/v1/Systems/2"
    liar.tricks[f"GET {other}"] = liars.says(200, {"Id": "2", "PowerState": "On"})

    def look(handler: liars.Handler) -> None:
        if liar.sent:
            looked.set()
        handler.truth()

    liar.tricks[READ] = look
    slow = member(liar, redfish_system_id=liars.SYSTEM)
    with futures.ThreadPoolExecutor(1) as pool:
        change = pool.submit(POWER.set_power_state, slow, base.POWER_ON, 20)
        assert looked.wait(60)
        assert POWER.get_power_state(member(liar, redfish_system_id=other)) == base.POWER_ON
        assert not change.done()
        liar.power = "On"
        change.result(60)


# Logins that a BMC refuses: nobody is locked out by us, and a corrected login is tried at once.

WHY = errors.BmcAccessDenied(address="https://bmc", user="root")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    told = Clock()
    monkeypatch.setattr(connection.LINKS, "refusals", connection.RefusedLogins(told))
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
    clock.now += connection.REFUSED_SECONDS
    assert POWER.get_power_state(wanted) == base.POWER_OFF
    liar.users = {"root": "right"}
    liar.forget_sessions()
    denied(wanted)
    denied(wanted, f"credentials for {connection.REFUSED_SECONDS:g} s")


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


def left(refusals: connection.RefusedLogins, login: str) -> str | None:
    try:
        refusals.check(login)
    except errors.BmcAccessDenied as why:
        assert why.message.startswith(WHY.message)
        return why.message.partition("credentials for ")[2].partition(" ")[0]
    return None


def test_pauses_double_up_to_a_bound() -> None:
    clock = Clock()
    refusals = connection.RefusedLogins(clock)
    pauses = []
    for _ in range(5):
        refusals.note("one", WHY)
        pauses.append(left(refusals, "one"))
        clock.now += connection.REFUSED_LONGEST
        assert left(refusals, "one") is None
    assert pauses == ["60", "120", "240", "300", "300"]
    assert left(refusals, "other") is None
    refusals.forget("one")
    refusals.note("one", WHY)
    assert left(refusals, "one") == "60"


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_REMEMBERED", 2)
    refusals = connection.RefusedLogins(time.monotonic)
    for login in "abc":
        refusals.note(login, WHY)
    assert [left(refusals, login) is None for login in "abc"] == [True, False, False]


def test_facts_of_the_system_are_read_once_between_changes_and_pauses(liar: liars.Liar) -> None:
    task, manage = member(liar), management.RedfishManagement()

    def reads(act: Callable[[base.Task], object], of: base.Task = task) -> int:
        liar.log.clear()
        act(of)
        return liar.log.count(READ)

    assert reads(POWER.get_power_state) == 1
    assert reads(manage.get_identity) == reads(manage.detect_vendor) == 0
    assert reads(POWER.get_power_state) == 1  # a power state is never a known one
    task.pause(1)
    assert [reads(manage.get_identity), reads(manage.get_identity)] == [1, 0]
    assert reads(manage.get_identity, member(liar)) == 1
    manage.set_boot_device(task, "pxe")
    assert reads(manage.get_identity) == 1
    liar.tricks[f"PATCH {liars.SYSTEM}"] = liars.says(500)
    with pytest.raises(errors.HardwareError):
        manage.set_boot_device(task, "disk")
    assert reads(manage.get_identity) == 1


# -- connections ----------------------------------------------------------------------------------

PATCH = f"PATCH {liars.SYSTEM}"


@pytest.fixture
def ports(liar: liars.Liar, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A list of (port of the connection, title) of each request to a BMC that keeps them."""
    found: list[tuple[int, str]] = []

    def note(handler: liars.Handler) -> None:
        found.append((handler.client_address[1], handler.request_read.title))
        handler.truth()

    monkeypatch.setattr(liars.Handler, "protocol_version", "HTTP/1.1")
    liar.tricks["*"] = note
    yield found
    transport.KEPT.close()


def connections(ports: list[tuple[int, str]]) -> int:
    return len({port for port, _ in ports})


def test_requests_of_a_login_share_a_connection(liar: liars.Liar, ports: Any) -> None:
    task = member(liar)
    POWER.get_power_state(task)  # until it is known that the BMC keeps one, a POST has its own
    ports.clear()
    for _ in range(3):
        POWER.get_power_state(task)
        management.RedfishManagement().set_boot_device(task, "pxe")
    assert connections(ports) == 1
    assert not any(one.headers["Connection"] for one in liar.requests)


@pytest.mark.parametrize("of_node", [True, False])
def test_connections_are_not_kept_where_that_is_switched_off(
    liar: liars.Liar, ports: Any, of_node: bool
) -> None:
    if not of_node:
        config.CONF.set_override("keep_connections", False, group="redfish")
    try:
        task = member(liar, **({"redfish_keep_connections": "false"} if of_node else {}))
        for _ in range(3):
            POWER.get_power_state(task)
    finally:
        config.CONF.clear_override("keep_connections", group="redfish")
    assert connections(ports) == len(ports)
    assert {one.headers["Connection"] for one in liar.requests} == {"close"}


def test_changed_credentials_and_addresses_use_new_connections(
    liar: liars.Liar, ports: Any
) -> None:
    POWER.get_power_state(member(liar))
    before = {port for port, _ in ports}
    ports.clear()
    other = member(liar, redfish_password="new")
    liar.users = {"root": "new"}
    POWER.get_power_state(other)
    assert before.isdisjoint(port for port, _ in ports)
    with liars.Liar() as moved:
        POWER.get_power_state(member(moved, redfish_address=moved.address))
        assert READ in moved.log
        transport.KEPT.close()


def test_threads_of_one_bmc_share_one_connection(liar: liars.Liar, ports: Any) -> None:
    task = member(liar)
    for _ in range(2):
        POWER.get_power_state(task)
    ports.clear()
    with futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: POWER.get_power_state(task), range(24)))
    assert (connections(ports), len(ports), liar.most_at_once) == (1, 24, 1)


def test_change_lost_on_a_kept_connection_is_not_sent_again(liar: liars.Liar, ports: Any) -> None:
    task = member(liar)
    for _ in range(2):
        POWER.get_power_state(task)
    liar.tricks[PATCH] = liars.hangs_up
    with pytest.raises(errors.BmcUnreachable):
        management.RedfishManagement().set_boot_device(task, "pxe")
    assert liar.log.count(PATCH) == 1


def test_read_lost_on_a_kept_connection_is_sent_again_at_once(liar: liars.Liar, ports: Any) -> None:
    task = member(liar)
    for _ in range(2):
        POWER.get_power_state(task)
    liar.tricks[READ] = liars.says_first(1, liars.hangs_up)
    assert POWER.get_power_state(task) == base.POWER_OFF
    assert (liar.logins, task.pauses) == (1, [])


def test_reset_of_a_bmc_is_not_lost_on_a_kept_connection(liar: liars.Liar, ports: Any) -> None:
    """Its missing answer means that the BMC obeyed, so the BMC must have read it."""
    task = member(liar)
    for _ in range(2):
        POWER.get_power_state(task)

    def hang_up_if_kept(handler: liars.Handler) -> None:
        kept = handler.client_address[1] in {port for port, _ in ports}
        (liars.hangs_up if kept else liars.Handler.truth)(handler)

    liar.tricks[f"POST {liars.MANAGER}/Actions/Manager.Reset"] = hang_up_if_kept
    management.RedfishManagement().restart_bmc(task)
    assert liar.restarts == ["GracefulRestart"]


def test_connections_that_nobody_can_use_are_closed(liar: liars.Liar, ports: Any) -> None:
    def count() -> int:
        port = int(liar.address.rpartition(":")[2])
        found = psutil.Process().net_connections("tcp")
        return sum(bool(one.raddr) and one.raddr[1] == port for one in found)

    task = member(liar)
    list(power.find_root(task))
    assert count() == 0
    POWER.get_power_state(task)
    assert count() == 1
    connection.LINKS.close(60)
    assert count() == 0
    POWER.get_power_state(task)
    liar.tricks[READ] = liars.says(500)
    with pytest.raises(errors.BmcBadAnswer):
        POWER.get_power_state(task)
    assert count() == 0
