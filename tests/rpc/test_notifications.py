"""Notifications over local://: each pool of listeners gets every one, once."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest

from ironic_lite.core import config
from ironic_lite.rpc.sockets import client as socket_client
from ironic_lite.rpc.sockets import local as local_transport
from tests.support import rpc_conductor

Seen = list[tuple[str, Any]]


class Ear:
    """A notification endpoint for two priorities."""

    def __init__(self) -> None:
        self.seen: Seen = []

    def info(self, ctxt: Any, publisher: str, kind: str, payload: Any, metadata: Any) -> None:
        self.seen.append((f"info {kind} of {publisher}", payload))

    def error(self, ctxt: Any, publisher: str, kind: str, payload: Any, metadata: Any) -> None:
        self.seen.append((f"error {kind}", payload))


class BatchEar:
    """A notification endpoint that takes several at once."""

    def __init__(self) -> None:
        self.seen: list[list[Any]] = []

    def info(self, messages: list[dict[str, Any]]) -> None:
        self.seen.append([message["payload"] for message in messages])


@pytest.fixture
def notifier(local: str) -> oslo_messaging.Notifier:
    messaging = oslo_messaging.get_notification_transport(config.CONF, url=local)
    return oslo_messaging.Notifier(
        messaging, publisher_id="conductor.one", driver="messagingv2", topics=["notes"]
    )


@pytest.fixture
def listen(local: str) -> Iterator[Callable[..., Any]]:
    made = []

    def start(*endpoints: Any, pool: str | None = None, batch: dict[str, Any] | None = None) -> Any:
        messaging = oslo_messaging.get_notification_transport(config.CONF, url=local)
        make = oslo_messaging.get_notification_listener
        if batch:
            make = oslo_messaging.get_batch_notification_listener
        target = oslo_messaging.Target(topic="notes")
        made.append(make(messaging, [target], list(endpoints), pool=pool, **(batch or {})))
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.stop()
        one.wait()


CTXT: dict[str, Any] = {}


def test_a_notification_reaches_the_method_of_its_priority(
    notifier: oslo_messaging.Notifier, listen: Callable[..., Any]
) -> None:
    ear = Ear()
    listen(ear)
    notifier.info(CTXT, "baremetal.node.power_set.end", {"a": 1})
    rpc_conductor.until(lambda: len(ear.seen) == 1)
    notifier.error(CTXT, "baremetal.node.power_set.error", {"b": 2})
    notifier.warn(CTXT, "nobody.listens.to.this.priority", {})
    rpc_conductor.until(lambda: len(ear.seen) == 2)
    assert ear.seen == [
        ("info baremetal.node.power_set.end of conductor.one", {"a": 1}),
        ("error baremetal.node.power_set.error", {"b": 2}),
    ]


def test_each_pool_gets_every_notification_and_its_listeners_share_them(
    notifier: oslo_messaging.Notifier, listen: Callable[..., Any]
) -> None:
    alone, one, two = Ear(), Ear(), Ear()
    listen(alone)
    listen(one, pool="pool")
    listen(two, pool="pool")
    for number in range(10):
        notifier.info(CTXT, "kind", number)
    rpc_conductor.until(lambda: len(alone.seen) == 10 and len(one.seen) + len(two.seen) == 10)
    assert sorted(payload for _, payload in alone.seen) == list(range(10))
    assert sorted(payload for _, payload in one.seen + two.seen) == list(range(10))
    assert len(one.seen) == len(two.seen) == 5


def test_a_listener_that_left_is_passed_over(
    notifier: oslo_messaging.Notifier, listen: Callable[..., Any]
) -> None:
    left, stays = Ear(), Ear()
    gone = listen(left, pool="pool")
    listen(stays, pool="pool")
    gone.stop()
    gone.wait()
    for number in range(4):
        notifier.info(CTXT, "kind", number)
    rpc_conductor.until(lambda: len(stays.seen) == 4)
    assert left.seen == []


@pytest.mark.parametrize("backlog", ["free", "full"])
def test_hung_listener_delays_only_one_notification(
    notifier: oslo_messaging.Notifier,
    listen: Callable[..., Any],
    folder: pathlib.Path,
    backlog: str,
) -> None:
    ear = Ear()
    listen(ear)
    channels = {one.name.partition("@")[0] for one in (folder / "rpc").glob("*@*")}
    directory = local_transport.Directory(str(folder / "rpc"))
    with contextlib.ExitStack() as opened:
        for channel in channels:
            opened.enter_context(directory.claim(channel, "0-hung.1.1"))
            while backlog == "full":
                client = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                client.setblocking(False)
                try:
                    client.connect(directory.address(channel, "0-hung.1.1"))
                except BlockingIOError:
                    break
        begun = time.monotonic()
        for number in range(5):
            notifier.info(CTXT, "kind", number)
        assert time.monotonic() - begun < 2 * socket_client.REPLY_SECONDS
    rpc_conductor.until(lambda: len(ear.seen) == 5)


def test_notification_without_a_listener_is_no_error(
    notifier: oslo_messaging.Notifier, caplog: pytest.LogCaptureFixture, folder: pathlib.Path
) -> None:
    notifier.info(CTXT, "kind", {})
    (folder / "rpc").mkdir(mode=0o700)
    notifier.info(CTXT, "kind", {})
    assert "Could not send" not in caplog.text


def test_a_batch_is_handed_on_when_full_or_old(
    notifier: oslo_messaging.Notifier, listen: Callable[..., Any]
) -> None:
    ear = BatchEar()
    listen(ear, batch={"batch_size": 3, "batch_timeout": 0.2})
    for number in range(4):
        notifier.info(CTXT, "kind", number)
    rpc_conductor.until(lambda: len(ear.seen) == 2)
    assert ear.seen == [[0, 1, 2], [3]]


def test_putting_back_is_refused_when_asked_for(local: str) -> None:
    messaging = oslo_messaging.get_notification_transport(config.CONF, url=local)
    with pytest.raises(NotImplementedError):
        messaging._require_driver_features(requeue=True)
