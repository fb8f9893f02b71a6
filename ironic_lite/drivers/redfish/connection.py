"""Logins at BMCs: kept, shared, bounded in number; one thread at a time speaks to a BMC.

`call` is the door to all hardware here. It opens or reuses a login, runs a piece of work on it, and
decides from `faults` whether the work is tried again.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hmac
import logging
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import sushy.exceptions
from sushy.resources.system import system

from ironic_lite import config, counters, errors
from ironic_lite.drivers import base, patience
from ironic_lite.drivers.redfish import faults, info, logins, surplus, transport

LOG = logging.getLogger(__name__)

T = TypeVar("T")

BUSY_TRIES = 6
BUSY_SECONDS = 5.0
"""How often a BMC that says it is busy is asked again; the first pause, which doubles each time."""

IDLE_SECONDS = 600.0
"""A login not used for so long is ended: its node is gone, or has another address or password."""

_LISTED = 10
"""Systems an error names before it only counts them."""

_SECRET = secrets.token_bytes(32)
"""Makes the digests of passwords in our keys worthless outside this process."""


def settings(task: base.Task) -> info.Info:
    """Return what the node's driver_info says.

    :raises errors.MissingParameter, errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    return info.parse(task.node.driver_info, auth_type=config.CONF.redfish.auth_type)


def call(task: base.Task, work: Callable[[Link], T], *, read: bool = True) -> T:
    """Run ``work`` on a login at the node's BMC, again if a fault allows it, and return its result.

    ``work`` must not pause: other nodes of the same BMC wait for it.

    :param read: the work changes nothing, so doing it twice is harmless.
    :raises errors.HardwareError: of the kind and in the words of `faults`.
    :raises errors.InvalidRequest: driver_info is wrong.
    """
    node = settings(task)
    faults.check_time(node)
    tries = _Tries(read)
    while True:
        connect, answer = _timeouts()
        with LINKS.held(node) as link:
            warm = link.warm
            if not warm:
                LINKS.refusals.check(_key(node))
            try:
                done = work(link.opened())
                if not warm:
                    LINKS.refusals.forget(_key(node))
                return done
            except faults.EXPECTED as error:
                LOG.debug("Call to the BMC at %s failed.", node.address, exc_info=True)
                fault = faults.explain(error, node, connect=connect, read=answer)
                if fault.stale:
                    link.forget(ended=fault.denied)
                if fault.denied and not warm:
                    LINKS.refusals.note(_key(node), fault.error)
        faults.check_time(node)
        pause = tries.pause(fault.again, warm=warm)
        if pause is None or pause > patience.pause():
            raise fault.error
        counters.BMCS.retried("redfish")
        if pause:
            task.pause(pause)


def _timeouts() -> tuple[float, float]:
    """Return the seconds a connection may take, and an answer."""
    options = config.CONF.redfish
    return patience.within(options.connect_timeout), patience.within(options.read_timeout)


class _Tries:
    """Counts what has been tried in one call."""

    def __init__(self, read: bool) -> None:
        self._read = read
        self._done = 1
        self._busy = 0
        self._login = False

    def pause(self, again: faults.Again, *, warm: bool) -> float | None:
        """Return the seconds after which to try again, or None to give up."""
        if again is faults.Again.LOGIN:
            known, self._login = self._login, True
            return 0 if warm and not known else None
        if again is faults.Again.BUSY:
            self._busy += 1
            delay = BUSY_SECONDS * 2.0 ** (self._busy - 1)
            return delay if self._busy < BUSY_TRIES else None
        allowed = again is faults.Again.ANY or (again is faults.Again.READ and self._read)
        self._done += 1
        if not allowed or self._done > config.CONF.redfish.connection_attempts:
            return None
        interval: float = config.CONF.redfish.connection_retry_interval
        # What was known from before may be the whole trouble: then there is nothing to wait for.
        return 0 if warm else interval


# -- one login --------------------------------------------------------------------------------


class Turn:
    """The right to speak to one BMC."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Link:
    """A login at a BMC with what must be known to use it. Only its `Turn`'s holder touches it."""

    def __init__(self, node: info.Info, turn: Turn) -> None:
        self.node = node
        self.turn = turn
        self.used = 0.0
        self._root: Any = None
        self._wire: transport.Wire | None = None
        self._auth: Any = None
        self._only: str | None = None
        self._leftover: tuple[str, str] | None = None

    @property
    def warm(self) -> bool:
        """Tell whether there is a login from before."""
        return self._root is not None

    def opened(self) -> Link:
        """Log in unless that is done; costs nothing on a warm link.

        :raises faults.EXPECTED: see there.
        """
        if self._wire is None:
            self._login()
        return self

    def forget(self, *, ended: bool = False) -> None:
        """Drop login and resources; the session is ended at the next login unless it has ended."""
        if self._wire is not None and self._wire.has_token:
            path, token = self._auth.get_session_resource_id(), self._auth.get_session_key()
            self._leftover = (path, token) if path and not ended else None
        self._root = self._wire = self._auth = self._only = None

    def close(self) -> None:
        """Log out; what goes wrong there ends by itself, with the BMC's time limit of sessions."""
        wire = self._wire
        self.forget()
        if wire is not None and self._leftover:
            self._end_leftover(wire)

    def at(self, node: info.Info) -> Link:
        """Point at the system of ``node``: nodes behind one BMC share its login."""
        if node.system_id != self.node.system_id:
            self.node = node
        return self

    # -- what is read ---------------------------------------------------------------------

    def power_word(self) -> str | None:
        """Return the PowerState of the system in Redfish's word: one GET."""
        word = self.system_document().get("PowerState")
        if not isinstance(word, str | None):
            raise transport.NotJson(f"PowerState of {self.system_path()} is {type(word).__name__}")
        return word

    def system_document(self) -> dict[str, Any]:
        """Return the system as JSON: one GET."""
        path = self.system_path()
        try:
            return self.wire.document(path)
        except sushy.exceptions.ResourceNotFoundError:
            raise self._no_system(path) from None

    @property
    def root_document(self) -> dict[str, Any]:
        """Return the service root as it was at the login."""
        found: dict[str, Any] = self._root.json
        return found

    def system(self) -> system.System:
        """Return sushy's view of the system, read just now: one GET."""
        path = self.system_path()
        try:
            return self._root.get_system(path)
        except sushy.exceptions.ResourceNotFoundError:
            raise self._no_system(path) from None

    @property
    def wire(self) -> transport.Wire:
        """The connector, for plain requests."""
        if self._wire is None:
            raise RuntimeError("a link is opened before it is used")
        return self._wire

    def system_path(self) -> str:
        """Return the path of the system, found out once if driver_info does not say.

        :raises errors.InvalidParameter: there are several, or none.
        """
        path = self.node.system_id or self._only
        if path is None:
            path = self._only = self._only_system()
        return path

    def _only_system(self) -> str:
        paths = self._systems()
        if not paths:
            raise self._starting("lists no system")
        if len(paths) > 1:
            reason = f"the BMC at {self.node.address} has {_listed(paths)}; name one of them"
            raise errors.InvalidParameter(path="driver_info/redfish_system_id", reason=reason)
        return paths[0]

    def _systems(self) -> list[str]:
        return [str(path) for path in self._root.get_system_collection().members_identities]

    def _no_system(self, path: str) -> errors.Error | Exception:
        """Return the error for a system that is not there; it lists those which are."""
        if self.node.system_id is None:
            return transport.NotJson(f"the system {path} it listed is not there")
        paths: list[str] = []
        with contextlib.suppress(*faults.EXPECTED):
            paths = self._systems()
        if not paths:
            return self._starting(f"shows no system {path}, nor does it list any")
        reason = f"the BMC at {self.node.address} has no system {path}; it has {_listed(paths)}"
        return errors.InvalidParameter(path="driver_info/redfish_system_id", reason=reason)

    def _starting(self, what: str) -> errors.BmcUnreachable:
        """Return the error for a BMC that answers before it knows its machine."""
        address = self.node.address
        text = f"The BMC at {address} {what}. It may be starting; retry later."
        return errors.BmcUnreachable(text, address=address, reason=what)

    # -- logging in -----------------------------------------------------------------------

    def _login(self) -> None:
        node = self.node
        options = config.CONF.redfish
        connect, answer = options.connect_timeout, options.read_timeout
        wire = transport.Wire(node, connect_timeout=connect, read_timeout=answer)
        auth = logins.auth(node)
        logins.warn(node)
        try:
            root = logins.Root(
                node.address, root_prefix=node.root_prefix, auth=auth, connector=wire
            )
        except sushy.exceptions.ResourceNotFoundError:
            raise self._no_service(wire) from None
        self._root, self._wire, self._auth = root, wire, auth
        if self._leftover:
            self._end_leftover(wire)

    def _no_service(self, wire: transport.Wire) -> errors.BmcBadAnswer:
        node = self.node
        what = "session service; set redfish_auth_type to basic or auto"
        if not wire.tried_session:
            what = f"Redfish service at {node.root_prefix}; check redfish_address"
        message = f"The BMC at {node.address} has no {what}."
        return errors.BmcBadAnswer(message, address=node.address, reason=f"no {what}")

    def _end_leftover(self, wire: transport.Wire) -> None:
        leftover, self._leftover = self._leftover, None
        with contextlib.suppress(*faults.EXPECTED):
            path, token = leftover or ("", "")
            # By its own token: a BMC that was restarted may have given its place to another.
            wire.delete(path, headers={"X-Auth-Token": token})


def _listed(paths: list[str]) -> str:
    shown = ", ".join(paths[:_LISTED]) or "none"
    more = len(paths) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown


# -- all logins -------------------------------------------------------------------------------


class Links:
    """The logins of this process, at most [redfish]connection_cache_size of them when idle."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._links: collections.OrderedDict[tuple[Any, ...], Link] = collections.OrderedDict()
        self.refusals = logins.Refusals()
        self._turns: weakref.WeakValueDictionary[str, Turn] = weakref.WeakValueDictionary()
        self._cold: dict[tuple[Any, ...], None] = {}  # those without a login, in their order

    def __len__(self) -> int:
        return len(self._links)

    @contextlib.contextmanager
    def held(self, node: info.Info) -> Iterator[Link]:
        """Give the login for ``node`` to this thread, once no other one speaks to that BMC.

        :raises errors.BmcUnreachable: the others took longer than one request may.
        """
        key = _key(node)
        with self._mutex:
            link = self._links.get(key)
            if link is None:
                link = Link(node, self._turns.setdefault(node.address, Turn()))
        wait = patience.within(sum(_timeouts()))
        if not link.turn.lock.acquire(timeout=wait):
            text = (
                f"The BMC at {node.address} is busy: other requests of this service to it took "
                f"more than {wait:g} s. Retry later."
            )
            raise errors.BmcUnreachable(text, address=node.address, reason="busy")
        try:
            with self._mutex:
                link = self._links.setdefault(key, link)
                self._links.move_to_end(key)
                link.used = time.monotonic()
            yield link.at(node)
        finally:
            with self._mutex:
                self._cold.pop(key, None)
                if key in self._links and not link.warm:
                    self._cold[key] = None
            link.turn.lock.release()
            self._trim(link)

    def close(self, seconds: float) -> None:
        """Log out everywhere; what takes longer is left to the BMCs' time limit of sessions."""
        with self._mutex:
            links = list(self._links.values())
            self._links.clear()
            self._cold.clear()
        logins.together([functools.partial(_log_out, link, seconds) for link in links], seconds)

    def _trim(self, mine: Link) -> None:
        """Log out of BMCs that are too many; one in use now trims itself later."""
        for link in self._surplus():
            short = contextlib.nullcontext() if link is mine else patience.limit(surplus.SECONDS)
            try:
                with short:
                    link.close()
            finally:
                link.turn.lock.release()

    def _surplus(self) -> list[Link]:
        """Return links beyond the bound or idle for long, taken out of the cache and locked."""
        found: list[tuple[Any, ...]] = []
        with self._mutex:
            over = len(self._links) - config.CONF.redfish.connection_cache_size
            idle = time.monotonic() - IDLE_SECONDS
            for key in surplus.leaving(self._links, self._cold, over=over, idle=idle):
                link = self._links[key]
                if len(found) >= over and link.used > idle:
                    break
                if link.turn.lock.acquire(blocking=False):
                    found.append(key)
            for key in found:
                self._cold.pop(key, None)
            return [self._links.pop(key) for key in found]


def _log_out(link: Link, seconds: float) -> None:
    if link.turn.lock.acquire(timeout=seconds):
        try:
            link.close()
        finally:
            link.turn.lock.release()


def _key(node: info.Info) -> tuple[Any, ...]:
    """Return what two nodes must have in common to share a login."""
    digest = hmac.digest(_SECRET, (node.password or "").encode(), "sha256")
    tls = (node.verify, node.tls_minimum_version, node.tls_ciphers)
    return (node.address, node.root_prefix, node.username, digest, node.auth_type, *tls)


LINKS = Links()
