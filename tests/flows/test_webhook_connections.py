"""Connections to receivers: TLS, names that change their address, slow ones, several conductors."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.db.tables import models
from ironic_lite.features.webhooks import rules
from ironic_lite.features.webhooks.work import WebhookWork
from tests.support import certificates
from tests.support.conductor_fixture import ConductorFixture, wait_for
from tests.support.statements import count_statements
from tests.support.webhook_receiver import (
    Receiver,
    add_events,
    add_hook,
    allow_loopback,
    change,
    get,
    sweep_until,
)

pytestmark = pytest.mark.feature("webhooks")

SLOW = 20
"""Webhooks whose receivers are slow; more than a pool of a few threads."""


@pytest.fixture
def served(rig: ConductorFixture) -> WebhookWork:
    return allow_loopback(rig)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().serving() as made:
        yield made


# -- certificates ----------------------------------------------------------------------------


def test_private_authority_is_trusted_by_its_option(
    rig: ConductorFixture, served: WebhookWork, tmp_path: pathlib.Path
) -> None:
    files = certificates.write(tmp_path, 30)
    rig.service.runtime.conf.set_override("webserver_verify_ca", str(files[0]))
    with Receiver(tls=files).serving() as receiver:
        add_events(rig, 2)
        hook = add_hook(rig, receiver.url)
        sweep_until(served, lambda: get(rig, hook)["position"] == 2)
    assert receiver.cursors() == [1, 2]
    assert get(rig, hook)["last_status"] == 200


@pytest.mark.parametrize(
    "given",
    [
        {"days": 30, "trusted": False, "host": "127.0.0.1", "reason": "self"},
        {"days": -1, "trusted": True, "host": "127.0.0.1", "reason": "expired"},
        {"days": 30, "trusted": True, "host": "localhost", "reason": "localhost"},
    ],
    ids=["foreign authority", "expired", "other name"],
)
def test_untrusted_certificate_is_a_failure_with_its_reason(
    rig: ConductorFixture, served: WebhookWork, tmp_path: pathlib.Path, given: Any
) -> None:
    files = certificates.write(tmp_path, given["days"])
    if given["trusted"]:
        rig.service.runtime.conf.set_override("webserver_verify_ca", str(files[0]))
    with Receiver(tls=files).serving() as receiver:
        add_events(rig, 1)
        hook = add_hook(rig, receiver.url.replace("127.0.0.1", given["host"]))
        sweep_until(served, lambda: get(rig, hook)["tries"] == 1)
    row = get(rig, hook)
    assert receiver.got == []
    assert row["last_status"] is None
    assert row["failing_since"] is not None
    assert "certificate refused" in row["last_error"]
    assert given["reason"] in row["last_error"]
    assert "[DEFAULT]webserver_verify_ca" in row["last_error"]


def test_missing_file_of_authorities_is_named(
    rig: ConductorFixture, served: WebhookWork, tmp_path: pathlib.Path
) -> None:
    missing = str(tmp_path / "none.pem")
    rig.service.runtime.conf.set_override("webserver_verify_ca", missing)
    add_events(rig, 1)
    hook = add_hook(rig, "https://127.0.0.1:9/metal")
    sweep_until(served, lambda: get(rig, hook)["tries"] == 1)
    assert missing in get(rig, hook)["last_error"]


# -- names -----------------------------------------------------------------------------------


class Resolver:
    """Resolves a name of the test, and leaves all others to the system."""

    name = "hooks.example.org"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[str] = []
        self.asked = 0
        self.free = threading.Event()
        self.free.set()
        self._system = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self)

    def __call__(self, host: Any, *words: Any, **more: Any) -> Any:
        if host != self.name:
            return self._system(host, *words, **more)
        self.asked += 1
        assert self.free.wait(60)
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        # The last one stays.
        address = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
        return self._system(address, *words, **more)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    made = Resolver(monkeypatch)
    yield made
    made.free.set()


def test_name_that_changes_to_a_blocked_address_is_refused(
    rig: ConductorFixture, served: WebhookWork, resolver: Resolver
) -> None:
    rig.service.runtime.conf.set_override("blocked_networks", ["127.0.0.2/32"], "webhooks")
    resolver.addresses = ["127.0.0.1", "127.0.0.2"]
    with Receiver("0.0.0.0").serving() as receiver:
        add_events(rig, 1)
        hook = add_hook(rig, f"http://{resolver.name}:{receiver.port}/")
        sweep_until(served, lambda: get(rig, hook)["position"] == 1)
        assert resolver.asked == 1  # the address that was checked is the one connected to
        add_events(rig, 1)
        sweep_until(served, lambda: get(rig, hook)["tries"] == 1)
    assert receiver.addresses == ["127.0.0.1"]
    assert resolver.asked == 2
    row = get(rig, hook)
    assert row["position"] == 1
    assert "127.0.0.2 is in 127.0.0.2/32" in row["last_error"]


def test_slow_resolver_delays_no_other_webhook(
    rig: ConductorFixture, served: WebhookWork, resolver: Resolver, receiver: Receiver
) -> None:
    resolver.free.clear()
    add_events(rig, 1)
    slow = [add_hook(rig, f"http://{resolver.name}/") for _ in range(SLOW)]
    sweep_until(served, lambda: resolver.asked == SLOW)
    hook = add_hook(rig, receiver.url)
    sweep_until(served, lambda: get(rig, hook)["position"] == 1)
    assert [get(rig, one)["tries"] for one in slow] == [0] * SLOW
    assert resolver.asked == SLOW  # a try under way is not begun again
    resolver.free.set()
    wait_for(lambda: all(get(rig, one)["tries"] == 1 for one in slow))
    assert get(rig, slow[0])["last_error"] == "no answer: gaierror"


# -- slow receivers --------------------------------------------------------------------------


@contextlib.contextmanager
def trickling() -> Iterator[str]:
    """Serve heads without an end, a byte at a time; yield the URL."""
    closing = threading.Event()

    def trickle(taken: socket.socket) -> None:
        with contextlib.suppress(OSError), taken:
            taken.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not closing.wait(0.05):
                taken.sendall(b"y")

    def accept(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=trickle, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=SLOW) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            closing.set()
            listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.usefixtures("served")
def test_trickling_receivers_delay_no_other_webhook(
    rig: ConductorFixture, receiver: Receiver
) -> None:
    patient = WebhookWork(rig.service.runtime, rig.service.ownership, seconds=5)
    add_events(rig, 1)
    with trickling() as url:
        begun = time.monotonic()
        slow = [add_hook(rig, url) for _ in range(SLOW)]
        sweep_until(patient, lambda: all(get(rig, one)["first"] == 1 for one in slow))
        hook = add_hook(rig, receiver.url)
        sweep_until(patient, lambda: get(rig, hook)["position"] == 1)
        if time.monotonic() - begun < 5:
            assert [get(rig, one)["tries"] for one in slow] == [0] * SLOW
        wait_for(lambda: all(get(rig, one)["tries"] == 1 for one in slow))
    assert {get(rig, one)["last_status"] for one in slow} == {None}


# -- sweeps ----------------------------------------------------------------------------------


def test_sweep_without_webhooks_is_one_statement(
    rig: ConductorFixture, served: WebhookWork
) -> None:
    add_events(rig, 3)
    with count_statements(rig.database) as sent:
        served.sweep()
    assert len(sent) == 1, sent


def test_sweep_with_waiting_webhooks_does_not_grow_with_their_number(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    paused = [add_hook(rig, receiver.url, state="paused") for _ in range(rules.MOST)]
    served.sweep()
    with count_statements(rig.database) as sent:
        served.sweep()
    assert len(sent) <= 2, sent
    assert len(paused) == rules.MOST


# -- several conductors ----------------------------------------------------------------------


@pytest.mark.parametrize("draining", [True, False], ids=["a stop", "a death"])
def test_one_conductor_delivers_and_another_takes_over(
    build: Callable[..., ConductorFixture], receiver: Receiver, *, draining: bool
) -> None:
    rigs = {name: build(DEFAULT__host=name) for name in ("one", "two", "three")}
    served = {name: allow_loopback(rig) for name, rig in rigs.items()}
    one = rigs["one"]
    add_events(one, 150)
    hook = add_hook(one, receiver.url)

    def sweep_all(upto: int) -> bool:
        for each in served.values():
            each.sweep()
        return bool(get(one, hook)["position"] == upto)

    wait_for(lambda: sweep_all(150))
    assert receiver.cursors() == list(range(1, 151))
    (owner,) = [name for name, each in served.items() if each.gauges()["webhook_behind"]]
    del served[owner]
    if draining:
        rigs[owner].service.stop()
    else:
        rigs[owner].bury()
        gone = models.conductors.update().where(models.conductors.c.hostname == owner)
        one.database.write(lambda conn: conn.execute(gone, {"online": False}))
    add_events(one, 10)
    wait_for(lambda: sweep_all(160))
    assert receiver.cursors() == list(range(1, 161))
    assert sum(bool(each.gauges()["webhook_behind"]) for each in served.values()) == 1


def test_id_of_a_delivery_depends_on_the_choice_of_events(
    rig: ConductorFixture, served: WebhookWork, receiver: Receiver
) -> None:
    add_events(rig, 1)
    add_events(rig, 1, kind="fault")
    add_events(rig, 1)
    hook = add_hook(rig, receiver.url, kinds=["provision"])
    sweep_until(served, lambda: get(rig, hook)["position"] == 3)
    change(rig, hook, position=0, kinds=["provision", "fault"])
    sweep_until(served, lambda: len(receiver.got) == 2)
    change(rig, hook, position=0, kinds=["fault", "provision"])
    sweep_until(served, lambda: len(receiver.got) == 3)
    first, second, third = (headers["webhook-id"] for headers, _ in receiver.got)
    assert first != second == third
    assert receiver.cursors() == [1, 3, 1, 2, 3, 1, 2, 3]
