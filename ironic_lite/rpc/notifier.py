"""Sends notifications of committed events, on a thread of its own (S5.29).

``conductor.task`` and the writers of the API call `Notifier.tell` after their commit. What is told,
and how, stands in ``notices``; where to, in [oslo_messaging_notifications], which is
oslo.messaging's. A notification is sent at most once. Whoever tells is never held up and never
hears of a fault: what cannot be sent waits here, and beyond a bound it is lost, counted and logged.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import oslo_messaging
from oslo_config import cfg
from oslo_messaging.notify import notifier as oslo_notifier

from ironic_lite import config, errors, notices
from ironic_lite.context import Context
from ironic_lite.notices import Notice
from ironic_lite.rpc import transport

LOG = logging.getLogger(__name__)

WAITING = 1000
"""How many notifications may wait to be sent; further ones are lost."""

GROUP = "oslo_messaging_notifications"
_LONGEST_PAUSE = 30.0  # seconds between two tries while a broker is away; the first is 1
_LAST_WORDS = 2.0  # seconds that a process which stops gives to what still waits

Row = Mapping[str, Any]
Traits = Callable[[str], Sequence[str]]


class Notifier(Protocol):
    """Whoever is told of committed events."""

    @property
    def on(self) -> bool:
        """Whether anybody listens: if not, nothing needs to be prepared for `tell`."""

    def tell(
        self, who: Context, events: Sequence[Row], about: Row, *, previous_target: str | None = None
    ) -> None:
        """Tell of events that have been committed together; returns at once and raises nothing.

        :param who: asked for it.
        :param events: rows for ``db.events.add``.
        :param about: the columns of the node, port or chassis they are about, as committed; they
            must not be changed afterwards.
        :param previous_target: the node's target_provision_state before.
        """

    def close(self) -> None:
        """Send what still waits, for a short while; what is left then is lost."""


class Metrics(Protocol):
    """Whoever is told what machines measure."""

    def measure(self, who: Context, event_type: str, payload: Row) -> None:
        """Tell of readings; returns at once and raises nothing.

        :param event_type: such as ``hardware.redfish.metrics``.
        :param payload: a JSON object, which must not be changed afterwards.
        """

    def close(self) -> None:
        """Send what still waits, for a short while; what is left then is lost."""


class Silence:
    """The notifier of a process whose notifications are switched off."""

    on = False

    def tell(
        self, who: Context, events: Sequence[Row], about: Row, *, previous_target: str | None = None
    ) -> None:
        """Tell nobody."""

    def measure(self, who: Context, event_type: str, payload: Row) -> None:
        """Tell nobody."""

    def close(self) -> None:
        """Nothing waits."""


OFF = Silence()


def build(conf: cfg.ConfigOpts, service: str, traits: Traits) -> Notifier:
    """Return the notifier that the configuration asks for; nothing is connected yet.

    :param conf: our options; those of oslo.messaging are registered here.
    :param service: the first part of publisher_id, such as ``ironic-api``; ``host`` is the second.
    :param traits: reads the traits of a node by its UUID; may raise ``errors.Error``.
    :raises config.ConfigError: the URL, or the name of a driver, cannot be used.
    """
    if conf.notification_level is None:
        return OFF
    if not _drivers(conf, "their level is set"):
        return OFF
    return Sender(conf, f"{service}.{conf.host}", traits)


def metrics(conf: cfg.ConfigOpts, service: str) -> Metrics:
    """Return who is told what machines measure, on [oslo_messaging_notifications]topics.

    Parameters and errors are those of `build`.
    """
    if not conf.sensor_data.send_sensor_data or not _drivers(conf, "sensors shall be read"):
        return OFF
    return Sender(conf, f"{service}.{conf.host}", lambda _: (), topics=conf[GROUP].topics)


def _drivers(conf: cfg.ConfigOpts, although: str) -> list[str]:
    """Return the names of the ways out.

    :raises config.ConfigError: a name is unknown.
    """
    # Their public list would load the libraries of all brokers.
    conf.register_opts(oslo_notifier._notifier_opts, group=GROUP)
    drivers: list[str] = conf[GROUP].driver
    if not drivers:
        LOG.warning("No notifications: %s, but [%s]driver names no driver", although, GROUP)
    known = {found.name for found in importlib.metadata.entry_points(group=_DRIVERS)}
    for name in drivers:
        if name not in known:
            reason = f"[{GROUP}]driver: {name} is none of {', '.join(sorted(known))}"
            raise config.ConfigError(reason=reason)
    return drivers


_DRIVERS = "oslo.messaging.notify.drivers"


class _Reading(NamedTuple):
    """What a machine has measured, in the form of a notice."""

    event_type: str
    about: Row
    level: str = "info"
    lacks_traits: bool = False

    def payload(self, traits: Sequence[str] | None) -> Row:
        """Return it."""
        return self.about


class _Waiting(NamedTuple):
    who: Context
    notice: Notice | _Reading


class Sender:
    """Sends through oslo.messaging what is at least as severe as [DEFAULT]notification_level."""

    on = True

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        publisher: str,
        traits: Traits,
        *,
        topics: Sequence[str] | None = None,
    ) -> None:
        level = conf.notification_level or notices.LEVELS[0]
        self._levels = notices.LEVELS[notices.LEVELS.index(level) :]
        self._tries = conf[GROUP].retry
        self._traits = traits
        self._waiting: queue.Queue[_Waiting | None] = queue.Queue(WAITING)
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._ended = threading.Event()
        # An outage, as told once in the log: whether there is one, and what it has cost.
        self._failing = self._troubled = False
        self._lost = 0
        self._messaging = messaging = transport.notifications(conf)
        # oslo.messaging would log each message that a broker does not take, with all it says; and
        # gives up at once, whatever its options say, while there has not been a connection yet.
        messaging._send_notification = self._patient(messaging._send_notification)
        self._oslo = oslo_messaging.Notifier(
            messaging,
            publisher_id=publisher,
            serializer=_Contexts(),
            topics=list(topics or conf.versioned_notifications_topics),
        )

    # -- on the caller's thread --------------------------------------------------------------

    def tell(
        self, who: Context, events: Sequence[Row], about: Row, *, previous_target: str | None = None
    ) -> None:
        """Queue what the table tells of these events."""
        try:
            for notice in notices.of(events, about, previous_target=previous_target):
                if notice.level in self._levels:
                    self._put(_Waiting(who, notice))
        except Exception:  # the change is committed: nothing may make it look as if it had failed
            LOG.exception("A notification was lost")

    def measure(self, who: Context, event_type: str, payload: Row) -> None:
        """Queue readings, whatever the level of other notifications is."""
        self._put(_Waiting(who, _Reading(event_type, payload)))

    def _put(self, one: _Waiting) -> None:
        if self._thread is None:
            self._start()
        try:
            self._waiting.put_nowait(one)
        except queue.Full:
            self._trouble("they come faster than they can be sent", lost=1)

    def _start(self) -> None:
        # Not at once: a process may be forked between.
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="notifier", daemon=True)
                self._thread.start()

    # -- on our own --------------------------------------------------------------------------

    def _work(self) -> None:
        self._send()
        self._ended.set()
        with contextlib.suppress(Exception):  # a connection that cannot be closed ends with us
            self._messaging.cleanup()

    def _send(self) -> None:
        while (one := self._waiting.get()) is not None:
            if self._failing and self._closing.is_set():
                self._trouble("stopping", lost=1)
                continue
            try:
                payload = one.notice.payload(self._known_traits(one.notice))
                method = getattr(self._oslo, one.notice.level)
                method(_Asker(one.who), one.notice.event_type, payload)
            except Exception:
                LOG.exception("The notification %s was lost", one.notice.event_type)
            # With room again: under a load that is too high, this must not be said again and again.
            if self._troubled and not self._failing and self._waiting.qsize() <= WAITING // 2:
                self._recovered()

    def _known_traits(self, notice: Notice | _Reading) -> Sequence[str] | None:
        if not notice.lacks_traits or notice.event_type == _NODE_GONE:
            return None
        try:
            return self._traits(notice.about["uuid"])
        except errors.Error:
            return None

    def _patient(self, send: Callable[..., None]) -> Callable[..., None]:
        """Return ``send`` so that it tries a broker again that is away, and raises nothing."""

        def act(*args: Any, **kwargs: Any) -> None:
            for attempt in itertools.count():
                try:
                    send(*args, **kwargs)
                    self._failing = False
                    return
                except Exception as why:  # whatever it is, it must not keep the others
                    self._failing = True
                    ended = not transport.of_broker(why) or 0 <= self._tries <= attempt
                    text = f"{type(why).__name__}: {why}"
                self._trouble(text, lost=int(ended))
                if ended:
                    return
                if self._closing.wait(min(2 ** min(attempt, 5), _LONGEST_PAUSE)):
                    self._trouble(text, lost=1)
                    return

        return act

    # -- outages -----------------------------------------------------------------------------

    def _trouble(self, why: str, *, lost: int) -> None:
        with self._guard:
            self._lost += lost
            first, self._troubled = not self._troubled, True
        if first:
            LOG.warning(
                "Notifications cannot be sent: %s. Up to %d wait, further ones are lost",
                why,
                WAITING,
            )

    def _recovered(self) -> None:
        with self._guard:
            lost, self._lost, self._troubled = self._lost, 0, False
        LOG.warning("Notifications are sent again; %d were lost", lost)

    def close(self) -> None:
        """Send what still waits, for a short while; what is left then is lost."""
        if self._thread is None:
            return
        self._closing.set()
        until = time.monotonic() + _LAST_WORDS
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=_LAST_WORDS)
            self._thread.join(max(0.0, until - time.monotonic()))
        left = [one for one in self._waiting.queue if one is not None]
        lost = self._lost + (0 if self._ended.is_set() else len(left) + 1)
        if lost:
            LOG.warning("Stopping; %d notifications were lost", lost)


_NODE_GONE = "baremetal.node.delete.end"


class _Asker:
    """A context in the form that oslo.messaging takes for one without secrets, which ours is."""

    def __init__(self, who: Context) -> None:
        self.who = who

    def redacted_copy(self) -> _Asker:
        """Return itself."""
        return self


class _Contexts(oslo_messaging.NoOpSerializer):  # type: ignore[misc]
    """Contexts go out as plain JSON; payloads are that already."""

    def serialize_context(self, ctxt: _Asker) -> dict[str, Any]:
        """Return who asked, under the names of oslo.context too."""
        return {**ctxt.who.as_dict(), "project_id": ctxt.who.project}
