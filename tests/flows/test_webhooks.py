"""Webhooks against receivers that work, fail, hang, redirect, or lie at a closed address."""

from __future__ import annotations

import base64
import contextlib
import datetime
import functools
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.features.webhooks import rows, rules
from ironic_lite.features.webhooks.work import Answer, WebhookWork
from tests.support.conductor_fixture import ConductorFixture, wait_for
from tests.support.webhook_receiver import (
    SECRET,
    Receiver,
    add_events,
    add_hook,
    allow_loopback,
    change,
    get,
    sweep_until,
)

pytestmark = pytest.mark.feature("webhooks")


class Dying(WebhookWork):
    """Never writes the result of a try."""

    def record(self, row: Any, answer: Any) -> bool:
        del row, answer
        raise errors.Unavailable


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().serving() as made:
        yield made


@pytest.fixture
def served(rig: ConductorFixture) -> WebhookWork:
    return allow_loopback(rig)


def test_events_arrive_in_order_and_signed(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    add_events(rig, 250)
    hook = add_hook(rig, receiver.url)
    sweep_until(served, lambda: len(receiver.cursors()) == 250)
    assert receiver.cursors() == sorted(set(receiver.cursors()))
    assert [len(json.loads(body)["data"]["events"]) for _, body in receiver.got] == [100, 100, 50]
    for headers, body in receiver.got:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        wanted = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        assert headers["webhook-signature"] == f"v1,{wanted}"
    wait_for(lambda: get(rig, hook)["position"] == receiver.cursors()[-1])


def test_delivery_names_changed_fields_without_values(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    change = {"path": "description", "old": "words before", "new": "words after"}
    data = {"fields": ["description"], "changes": [change]}
    add_hook(rig, receiver.url, kinds=["node_updated"])
    add_events(rig, 1, kind="node_updated", data=data)
    sweep_until(served, lambda: len(receiver.got) == 1)
    body = json.loads(receiver.got[0][1])
    assert [event["data"] for event in body["data"]["events"]] == [{"fields": ["description"]}]


def test_failed_delivery_holds_later_events_and_is_repeated_under_its_id(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    receiver.status = 503
    add_events(rig, 3)
    hook = add_hook(rig, receiver.url)
    sweep_until(served, lambda: get(rig, hook)["tries"] == 1)
    add_events(rig, 2)
    for _ in range(3):
        served.sweep()
    assert len(receiver.got) == 1
    row = get(rig, hook)
    assert row["last_status"] == 503
    assert row["failing_since"] is not None
    assert row["not_before"] > clock.now()
    receiver.status = 204
    change(rig, hook, not_before=None)
    sweep_until(served, lambda: len(receiver.cursors()) == 3 + 3 + 2)
    first, second, third = (headers["webhook-id"] for headers, _ in receiver.got)
    assert first == second != third
    assert receiver.got[0][1] == receiver.got[1][1]


@pytest.mark.parametrize(("ahead", "status"), [(3600, None), (3605, 503)])
def test_time_of_a_wrong_clock_postpones_no_retry(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver, ahead: float, status: int | None
) -> None:
    """The pause after the first try is at most 6 s, or an hour if the answer asked for it."""
    add_events(rig, 1)
    hook = add_hook(rig, receiver.url, tries=1, last_status=status, not_before=clock.after(ahead))
    sweep_until(served, lambda: len(receiver.got) == 1)
    wait_for(lambda: get(rig, hook)["position"] > 0)


@pytest.mark.parametrize(("ahead", "status"), [(5, None), (3500, 503)])
def test_retry_waits_for_its_time(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver, ahead: float, status: int | None
) -> None:
    add_events(rig, 1)
    add_hook(rig, receiver.url, tries=1, last_status=status, not_before=clock.after(ahead))
    for _ in range(3):
        served.sweep()
    assert receiver.got == []


def test_conductor_that_dies_after_the_post_repeats_the_delivery(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    add_events(rig, 2)
    hook = add_hook(rig, receiver.url)

    Dying(rig.service.runtime, rig.service.ownership).sweep()
    wait_for(lambda: len(receiver.got) == 1)
    assert get(rig, hook)["position"] == 0
    add_events(rig, 1)
    sweep_until(served, lambda: len(receiver.got) == 3)
    assert receiver.got[0][0]["webhook-id"] == receiver.got[1][0]["webhook-id"]
    assert len(receiver.cursors()) == 2 + 2 + 1


def test_webhook_is_served_after_a_thread_could_not_start(
    rig: ConductorFixture,
    served: WebhookWork,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    add_events(rig, 1)
    hook = add_hook(rig, receiver.url)
    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(threading.Thread, "start", refuse)
        served.sweep()
    assert get(rig, hook)["position"] == 0
    sweep_until(served, lambda: len(receiver.got) == 1)


def test_receiver_that_is_gone_suspends_and_a_resumed_one_gets_everything(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    receiver.status = 410
    add_events(rig, 2)
    hook = add_hook(rig, receiver.url)
    sweep_until(served, lambda: get(rig, hook)["state"] == "suspended")
    receiver.status = 200
    served.sweep()
    assert len(receiver.got) == 1
    change(rig, hook, state="active", not_before=None)
    sweep_until(served, lambda: len(receiver.got) >= 2)
    assert receiver.got[0][1] == receiver.got[1][1]


@pytest.mark.parametrize(("hours", "state"), [(71, "active"), (72, "suspended")])
def test_webhook_is_suspended_after_three_days_of_failures(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver, hours: int, state: str
) -> None:
    receiver.status = 503
    add_events(rig, 1)
    hook = add_hook(rig, receiver.url, failing_since=clock.after(-3600 * hours))
    sweep_until(served, lambda: get(rig, hook)["tries"] == 1)
    assert get(rig, hook)["state"] == state


def test_clock_that_is_corrected_suspends_no_webhook(
    rig: ConductorFixture,
    served: WebhookWork,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As that of a machine which begins in 1970, until it has asked a time server."""
    ahead = [datetime.timedelta(days=-10_000)]

    def wall() -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC).replace(tzinfo=None) + ahead[0]

    monkeypatch.setattr(clock, "_CLOCK", clock.Clock(wall, time.monotonic))
    receiver.status = 503
    add_events(rig, 1)
    hook = add_hook(rig, receiver.url)
    sweep_until(served, lambda: get(rig, hook)["tries"] == 1)
    ahead[0] = datetime.timedelta()
    sweep_until(served, lambda: get(rig, hook)["tries"] == 2)
    assert get(rig, hook)["state"] == "active"


def test_refused_delivery_is_put_aside_after_ten_tries(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    receiver.status = 422
    add_events(rig, 1)
    hook = add_hook(rig, receiver.url, refusals=9)
    change(rig, hook, first=1, last=1)
    sweep_until(served, lambda: get(rig, hook)["position"] == 1)
    (aside,) = rig.database.read(lambda conn: rows.failures(conn, hook))
    assert (aside["first"], aside["last"], aside["status"]) == (1, 1, 422)
    assert aside["answer"] == "status 422 as told"
    assert get(rig, hook)["state"] == "active"


def test_receiver_that_refuses_every_delivery_fills_no_log(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.status = 422
    add_events(rig, 3)
    hook = add_hook(rig, receiver.url)
    for number in (1, 2, 3):
        change(rig, hook, first=number, last=number, refusals=9, not_before=None)
        sweep_until(served, lambda done=number: get(rig, hook)["position"] == done)
    assert len(rig.database.read(lambda conn: rows.failures(conn, hook))) == 3
    assert caplog.text.count("is put aside") == 1


def test_redirection_is_a_failure(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    receiver.status, receiver.headers = 307, {"Location": receiver.url + "/other"}
    add_events(rig, 1)
    hook = add_hook(rig, receiver.url)
    sweep_until(served, lambda: get(rig, hook)["tries"] == 1)
    assert len(receiver.got) == 1
    assert get(rig, hook)["last_status"] == 307


def test_replay_during_a_delivery_wins(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    add_events(rig, 2)
    hook = add_hook(rig, receiver.url)
    row = get(rig, hook)
    change(rig, hook, state="paused")
    assert served.deliver(row) is False
    assert receiver.got == []
    assert get(rig, hook)["position"] == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_closed_address_is_not_connected_to(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver, host: str
) -> None:
    rig.service.runtime.conf.set_override("allowed_networks", [], "webhooks")
    add_events(rig, 1)
    hook = add_hook(rig, receiver.url.replace("127.0.0.1", host))
    sweep_until(served, lambda: get(rig, hook)["tries"] == 1)
    assert receiver.got == []
    assert "allowed_networks" in get(rig, hook)["last_error"]


def test_blocked_network_is_closed_within_an_allowed_one(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    rig.service.runtime.conf.set_override("blocked_networks", ["127.0.0.1/32"], "webhooks")
    add_events(rig, 1)
    hook = add_hook(rig, receiver.url)
    sweep_until(served, lambda: get(rig, hook)["tries"] == 1)
    assert receiver.got == []
    assert "blocked_networks" in get(rig, hook)["last_error"]


def trickle(listener: socket.socket, beginning: bytes, part: bytes, pause: float) -> None:
    with contextlib.suppress(OSError):
        taken, _ = listener.accept()
        with taken:
            taken.recv(65536)
            taken.sendall(beginning)
            while part:
                taken.sendall(part)
                time.sleep(pause)


@pytest.mark.parametrize(
    "odd",
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"y", 0.1, None),
        (b"HTTP/1.1 500 No\r\n\r\n", b"z" * 65536, 0.0, 500),
        (b"HTTP/1.1 500 No\r\n\r\n", b"z", 0.1, 500),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"z" * 65536, 0.0, 200),
        (b"HTTP/1.1 20", b"", 0.0, None),
        (b"", b"", 0.0, None),
    ],
)
@pytest.mark.usefixtures("served")
def test_odd_receiver_is_left_in_time(
    rig: ConductorFixture, odd: tuple[bytes, bytes, float, int | None]
) -> None:
    beginning, part, pause, status = odd
    hasty = WebhookWork(rig.service.runtime, rig.service.ownership, seconds=0.5)
    add_events(rig, 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        act = functools.partial(trickle, listener, beginning, part, pause)
        threading.Thread(target=act, daemon=True).start()
        hook = add_hook(rig, f"http://127.0.0.1:{listener.getsockname()[1]}/")
        sweep_until(hasty, lambda: get(rig, hook)["generation"] == 3)
    row = get(rig, hook)
    assert row["last_status"] == status
    assert (row["position"] == 1) is (status == 200)


def test_filters_choose_events_and_quiet_webhooks_move(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    add_events(rig, 1200)
    add_events(rig, 1, kind="fault")
    hook = add_hook(rig, receiver.url, kinds=["fault"])
    quiet = add_hook(rig, receiver.url, kinds=["overdue"])
    sweep_until(served, lambda: get(rig, hook)["position"] == get(rig, quiet)["position"] == 1201)
    assert receiver.cursors() == [1201]


def test_secret_that_was_replaced_signs_for_a_day() -> None:
    now = clock.now()
    stored = rules.replaced({"current": SECRET}, now)
    assert rules.signing(stored, now) == (stored["current"], SECRET)
    assert rules.signing(stored, now + rules.OLD_SECRET) == (stored["current"],)


def test_signature_is_that_of_standard_webhooks() -> None:
    # The example of the specification's reference libraries.
    made = rules.signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("status", [None, 400], ids=["failed", "put aside"])
def test_secret_in_the_reason_of_a_failure_is_masked(
    rig: ConductorFixture,
    served: WebhookWork,
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
    status: int | None,
) -> None:
    hook = add_hook(rig, receiver.url)
    change(rig, hook, refusals=rules.MOST_REFUSALS - 1, first=1, last=1)
    said = "no answer of https://hooks.example/x?sig=hunter22, token=hunter22"
    row = rig.database.read(lambda conn: rows.get(conn, hook))
    served.record(row, Answer(status, said))
    shown = get(rig, hook)["last_error"]
    put_aside = rig.database.read(lambda conn: rows.failures(conn, hook))
    assert "******" in shown
    assert len(put_aside) == (status is not None)
    assert "hunter" not in f"{shown} {put_aside} {caplog.text}"
