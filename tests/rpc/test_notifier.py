"""Sending notifications: who gets them, and what becomes of them when the broker is away."""

from __future__ import annotations

import contextlib
import json
import logging
import pathlib
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.domain import fields
from ironic_lite.rpc import notifier, transport
from tests.support import rabbit, rpc_conductor
from tests.support.thread_limit import no_new_threads

Json = dict[str, Any]

NODE: Json = {
    **{field.stored: None for field in fields.NODE if field.stored},
    "uuid": "1be26c0b-03f2-4d2e-ae87-c02d7f33c781",
    "driver_info": {"redfish_password": "sesame"},
}
BLANK = dict.fromkeys(("event", "before", "after", "data", "run_uuid"))
CREATED: Json = {**BLANK, "kind": "node_created"}
FAILED: Json = {
    **BLANK,
    "kind": "provision",
    "event": "fail",
    "before": "cleaning",
    "after": "clean failed",
}
LOGGER = "oslo.messaging.notification"
WHO = Context("req-1", user="u", project="p", roles=("admin",))

Build = Callable[..., notifier.Notifier]


class Ear:
    """Keeps all notifications that come."""

    def __init__(self) -> None:
        self.seen: list[Json] = []

    def info(self, ctxt: Json, publisher: str, kind: str, payload: Json, about: Json) -> None:
        self.seen.append({"publisher": publisher, "type": kind, "payload": payload, "ctxt": ctxt})

    error = info

    @property
    def types(self) -> list[str]:
        return [one["type"].removeprefix("baremetal.node.") for one in self.seen]


@pytest.fixture
def topic() -> str:
    """A topic of this test alone: a broker keeps what others have not fetched."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def conf(topic: str, folder: pathlib.Path) -> Iterator[cfg.ConfigOpts]:
    own = cfg.ConfigOpts()
    config.register(own)
    own([], project=config.PROJECT, default_config_files=[], default_config_dirs=[])
    transport.register_notifications(own)
    own.set_override("host", "here")
    own.set_override("state_path", str(folder))
    own.set_override("notification_level", "info")
    own.set_override("versioned_notifications_topics", [topic])
    own.set_override("driver", ["messagingv2"], group=notifier.GROUP)
    yield own
    own.clear()


@pytest.fixture
def build(conf: cfg.ConfigOpts) -> Iterator[Build]:
    """Make notifiers, closed at the end; ``url`` says where to, other names are options."""
    made: list[notifier.Notifier] = []

    def make(url: str | None = None, traits: notifier.Traits = lambda _: ["T"]) -> Any:
        if url:
            conf.set_override("transport_url", url, group=notifier.GROUP)
        made.append(notifier.build(conf, "ironic-api", traits))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def listen(topic: str) -> Iterator[Callable[[str], Ear]]:
    """Listen as a consumer of Ironic's notifications would."""
    made = []

    def start(url: str) -> Ear:
        ear = Ear()
        messaging = oslo_messaging.get_notification_transport(config.CONF, url=url)
        target = oslo_messaging.Target(topic=topic, exchange="ironic")
        listener = oslo_messaging.get_notification_listener(
            messaging, [target], [ear], executor="threading"
        )
        listener.start()
        made.append((listener, messaging))
        return ear

    yield start
    for listener, messaging in made:
        listener.stop()
        listener.wait()
        messaging.cleanup()


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """A function that returns the types of what the driver ``log`` has sent."""

    def read() -> list[str]:
        sent = [json.loads(one.message) for one in caplog.records if one.name.startswith(LOGGER)]
        return [one["event_type"].removeprefix("baremetal.node.") for one in sent]

    with caplog.at_level(logging.INFO, logger=LOGGER):
        yield read


def test_off_unless_a_level_is_set(build: Build, conf: cfg.ConfigOpts) -> None:
    conf.clear_override("notification_level")
    told = build()
    assert told is notifier.OFF
    assert not told.on
    told.tell(WHO, [CREATED], NODE)


def test_a_level_without_a_driver_is_off_and_says_so(
    build: Build, conf: cfg.ConfigOpts, caplog: pytest.LogCaptureFixture
) -> None:
    conf.clear_override("driver", group=notifier.GROUP)
    assert build() is notifier.OFF
    assert "[oslo_messaging_notifications]driver" in caplog.text


def test_a_driver_that_nobody_knows_is_refused_at_start(build: Build, conf: cfg.ConfigOpts) -> None:
    conf.set_override("driver", ["pigeon"], group=notifier.GROUP)
    with pytest.raises(config.ConfigError, match=r"\]driver: pigeon is not one of .*messagingv2"):
        build()


@pytest.mark.parametrize("url", ["rabbit://me:s3cret@host:port/", "pigeon://me:s3cret@host/"])
def test_a_url_of_no_use_is_refused_at_start_without_its_password(build: Build, url: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        build(url)
    assert caught.value.message.startswith("[oslo_messaging_notifications]transport_url: ")
    assert "s3c" not in caught.value.message


def test_a_consumer_hears_who_did_what(
    build: Build, listen: Callable[[str], Ear], shared: str
) -> None:
    ear = listen(shared)
    build(shared).tell(WHO, [CREATED], NODE)
    rpc_conductor.until(lambda: ear.seen)
    (heard,) = ear.seen
    assert heard["publisher"] == "ironic-api.here"
    assert heard["type"] == "baremetal.node.create.end"
    assert heard["payload"]["ironic_object.name"] == "NodeCRUDPayload"
    assert heard["payload"]["ironic_object.data"]["uuid"] == NODE["uuid"]
    assert heard["payload"]["ironic_object.data"]["traits"] == ["T"]
    assert heard["ctxt"] | WHO.as_dict() | {"roles": ["admin"]} == heard["ctxt"]
    assert heard["ctxt"]["project_id"] == "p"
    assert "sesame" not in str(heard)


def test_every_topic_gets_it(
    build: Build, conf: cfg.ConfigOpts, listen: Callable[[str], Ear], local: str, topic: str
) -> None:
    conf.set_override("versioned_notifications_topics", ["another", topic])
    ear = listen(local)
    build(local).tell(WHO, [CREATED], NODE)
    rpc_conductor.until(lambda: ear.types == ["create.end"])


@pytest.mark.parametrize(
    ("level", "passing"),
    [
        ("debug", ["create.end", "provision_set.error"]),
        ("info", ["create.end", "provision_set.error"]),
        ("warning", ["provision_set.error"]),
        ("error", ["provision_set.error"]),
        ("critical", []),
    ],
)
def test_a_level_lets_through_what_is_as_severe(
    conf: cfg.ConfigOpts, build: Build, logged: Callable[[], list[str]], level: str, passing: Any
) -> None:
    conf.set_override("notification_level", level)
    conf.set_override("driver", ["log"], group=notifier.GROUP)
    told = build()
    told.tell(WHO, [CREATED, FAILED], NODE)
    told.close()
    assert logged() == passing


def test_with_local_the_default_url_is_that_of_rpc(
    build: Build, listen: Callable[[str], Ear], local: str
) -> None:
    ear = listen(local)
    build().tell(WHO, [CREATED], NODE)
    rpc_conductor.until(lambda: ear.types == ["create.end"])


def test_notifications_need_no_listener(
    build: Build, local: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = build(local)
    told.tell(WHO, [CREATED], NODE)
    told.close()
    assert caplog.text == ""


def test_a_log_will_do(
    conf: cfg.ConfigOpts,
    build: Build,
    logged: Callable[[], list[str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    conf.set_override("driver", ["log"], group=notifier.GROUP)
    told = build()
    told.tell(WHO, [CREATED], NODE)
    told.close()
    assert logged() == ["create.end"]
    assert "sesame" not in caplog.text


def test_notification_after_one_for_which_there_was_no_thread_is_sent(
    conf: cfg.ConfigOpts,
    build: Build,
    logged: Callable[[], list[str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    conf.set_override("driver", ["log"], group=notifier.GROUP)
    told = build()
    with no_new_threads():
        told.tell(WHO, [CREATED], NODE)
    assert "A notification was lost" in caplog.text
    told.tell(WHO, [CREATED], NODE)
    told.close()
    assert logged() == ["create.end"]


def test_the_driver_noop_does_nothing(
    conf: cfg.ConfigOpts, build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    conf.set_override("driver", ["noop"], group=notifier.GROUP)
    told = build()
    told.tell(WHO, [CREATED], NODE)
    told.close()
    assert caplog.text == ""


# -- traits ----------------------------------------------------------------------------------


def test_traits_that_are_known_are_not_asked_for(
    build: Build, listen: Callable[[str], Ear], local: str
) -> None:
    ear = listen(local)
    build(local, traits=lambda _: pytest.fail("asked")).tell(
        WHO, [CREATED], {**NODE, "traits": ["A"]}
    )
    rpc_conductor.until(lambda: ear.seen)
    assert ear.seen[0]["payload"]["ironic_object.data"]["traits"] == ["A"]


def test_traits_are_null_while_the_database_is_away(
    build: Build, listen: Callable[[str], Ear], local: str
) -> None:
    def away(node: str) -> list[str]:
        raise errors.Unavailable("The database is away.")

    ear = listen(local)
    build(local, traits=away).tell(WHO, [CREATED], NODE)
    rpc_conductor.until(lambda: ear.seen)
    assert ear.seen[0]["payload"]["ironic_object.data"]["traits"] is None


# -- when the broker is away -----------------------------------------------------------------


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else gets meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == notifier.__name__]


@pytest.mark.parametrize(("away", "retries"), [("nobody", -1), ("silent", -1), ("nobody", 2)])
def test_caller_is_not_delayed_and_lost_notifications_are_counted(
    *,
    build: Build,
    conf: cfg.ConfigOpts,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    away: str,
    retries: int,
) -> None:
    conf.set_override("retry", retries, group=notifier.GROUP)
    port = request.getfixturevalue(away)
    told = build(f"rabbit://guest:guest@127.0.0.1:{port}/")
    told.tell(WHO, [CREATED], NODE)
    assert isinstance(told, notifier.Sender)
    rpc_conductor.until(
        lambda: told._waiting.qsize() == 0
    )  # it is being sent, and will be for long
    for _ in range(notifier.WAITING + 5):
        told.tell(WHO, [CREATED], NODE)
    told.close()
    first, last = said(caplog)
    assert first.startswith("Notifications cannot be sent: ")
    assert last == f"Stopping; {notifier.WAITING + 6} notifications were lost"


def test_with_an_end_of_tries_what_is_lost_is_counted_and_an_outage_is_told_once(
    build: Build, conf: cfg.ConfigOpts, caplog: pytest.LogCaptureFixture, rabbit_url: str
) -> None:
    conf.set_override("retry", 0, group=notifier.GROUP)
    with Door() as door:
        told = build(door.url(rabbit_url))
        assert isinstance(told, notifier.Sender)
        for _ in range(3):
            told.tell(WHO, [CREATED], NODE)
        rpc_conductor.until(lambda: told.lost == 3)
        door.open()
        told.tell(WHO, [FAILED], NODE)
        rpc_conductor.until(lambda: len(said(caplog)) > 1)
        told.close()
    first, last = said(caplog)
    assert first.startswith("Notifications cannot be sent: ")
    assert last == "Notifications are sent again; 3 were lost"
    assert "sesame" not in caplog.text


def test_two_topics_and_a_log_get_one_each_however_often_the_broker_is_tried(
    *,
    build: Build,
    conf: cfg.ConfigOpts,
    listen: Callable[[str], Ear],
    logged: Callable[[], list[str]],
    rabbit_url: str,
    topic: str,
) -> None:
    conf.set_override("driver", ["log", "messagingv2"], group=notifier.GROUP)
    conf.set_override("versioned_notifications_topics", ["another", topic])
    ear = listen(rabbit_url)
    with Door() as door:
        told = build(door.url(rabbit_url))
        told.tell(WHO, [CREATED], NODE)
        rpc_conductor.until(logged)
        door.open()
        rpc_conductor.until(lambda: ear.types == ["create.end"], 60)
        told.tell(WHO, [FAILED], NODE)
        rpc_conductor.until(lambda: len(ear.seen) == 2)
        told.close()
    assert logged() == ["create.end", "provision_set.error"]


def test_failures_are_seen_whatever_is_logged(
    build: Build, conf: cfg.ConfigOpts, nobody: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = logging.getLogger("oslo_messaging.notify.messaging")
    monkeypatch.setattr(theirs, "level", logging.CRITICAL)
    theirs.setLevel(logging.CRITICAL)  # as [DEFAULT]default_log_levels would
    conf.set_override("retry", 0, group=notifier.GROUP)
    told = build(f"rabbit://guest:guest@127.0.0.1:{nobody}/")
    assert isinstance(told, notifier.Sender)
    told.tell(WHO, [CREATED], NODE)
    rpc_conductor.until(lambda: told.lost == 1)


def test_records_of_other_threads_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    notifier.watch_send_failures()
    theirs = logging.getLogger("oslo_messaging.notify.messaging")

    def other() -> None:
        try:
            raise ValueError("other")
        except ValueError:
            theirs.exception("Could not send")

    def send() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    assert notifier.send_failure_of(send) is None
    assert [record.message for record in caplog.records] == ["Could not send"]
    other()
    assert len(caplog.records) == 2
    assert isinstance(notifier.send_failure_of(other), ValueError)
    assert len(caplog.records) == 2


def test_waiting_notifications_are_sent_when_the_broker_is_back(
    build: Build, listen: Callable[[str], Ear], rabbit_url: str
) -> None:
    ear = listen(rabbit_url)
    with Door() as door:
        told = build(door.url(rabbit_url))
        for event in (CREATED, FAILED, CREATED):
            told.tell(WHO, [event], NODE)
        door.open()
        rpc_conductor.until(lambda: len(ear.seen) == 3, 60)
        told.close()
    # Two queues, by severity: only each of them has an order.
    assert sorted(ear.types) == ["create.end", "create.end", "provision_set.error"]


def test_a_broker_that_comes_back_gets_what_was_told_meanwhile(
    build: Build, listen: Callable[[str], Ear], rabbit_url: str
) -> None:
    ear = listen(rabbit_url)
    with Door() as door:
        door.open()
        told = build(door.url(rabbit_url))
        told.tell(WHO, [CREATED], NODE)
        rpc_conductor.until(lambda: len(ear.seen) == 1)
        door.shut()
        for _ in range(3):
            told.tell(WHO, [CREATED], NODE)
        door.open()
        rpc_conductor.until(lambda: len(ear.seen) == 4, 60)
        told.close()


class Door:
    """A port before the broker: closed, until somebody opens it."""

    def __init__(self) -> None:
        self._made: list[socket.socket] = []
        self._door = self._closed(0)

    def _closed(self, port: int) -> socket.socket:
        door = socket.socket()
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("127.0.0.1", port))
        return door

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()
        self._door.close()

    def shut(self) -> None:
        """Cut all connections, and take no more."""
        port = self._door.getsockname()[1]
        for one in (self._door, *self._made):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._door = self._closed(port)

    def url(self, broker: str) -> str:
        host, port = rabbit.ADDRESS
        own = self._door.getsockname()[1]
        return broker.replace(f"{host}:{port}", f"127.0.0.1:{own}")

    def open(self) -> None:
        self._door.listen()
        threading.Thread(target=self._let_in, daemon=True).start()

    def _let_in(self) -> None:
        door = self._door
        while True:
            try:
                one, _ = door.accept()
            except OSError:
                return
            other = socket.create_connection(rabbit.ADDRESS)
            self._made += [one, other]
            for pair in ((one, other), (other, one)):
                threading.Thread(target=_carry, args=pair, daemon=True).start()


def _carry(source: socket.socket, sink: socket.socket) -> None:
    try:
        while chunk := source.recv(65536):
            sink.sendall(chunk)
    except OSError:
        return


def test_the_transport_of_rpc_keeps_its_own_exchange(conf: cfg.ConfigOpts, local: str) -> None:
    conf.set_override("transport_url", local, group=notifier.GROUP)
    assert transport.notifications(conf).conf.control_exchange == "ironic"
    assert transport.build(local).bus.conf.control_exchange == "ironic_lite"
