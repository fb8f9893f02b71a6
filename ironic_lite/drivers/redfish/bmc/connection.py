"""Pool of BMC logins, in which one thread at a time uses a BMC.

All hardware access of this driver goes through `call`. It opens or reuses a login, runs a function
on it and retries the function as `faults` allows.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hmac
import importlib
import logging
import re
import secrets
import threading
import time
import urllib.parse
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ironic_lite import errors
from ironic_lite.core import bmc_metrics, config
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import allowed_networks, base, deadline, silence
from ironic_lite.drivers.redfish.bmc import (
    faults,
    info,
    responses,
    retries,
    session_eviction,
    sessions,
    transport,
)
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

T = TypeVar("T")

IDLE_SECONDS = 600.0
"""Unused logins are closed after this time: the node is gone, or its address or password
changed."""

_LISTED = 10
"""Systems that an error lists before it only counts the rest."""

_TYPE = re.compile(r"#(\w+)\.")
_LONGEST_TYPE = 60

_MOST_ROOT, _LONGEST_PATH = 256 * 1024, 2048
"""Limits of a service root, in bytes of memory, and of a system's path, in characters.

Both are kept with the login. Real roots take some ten thousand bytes."""

_SECRET = secrets.token_bytes(32)
"""Key for the password digests in our cache keys, so they are worthless outside this process."""


def settings(task: base.Task) -> info.Info:
    """Parse the BMC settings in the node's driver_info.

    :raises errors.MissingParameter, errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    options = config.CONF.redfish
    given = task.node.driver_info
    node = info.parse(given, auth_type=options.auth_type, ca_folder=options.ca_folder)
    host = urllib.parse.urlsplit(node.address).hostname or ""
    allowed_networks.refuse(host, "redfish", "driver_info/redfish_address")
    return node


def call(task: base.Task, work: Callable[[Link], T], *, read: bool = True) -> T:
    """Run ``work`` on a login at the node's BMC and return its result.

    A failed call is retried if its fault allows that. ``work`` must not pause, because other nodes
    of the same BMC wait for it.

    :param read: the work changes nothing, so running it twice is harmless.
    :raises errors.HardwareError: the kind and message come from `faults`.
    :raises errors.InvalidRequest: driver_info is invalid.
    """
    node = settings(task)
    faults.check_time(node)
    tries = retries.Tries(read)
    while True:
        connect, answer = _timeouts()
        with LINKS.held(node, task.confirm_lock) as link:
            warm = link.warm
            if not warm:
                LINKS.refusals.check(_login_key(node))
            try:
                done = work(link.opened())
                silence.SILENT.note(task.node.uuid, silent=False)
                if not warm:
                    LINKS.refusals.forget(_login_key(node))
                return done
            except faults.expected() as error:
                LOG.debug("Call to the BMC at %s failed.", node.address, exc_info=True)
                fault = faults.explain(error, node, connect=connect, read=answer)
                silence.SILENT.note(task.node.uuid, silent=fault.silent)
                if fault.stale:
                    link.forget(ended=fault.denied)
                if fault.denied and not warm:
                    LINKS.refusals.note(_login_key(node), fault.error)
        faults.check_time(node)
        pause = tries.pause(fault.again, warm=warm, after=fault.after)
        if pause is None or pause > deadline.pause():
            raise fault.error
        bmc_metrics.BMCS.retried("redfish")
        if pause:
            task.pause(pause)


def _timeouts() -> tuple[float, float]:
    """Return the connect timeout and the read timeout in seconds."""
    options = config.CONF.redfish
    return deadline.within(options.connect_timeout), deadline.within(options.read_timeout)


# -- one login --------------------------------------------------------------------------------


class Turn:
    """The lock of one BMC."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Link:
    """A login at a BMC and its cached resources. Only the thread that holds its `Turn` uses it."""

    def __init__(self, node: info.Info, turn: Turn) -> None:
        self.node = node
        self.turn = turn
        self.used = 0.0
        self.expands = True
        """True if the BMC answers requests for whole collections, as far as known."""
        self.before: Callable[[], None] = _allow_unowned_request
        """Called before each request; if it raises, the request is not sent."""
        self._root: Any = None
        self._wire: transport.Wire | None = None
        self._auth: Any = None
        self._only: str | None = None
        self._leftover: tuple[transport.Wire, str, str] | None = None
        """A session to end: its connector, path and token."""

    @property
    def warm(self) -> bool:
        """Return whether a login from an earlier call exists."""
        return self._root is not None

    def opened(self) -> Link:
        """Log in if there is no login yet; a warm link sends no request.

        :raises Exception: one of `faults.expected`; the login failed.
        """
        if self._wire is None:
            self._log_in()
        return self

    def forget(self, *, ended: bool = False) -> None:
        """Drop the login and its resources; the next login or `close` ends the session unless it
        has ``ended``."""
        if self._wire is not None and self._wire.has_token:
            session = None if ended else self._auth.session
            self._leftover = (self._wire, *session) if session else None
        self._root = self._wire = self._auth = self._only = None

    def close(self) -> None:
        """Log out; on failure the session ends by the BMC's own time limit."""
        # After a fault the BMC may be silent, which must not delay the current call.
        short = contextlib.nullcontext() if self.warm else deadline.limit(session_eviction.SECONDS)
        self.forget()
        with short:
            self._end_leftover()

    def at(self, node: info.Info, before: Callable[[], None]) -> Link:
        """Point at the system of ``node``; nodes behind one BMC share its login."""
        if node.system_id != self.node.system_id:
            self.node = node
        self.before = before
        return self

    def _allow_request(self) -> None:
        self.before()  # the callback of the current holder of the link

    # -- reading --------------------------------------------------------------------------

    def power_word(self) -> str | None:
        """Return the PowerState of the system in Redfish's word; sends one GET."""
        word = self.system_document().get("PowerState")
        if not isinstance(word, str | None):
            what = f"PowerState of {self.system_path()} is {type(word).__name__}"
            raise transport.not_json(what)
        return word

    def system_document(self) -> Json:
        """Return the system as JSON; sends one GET."""
        path = self.system_path()
        try:
            found = self.wire.document(path)
        except sushy.exceptions.ResourceNotFoundError:
            raise self._no_system(path) from None
        _refuse_other_kind(found, "ComputerSystem", "driver_info/redfish_system_id")
        return found

    @property
    def root_document(self) -> Json:
        """Return the service root as read at the login."""
        found: Json = self._root.json
        return found

    def system(self) -> Any:
        """Return sushy's view of the system, read now; sends one GET."""
        path = self.system_path()
        try:
            return self._root.get_system(path)
        except sushy.exceptions.ResourceNotFoundError:
            raise self._no_system(path) from None

    @property
    def wire(self) -> transport.Wire:
        """The connector, for plain requests."""
        if self._wire is None:
            raise RuntimeError("open the link before using it")
        return self._wire

    def system_path(self) -> str:
        """Return the path of the system; look it up once if driver_info does not name it.

        :raises errors.InvalidParameter: the BMC has several systems.
        """
        path = self.node.system_id or self._only
        if path is None:
            path = self._only = self._only_system()
        return path

    def _only_system(self) -> str:
        paths = self._system_paths()
        if not paths:
            raise self._still_starting("lists no system")
        if len(paths) > 1:
            reason = (
                f"the BMC at {self.node.address} has {_shortened_list(paths)}; name one of them"
            )
            raise errors.InvalidParameter(path="driver_info/redfish_system_id", reason=reason)
        if len(paths[0]) > _LONGEST_PATH:
            reason = f"the path of its system has {len(paths[0])} characters"
            raise errors.BmcBadAnswer(address=self.node.address, reason=reason)
        return paths[0]

    def _system_paths(self) -> list[str]:
        if "Systems" not in self._root.json and "RedfishVersion" in self._root.json:
            reason = (
                f"the service root of the BMC at {self.node.address} lists no systems; name the "
                "system here, such as /redfish/v1/Systems/1"
            )
            raise errors.InvalidParameter(path="driver_info/redfish_system_id", reason=reason)
        return [str(path) for path in self._root.get_system_collection().members_identities]

    def _no_system(self, path: str) -> errors.Error | Exception:
        """Return the error for a missing system; it lists the systems that exist."""
        if self.node.system_id is None:
            return transport.not_json(f"the BMC listed the system {path}, which does not exist")
        paths: list[str] = []
        with contextlib.suppress(*faults.expected()):
            paths = self._system_paths()
        if not paths:
            return self._still_starting(f"does not have the system {path} and lists no system")
        reason = (
            f"the BMC at {self.node.address} has no system {path}; it has {_shortened_list(paths)}"
        )
        return errors.InvalidParameter(path="driver_info/redfish_system_id", reason=reason)

    def _still_starting(self, what: str) -> errors.BmcUnreachable:
        """Return the error for a BMC that answers before it has detected its machine."""
        address = self.node.address
        text = f"The BMC at {address} {what}. It may be starting; retry later."
        return errors.BmcUnreachable(text, address=address, reason=what)

    # -- logging in -----------------------------------------------------------------------

    def _log_in(self) -> None:
        node = self.node
        options = config.CONF.redfish
        connect, answer = options.connect_timeout, options.read_timeout
        wire = transport.Wire(
            node, connect_timeout=connect, read_timeout=answer, before=self._allow_request
        )
        logins = importlib.import_module("ironic_lite.drivers.redfish.bmc.logins")
        auth = logins.Login(node, wire)
        sessions.warn(node)
        read_root = functools.partial(
            logins.Root, node.address, root_prefix=node.root_prefix, auth=auth, connector=wire
        )
        try:
            try:
                root = read_root()
            except sushy.exceptions.AccessError:
                if auth.has_root or node.username is None:
                    raise
                # DSP0266 gives the root to everybody; some BMCs want the password first.
                wire.use_password(node.username, node.password or "")
                root = read_root()
        except sushy.exceptions.ResourceNotFoundError:
            raise self._no_service(auth) from None
        self._root, self._wire, self._auth = root, wire, auth
        self._end_leftover()
        try:
            _refuse_other_kind(root.json, "ServiceRoot", "driver_info/redfish_address")
            self._refuse_large_root(root.json)
        except (errors.InvalidParameter, errors.BmcBadAnswer):
            self.close()
            raise

    def _refuse_large_root(self, document: Json) -> None:
        size = responses.memory(document)
        if size > _MOST_ROOT:
            reason = f"its service root takes {size} bytes of memory, more than {_MOST_ROOT}"
            raise errors.BmcBadAnswer(address=self.node.address, reason=reason)

    def _no_service(self, auth: Any) -> errors.BmcBadAnswer:
        node = self.node
        what = "session service; set redfish_auth_type to basic or auto"
        if not auth.tried_session:
            what = f"Redfish service at {node.root_prefix}; check redfish_address"
        message = f"The BMC at {node.address} has no {what}."
        return errors.BmcBadAnswer(message, address=node.address, reason=f"no {what}")

    def _end_leftover(self) -> None:
        if self._leftover is None:
            return
        (wire, path, token), self._leftover = self._leftover, None
        with contextlib.suppress(*faults.expected()):
            # Use the session's own token: a restarted BMC may have given its path to another
            # session.
            wire.delete(path, headers={"X-Auth-Token": token})


def _refuse_other_kind(document: Json, kind: str, path: str) -> None:
    """Refuse settings that lead to another resource, such as a manager, which has a power, too.

    :param kind: the type that the document must have, if it names one (DSP0266, type property).
    :raises errors.InvalidParameter: naming ``path``.
    """
    found = _TYPE.match(str(document.get("@odata.type")))
    if found is not None and found[1] != kind:
        reason = f"leads to a resource of the type {found[1][:_LONGEST_TYPE]}, not to a {kind}"
        raise errors.InvalidParameter(path=path, reason=reason)


def _allow_unowned_request() -> None:
    """Allow a request that belongs to no node, such as a logout."""


def _shortened_list(paths: list[str]) -> str:
    shown = ", ".join(paths[:_LISTED]) or "none"
    more = len(paths) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown


# -- all logins -------------------------------------------------------------------------------


class Links:
    """The logins of this process; [redfish]connection_cache_size limits the idle ones."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._links: collections.OrderedDict[tuple[Any, ...], Link] = collections.OrderedDict()
        self.refusals = sessions.Refusals()
        self._turns: weakref.WeakValueDictionary[str, Turn] = weakref.WeakValueDictionary()
        self._cold: dict[tuple[Any, ...], None] = {}  # links without a login, oldest first

    def __len__(self) -> int:
        return len(self._links)

    @contextlib.contextmanager
    def held(self, node: info.Info, before: Callable[[], None]) -> Iterator[Link]:
        """Give the login for ``node`` to this thread, once no other thread uses that BMC.

        :param before: called before each request within the block; see ``Link.before``.
        :raises errors.BmcUnreachable: other threads used the BMC longer than one request may take.
        """
        key = _login_key(node)
        with self._mutex:
            link = self._links.get(key)
            if link is None:
                link = Link(node, self._turns.setdefault(node.address, Turn()))
        wait = deadline.within(sum(_timeouts()))
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
            yield link.at(node, before)
        finally:
            link.before = _allow_unowned_request
            with self._mutex:
                self._cold.pop(key, None)
                if key in self._links and not link.warm:
                    self._cold[key] = None
            link.turn.lock.release()
            self._trim_cache(link)

    def close(self, seconds: float) -> None:
        """Log out everywhere; BMCs end the sessions that are not closed in time by their own
        limit."""
        with self._mutex:
            links = list(self._links.values())
            self._links.clear()
            self._cold.clear()
        sessions.together([functools.partial(_log_out, link, seconds) for link in links], seconds)

    def _trim_cache(self, mine: Link) -> None:
        """Log out of surplus BMCs; a link in use is trimmed later by its holder."""
        for link in self._take_surplus():
            short = (
                contextlib.nullcontext()
                if link is mine
                else deadline.limit(session_eviction.SECONDS)
            )
            try:
                with short:
                    link.close()
            finally:
                link.turn.lock.release()

    def _take_surplus(self) -> list[Link]:
        """Remove surplus and idle links from the cache and return them locked."""
        found: list[tuple[Any, ...]] = []
        with self._mutex:
            over = len(self._links) - config.CONF.redfish.connection_cache_size
            idle = time.monotonic() - IDLE_SECONDS
            for key in session_eviction.leaving(self._links, self._cold, over=over, idle=idle):
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


def _login_key(node: info.Info) -> tuple[Any, ...]:
    """Return the settings that two nodes must have in common to share a login."""
    digest = hmac.digest(_SECRET, (node.password or "").encode(), "sha256")
    tls = (node.verify, node.tls_minimum_version, node.tls_ciphers)
    return (node.address, node.root_prefix, node.username, digest, node.auth_type, *tls)


LINKS = Links()
