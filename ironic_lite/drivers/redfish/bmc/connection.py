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
import itertools
import logging
import random
import re
import secrets
import threading
import time
import urllib.parse
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from ironic_lite import errors
from ironic_lite.core import config, metrics, threads
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import allowed_networks, base, deadline
from ironic_lite.drivers.redfish.bmc import faults, info, transport
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

# Retry policy for requests to BMCs.

BUSY_TRIES = 6
BUSY_SECONDS = 5.0
"""Attempts at a busy BMC, and the first pause in seconds, which doubles each time."""

LONGEST_PAUSE, LONGEST_WAIT = 120.0, 300.0
"""Limits in seconds of one pause that a BMC asks for by Retry-After, and of all in one call."""
_SHORTEST_PAUSE = 1.0


class Tries:
    """The count of attempts in one call."""

    def __init__(self, read: bool) -> None:
        self._read = read
        self._done = 1
        self._busy = 0
        self._login = False
        self._waited = 0.0

    def pause(
        self, again: faults.BmcRetry, *, warm: bool, after: float | None = None
    ) -> float | None:
        """Return the seconds to wait before the next attempt, or None to give up.

        :param after: the pause that the BMC asks for; it has not begun the request.
        """
        if after is not None:
            delay = min(max(after, _SHORTEST_PAUSE), LONGEST_PAUSE)
            self._waited += delay
            return delay if self._waited <= LONGEST_WAIT else None
        if again is faults.BmcRetry.LOGIN:
            known, self._login = self._login, True
            return 0 if warm and not known else None
        if again is faults.BmcRetry.BUSY:
            self._busy += 1
            delay = BUSY_SECONDS * 2.0 ** (self._busy - 1)
            return delay if self._busy < BUSY_TRIES else None
        allowed = again is faults.BmcRetry.ANY or (again is faults.BmcRetry.READ and self._read)
        self._done += 1
        if not allowed or self._done > config.CONF.redfish.connection_attempts:
            return None
        interval: float = config.CONF.redfish.connection_retry_interval
        # The cached login may be the whole cause, so a retry with a new login needs no pause.
        return 0 if warm else interval


# Selection of the BMC logins to close when the pool is over its limit.

K = TypeVar("K")

EVICTION_SECONDS = 2.0
"""Time limit for closing another BMC's login to make room, which delays the current call."""


class PooledLogin(Protocol):
    """The known facts about a pooled login."""

    used: float
    """Time of the last use, by time.monotonic."""


def logins_to_close(
    links: Mapping[K, PooledLogin], cold: Iterable[K], *, over: int, idle: float
) -> Iterator[K]:
    """Yield the keys of logins to close, the best candidates first; some keys come twice.

    Logins in use are chosen at random. A sweep polls all BMCs in the same order, so the least
    recently used login would be the next one needed: a fleet with one BMC more than the limit would
    then log in at every BMC in every sweep.

    :param links: by key, the least recently used first; must not change during the iteration.
    :param cold: keys of links without a login, because their BMCs did not answer.
    :param over: number of links above the limit; at 0 or less only idle links are yielded.
    :param idle: links last used at or before this time are idle.
    """
    for key, link in links.items():
        if link.used > idle:
            break
        yield key
    if over <= 0:
        return
    yield from cold
    # The choice must be unpredictable but not secret, so an ordinary random generator will do.
    start = random.randrange(len(links))
    yield from itertools.islice(links, start, None)
    yield from itertools.islice(links, start)


# Memory of refused logins.


REFUSED_SECONDS, REFUSED_LONGEST = 60.0, 300.0
"""First and longest pause in seconds after a refused login; the pause doubles with each refusal.
BMCs lock a user or our address out after three to five wrong passwords within a minute or more."""

_REMEMBERED = 10_000
"""Limit of remembered refused logins."""
_WARNED = 4096
"""Limit of BMCs whose warning is remembered: 2 MiB, as `info` bounds the length of a host."""


def warn_unverified(node: info.RedfishInfo) -> None:
    """Log once for each BMC that its identity is not verified."""
    if node.verify is False and node.address.startswith("https:"):
        _warn_of_address(node.address)


@functools.lru_cache(maxsize=_WARNED)
def _warn_of_address(address: str) -> None:
    LOG.warning("The certificate of the BMC at %s is not verified.", address)


class RefusedLogins:
    """Refused logins, which are refused again for a while without asking the BMC."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns seconds."""
        self._clock = clock
        self._guard = threading.Lock()
        # Login key: (time of the next allowed attempt, last pause, the error)
        self._refused: collections.OrderedDict[Hashable, tuple[float, float, errors.Error]] = (
            collections.OrderedDict()
        )

    def check(self, login: Hashable) -> None:
        """Accept a login unless the BMC refused it recently.

        :raises errors.BmcAccessDenied: the BMC refused it; the message has the time of the next
            try.
        """
        if not self._refused:
            return
        with self._guard:
            found = self._refused.get(login)
        if found is None:
            return
        left = found[0] - self._clock()
        if left > 0:
            why = found[2]
            raise errors.BmcAccessDenied(
                f"{why.message} The service does not retry these credentials for "
                f"{max(1, round(left))} s, because the BMC may lock that user out.",
                **why.facts,
            )

    def note(self, login: Hashable, why: errors.Error) -> None:
        """Remember a refusal."""
        with self._guard:
            known = self._refused.pop(login, None)
            pause = min(known[1] * 2, REFUSED_LONGEST) if known else REFUSED_SECONDS
            self._refused[login] = (self._clock() + pause, pause, why)
            if len(self._refused) > _REMEMBERED:
                self._refused.popitem(last=False)

    def forget(self, login: Hashable) -> None:
        """Forget a refusal, because the login works now."""
        if self._refused:
            with self._guard:
                self._refused.pop(login, None)


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


def settings(task: base.Task) -> info.RedfishInfo:
    """Parse the BMC settings in the node's driver_info.

    :raises errors.MissingParameter, errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    options = config.CONF.redfish
    given = task.node.driver_info
    node = info.parse(
        given,
        auth_type=options.auth_type,
        ca_folder=options.ca_folder,
        verify_ca=options.verify_ca,
        tls_minimum_version=options.tls_minimum_version,
        tls_ciphers=options.tls_ciphers,
        keep_connections=options.keep_connections,
    )
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
    tries = Tries(read)
    while True:
        connect, answer = _timeouts()
        with LINKS.held(node, task.confirm_lock) as link:
            link.documents = task.documents
            warm = link.warm
            if not warm:
                LINKS.refusals.check(_login_key(node))
            try:
                done = work(link.opened())
                deadline.SILENT.note(task.node.uuid, silent=False)
                if not warm:
                    LINKS.refusals.forget(_login_key(node))
                return done
            except faults.expected() as error:
                LOG.debug("Call to the BMC at %s failed.", node.address, exc_info=True)
                fault = faults.explain(error, node, connect=connect, read=answer)
                deadline.SILENT.note(task.node.uuid, silent=fault.silent)
                if fault.stale:
                    link.forget(ended=fault.denied)
                if fault.denied and not warm:
                    LINKS.refusals.note(_login_key(node), fault.error)
        faults.check_time(node)
        pause = tries.pause(fault.again, warm=warm, after=fault.after)
        if pause is None or pause > deadline.longest_pause():
            raise fault.error
        metrics.BMCS.retried("redfish")
        if pause:
            task.pause(pause)


def _timeouts() -> tuple[float, float]:
    """Return the connect timeout and the read timeout in seconds."""
    options = config.CONF.redfish
    return deadline.within(options.connect_timeout), deadline.within(options.read_timeout)


# -- one login --------------------------------------------------------------------------------


class BmcLock:
    """The lock of one BMC."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Link:
    """A login at a BMC and its cached resources. Only the holder of its `BmcLock` uses it."""

    def __init__(self, node: info.RedfishInfo, bmc_lock: BmcLock) -> None:
        self.node = node
        self.bmc_lock = bmc_lock
        self.used = 0.0
        self.expands = True
        """True if the BMC answers requests for whole collections, as far as known."""
        self.before: transport.Before = _allow_unowned_request
        self.documents: Json = {}
        """Those that the present holder has read since its last change and pause."""
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
        if self._wire is not None:
            self._wire.drop_connection()
        self._root = self._wire = self._auth = self._only = None

    def close(self) -> None:
        """Log out; on failure the session ends by the BMC's own time limit."""
        # After a fault the BMC may be silent, which must not delay the current call.
        short = contextlib.nullcontext() if self.warm else deadline.limit(EVICTION_SECONDS)
        self.forget()
        with short:
            self._end_leftover()

    def at(self, node: info.RedfishInfo, before: transport.Before) -> Link:
        """Point at the system of ``node``; nodes behind one BMC share its login."""
        if node.system_id != self.node.system_id:
            self.node = node
        self.before = before
        return self

    def _allow_request(self, *, changes: bool) -> None:
        self.before(changes=changes)  # the callback of the current holder of the link
        if changes:
            self.documents.clear()

    # -- reading --------------------------------------------------------------------------

    def power_word(self, system: Json | None = None) -> str | None:
        """Return the PowerState of the system in Redfish's word.

        :param system: its document; None sends one GET.
        """
        word = (self.system_document() if system is None else system).get("PowerState")
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
        self.documents[path] = found
        return found

    def known_system(self) -> Json:
        """Return the system as this task knows it, for facts that it does not wait for."""
        found: Json | None = self.documents.get(self.system_path())
        return found or self.system_document()

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
        warn_unverified(node)
        read_root = functools.partial(
            logins.ServiceRoot,
            node.address,
            root_prefix=node.root_prefix,
            auth=auth,
            connector=wire,
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
        size = transport.memory_size(document)
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
        with contextlib.suppress(*faults.expected()), wire.unkept():
            # Use the session's own token: a restarted BMC may have given its path to another
            # session.
            wire.send_of_session("DELETE", path, headers={"X-Auth-Token": token})


def _refuse_other_kind(document: Json, kind: str, path: str) -> None:
    """Refuse settings that lead to another resource, such as a manager, which has a power, too.

    :param kind: the type that the document must have, if it names one (DSP0266, type property).
    :raises errors.InvalidParameter: naming ``path``.
    """
    found = _TYPE.match(str(document.get("@odata.type")))
    if found is not None and found[1] != kind:
        reason = f"leads to a resource of the type {found[1][:_LONGEST_TYPE]}, not to a {kind}"
        raise errors.InvalidParameter(path=path, reason=reason)


def _allow_unowned_request(*, changes: bool) -> None:
    """Allow a request that belongs to no node, such as a logout."""


def _shortened_list(paths: list[str]) -> str:
    shown = ", ".join(paths[:_LISTED]) or "none"
    more = len(paths) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown


# -- all logins -------------------------------------------------------------------------------


class BmcLinks:
    """The logins of this process; [redfish]connection_cache_size limits the idle ones."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._links: collections.OrderedDict[tuple[Any, ...], Link] = collections.OrderedDict()
        self.refusals = RefusedLogins()
        self._turns: weakref.WeakValueDictionary[str, BmcLock] = weakref.WeakValueDictionary()
        self._cold: dict[tuple[Any, ...], None] = {}  # links without a login, oldest first

    def __len__(self) -> int:
        return len(self._links)

    @contextlib.contextmanager
    def held(self, node: info.RedfishInfo, before: transport.Before) -> Iterator[Link]:
        """Give the login for ``node`` to this thread, once no other thread uses that BMC.

        :param before: called before each request within the block; see ``Link.before``.
        :raises errors.BmcUnreachable: other threads used the BMC longer than one request may take.
        """
        key = _login_key(node)
        with self._mutex:
            link = self._links.get(key)
            if link is None:
                link = Link(node, self._turns.setdefault(node.address, BmcLock()))
        wait = deadline.within(sum(_timeouts()))
        if not link.bmc_lock.lock.acquire(timeout=wait):
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
            link.before, link.documents = _allow_unowned_request, {}
            with self._mutex:
                self._cold.pop(key, None)
                if key in self._links and not link.warm:
                    self._cold[key] = None
            link.bmc_lock.lock.release()
            self._trim_cache(link)

    def close(self, seconds: float) -> None:
        """Log out everywhere; BMCs end the sessions that are not closed in time by their own
        limit."""
        with self._mutex:
            links = list(self._links.values())
            self._links.clear()
            self._cold.clear()
        acts = [functools.partial(_log_out, link, seconds) for link in links]
        threads.run_within(acts, seconds, "log-out")
        transport.KEPT.close()

    def _trim_cache(self, mine: Link) -> None:
        """Log out of surplus BMCs; a link in use is trimmed later by its holder."""
        for link in self._take_surplus():
            short = contextlib.nullcontext() if link is mine else deadline.limit(EVICTION_SECONDS)
            try:
                with short:
                    link.close()
            finally:
                link.bmc_lock.lock.release()

    def _take_surplus(self) -> list[Link]:
        """Remove surplus and idle links from the cache and return them locked."""
        found: list[tuple[Any, ...]] = []
        with self._mutex:
            over = len(self._links) - config.CONF.redfish.connection_cache_size
            idle = time.monotonic() - IDLE_SECONDS
            for key in logins_to_close(self._links, self._cold, over=over, idle=idle):
                link = self._links[key]
                if len(found) >= over and link.used > idle:
                    break
                if link.bmc_lock.lock.acquire(blocking=False):
                    found.append(key)
            for key in found:
                self._cold.pop(key, None)
            return [self._links.pop(key) for key in found]


def _log_out(link: Link, seconds: float) -> None:
    if link.bmc_lock.lock.acquire(timeout=seconds):
        try:
            link.close()
        finally:
            link.bmc_lock.lock.release()


def _login_key(node: info.RedfishInfo) -> tuple[Any, ...]:
    """Return the settings that two nodes must have in common to share a login."""
    digest = hmac.digest(_SECRET, (node.password or "").encode(), "sha256")
    ways = (node.verify, node.tls_minimum_version, node.tls_ciphers, node.keep_connections)
    return (node.address, node.root_prefix, node.username, digest, node.auth_type, *ways)


LINKS = BmcLinks()
