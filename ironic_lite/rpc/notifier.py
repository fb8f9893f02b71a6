"""Send notifications of committed events, on a thread of its own.

``conductor.engine.task`` and the writers of the API call `Notifier.tell` after their commit.
``domain.notifications`` defines content and form; [oslo_messaging_notifications] sets the
destination. A notification is sent at most once. The caller is never delayed and gets no error.
Unsent notifications wait here; beyond a limit they are dropped, counted and logged (S5.29).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import oslo_messaging

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, RowView
from ironic_lite.core.options import Configuration
from ironic_lite.domain import notifications
from ironic_lite.domain.notifications import Notification
from ironic_lite.rpc import transport

# Failures of sending notifications, taken from oslo.messaging's log.
#
# The library's notifier raises nothing. It logs each unsent notification with its payload, which
# would be thousands of payloads while a broker is away. A filter on the loggers of its notifier
# takes these records from the threads that ask for them. ``tests/rpc/test_notifier.py`` fails if
# the library logs them elsewhere.

_LOGGERS = ("oslo_messaging.notify.notifier", "oslo_messaging.notify.messaging")


class _Filter(logging.Filter):
    """Takes the exception records of threads that are inside `of`."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is to be logged."""
        if not (getattr(self.here, "asked", False) and record.exc_info):
            return True
        self.here.why = record.exc_info[1]
        return False


_FILTER = _Filter()


def watch_send_failures() -> None:
    """Install the filter, whatever the log levels; may be called again."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.addFilter(_FILTER)
        if not logger.isEnabledFor(logging.ERROR):
            logger.setLevel(logging.ERROR)


def send_failure_of(send: Callable[[], object]) -> BaseException | None:
    """Return the exception that sending raised or logged, None without a failure.

    :param send: sends one notification by one driver; an exception it raises is returned, too.
    """
    here = _FILTER.here
    here.asked, here.why = True, None
    try:
        send()
    except Exception as why:  # one driver's failure must not stop the other drivers
        return why
    else:
        found: BaseException | None = here.why
        return found
    finally:
        here.asked = False


LOG = logging.getLogger(__name__)

WAITING = 1000
"""Most notifications that wait to be sent; further ones are lost."""

GROUP = "oslo_messaging_notifications"
_RETRIES = 2
"""Retries of one call of the library, if [oslo_messaging_notifications]retry has no limit.

They take four seconds. Before its first connection, the library would not retry without a limit,
and later it would retry without an end, although the process stops.
"""
_PAUSE = 1.0  # seconds between two such calls, because a driver may ignore the number
_LAST_WORDS = 2.0  # seconds that a stopping process spends on waiting notifications

Traits = Callable[[str], Sequence[str]]


class Notifier:
    """A receiver of committed events and of sensor readings; this one sends nothing."""

    on = False
    """True if notifications are sent; if not, `tell` needs no data."""

    def tell(
        self,
        who: Context,
        events: Sequence[RowView],
        about: RowView,
        *,
        previous_target: str | None = None,
    ) -> None:
        """Report events that were committed together; returns at once and raises nothing.

        :param who: the caller whose request caused them.
        :param events: rows for ``db.queries.events.add``.
        :param about: the committed columns of their node, port or chassis; must not be changed
            afterwards.
        :param previous_target: the node's target_provision_state before.
        """

    def measure(self, who: Context, event_type: str, payload: RowView) -> None:
        """Report readings, whatever the level; returns at once and raises nothing.

        :param event_type: such as ``hardware.redfish.metrics``.
        :param payload: a JSON object; must not be changed afterwards.
        """

    def close(self) -> None:
        """Send waiting notifications for a short time; the rest is lost."""


OFF = Notifier()


def build(conf: Configuration, service: str, traits: Traits) -> Notifier:
    """Return the configured notifier, not yet connected.

    :param conf: the service's options; those of oslo.messaging are registered here.
    :param service: the first part of publisher_id, such as ``ironic-api``; ``host`` is the second.
    :param traits: reads the traits of a node by its UUID; may raise ``errors.Error``.
    :raises config.ConfigError: the URL, or the name of a driver, cannot be used.
    """
    if conf.notification_level is None:
        return OFF
    if not _driver_names(conf, "their level is set"):
        return OFF
    return Sender(conf, f"{service}.{conf.host}", traits)


def metrics(conf: Configuration, service: str) -> Notifier:
    """Return the notifier for sensor readings, on the configured topics.

    Parameters and errors are those of `build`.
    """
    if not conf.sensor_data.send_sensor_data or not _driver_names(conf, "sensors shall be read"):
        return OFF
    return Sender(conf, f"{service}.{conf.host}", lambda _: (), topics=conf[GROUP].topics)


def _driver_names(conf: Configuration, although: str) -> list[str]:
    """Return the names of the notification drivers.

    :raises config.ConfigError: a name is unknown.
    """
    transport.register_notifications(conf)
    drivers: list[str] = conf[GROUP].driver
    if not drivers:
        LOG.warning("No notifications: %s, but [%s]driver names no driver", although, GROUP)
    known = {found.name for found in importlib.metadata.entry_points(group=_DRIVERS)}
    for name in drivers:
        if name not in known:
            reason = f"[{GROUP}]driver: {name} is not one of {', '.join(sorted(known))}"
            raise config.ConfigError(reason=reason)
    return drivers


_DRIVERS = "oslo.messaging.notify.drivers"


class _Reading(NamedTuple):
    """A sensor reading, in the form of a notification."""

    event_type: str
    about: RowView
    level: str = "info"
    lacks_traits: bool = False

    def payload(self, traits: Sequence[str] | None) -> RowView:
        """Return the payload."""
        return self.about


class _Waiting(NamedTuple):
    who: Context
    notice: Notification | _Reading


class Sender(Notifier):
    """Sends notifications of the configured level through oslo.messaging."""

    on = True

    def __init__(
        self,
        conf: Configuration,
        publisher: str,
        traits: Traits,
        *,
        topics: Sequence[str] | None = None,
    ) -> None:
        level = conf.notification_level or notifications.LEVELS[0]
        self._levels = notifications.LEVELS[notifications.LEVELS.index(level) :]
        self._endless = conf[GROUP].retry < 0
        self._traits = traits
        self._waiting: queue.Queue[_Waiting | None] = queue.Queue(WAITING)
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._ended = threading.Event()
        # The state of an outage as logged once; ``lost`` counts what it has cost.
        self._failing = self._troubled = False
        self.lost = 0
        self._messaging = transport.notifications(conf)
        make = functools.partial(
            oslo_messaging.Notifier,
            self._messaging,
            publisher_id=publisher,
            serializer=_Contexts(),
            retry=_RETRIES if self._endless else conf[GROUP].retry,
        )
        self._drivers_with_topics = [
            make(driver=driver, topics=some)
            for driver, some in _drivers_with_topics(
                conf[GROUP].driver, list(topics or conf.versioned_notifications_topics)
            )
        ]
        watch_send_failures()

    # -- on the caller's thread --------------------------------------------------------------

    def tell(
        self,
        who: Context,
        events: Sequence[RowView],
        about: RowView,
        *,
        previous_target: str | None = None,
    ) -> None:
        """Queue the notifications of these events."""
        try:
            for notice in notifications.of(events, about, previous_target=previous_target):
                if notice.level in self._levels:
                    self._put_notification(_Waiting(who, notice))
        except Exception:  # the change is committed, so the request must not fail
            LOG.exception("A notification was lost")

    def measure(self, who: Context, event_type: str, payload: RowView) -> None:
        """Queue readings, whatever the level of other notifications."""
        self._put_notification(_Waiting(who, _Reading(event_type, payload)))

    def _put_notification(self, one: _Waiting) -> None:
        if self._thread is None:
            self._start_thread()
        try:
            self._waiting.put_nowait(one)
        except queue.Full:
            self._note_trouble("they arrive faster than they can be sent", lost=1)

    def _start_thread(self) -> None:
        # Started late, because a process may fork before.
        with self._guard:
            if self._thread is None:
                thread = threading.Thread(target=self._run_thread, name="notifier", daemon=True)
                thread.start()  # if the system refuses it, the next notification tries again
                self._thread = thread

    # -- on our own --------------------------------------------------------------------------

    def _run_thread(self) -> None:
        self._send_waiting()
        self._ended.set()
        with contextlib.suppress(Exception):  # the process ends; a connection may fail to close
            self._messaging.cleanup()

    def _send_waiting(self) -> None:
        while (one := self._waiting.get()) is not None:
            try:
                self._deliver_by_drivers(one)
            except Exception:
                LOG.exception("The notification %s was lost", one.notice.event_type)
            # Logged once there is room again, so that a high load does not repeat it.
            if self._troubled and not self._failing and self._waiting.qsize() <= WAITING // 2:
                self._note_recovery()
            if self._closing.is_set() and (self._failing or self._waiting.empty()):
                return

    def _known_traits(self, notice: Notification | _Reading) -> Sequence[str] | None:
        if not notice.lacks_traits or notice.event_type == _NODE_GONE:
            return None
        try:
            return self._traits(notice.about["uuid"])
        except errors.Error:
            return None

    def _deliver_by_drivers(self, one: _Waiting) -> None:
        """Send a notification by all drivers, with retries."""
        payload = one.notice.payload(self._known_traits(one.notice))
        for way in self._drivers_with_topics:
            send = getattr(way, one.notice.level)
            self._try_send(
                functools.partial(send, _RequestContext(one.who), one.notice.event_type, payload)
            )

    def _try_send(self, send: Callable[[], object]) -> None:
        """Send; without a limit of retries, repeat that while the broker is away."""
        while (why := send_failure_of(send)) is not None:
            self._failing = True
            again = self._endless and transport.of_broker(why) and not self._closing.is_set()
            self._note_trouble(f"{type(why).__name__}: {why}", lost=int(not again))
            if not again:
                return
            self._closing.wait(_PAUSE)
        self._failing = False

    # -- outages -----------------------------------------------------------------------------

    def _note_trouble(self, why: str, *, lost: int) -> None:
        with self._guard:
            self.lost += lost
            first, self._troubled = not self._troubled, True
        if first:
            LOG.warning(
                "Notifications cannot be sent: %s. Up to %d wait, further ones are lost",
                why,
                WAITING,
            )

    def _note_recovery(self) -> None:
        with self._guard:
            lost, self.lost, self._troubled = self.lost, 0, False
        LOG.warning("Notifications are sent again; %d were lost", lost)

    def close(self) -> None:
        """Send waiting notifications for a short time; the rest is lost."""
        if self._thread is None:
            return
        self._closing.set()
        until = time.monotonic() + _LAST_WORDS
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=_LAST_WORDS)
            self._thread.join(max(0.0, until - time.monotonic()))
        left = [one for one in self._waiting.queue if one is not None]
        lost = self.lost + len(left) + (not self._ended.is_set())
        if lost:
            LOG.warning("Stopping; %d notifications were lost", lost)


def _drivers_with_topics(drivers: Sequence[str], topics: list[str]) -> list[tuple[str, list[str]]]:
    """Return each driver with the topics of one attempt, each topic once."""
    return [
        (driver, some)
        for driver in drivers
        for some in ([[topic] for topic in topics] if driver in _BY_TOPIC else [topics])
    ]


_BY_TOPIC = frozenset({"messaging", "messagingv2"})
_NODE_GONE = "baremetal.node.delete.end"


class _RequestContext:
    """A context in the form that oslo.messaging expects of a context without secrets."""

    def __init__(self, who: Context) -> None:
        self.who = who

    def redacted_copy(self) -> _RequestContext:
        """Return the object itself, which has no secrets."""
        return self


class _Contexts(oslo_messaging.NoOpSerializer):  # type: ignore[misc]
    """Sends contexts as plain JSON; payloads are plain JSON already."""

    def serialize_context(self, ctxt: _RequestContext) -> Json:
        """Return the caller, also under the names of oslo.context."""
        return {**ctxt.who.as_dict(), "project_id": ctxt.who.project}
