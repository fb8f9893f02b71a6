"""The arguments ``wait`` and ``until``: answer when a node or a run has reached a state.

A handler calls `check_node` or `check_run` with the row it has read. The function returns if the
answer can go out, and raises `errors.EndedOtherwise` or `errors.NotYet` if not. With `NotYet`, the
request is suspended while time is left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.api.http.request import Request, Suspension
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.service import Service
from ironic_lite.core.json_types import Json, Row, RowView
from ironic_lite.core.options import Configuration
from ironic_lite.db.queries import runs
from ironic_lite.domain.states import STATES, Kind, State
from ironic_lite.records import Run

ARGUMENTS = ("wait", "until")
IDLE = "idle"
ENDED = "ended"
_SECONDS = re.compile(r"[0-9]{1,9}")
_STATES = {state.value: state.value for state in State if state.value}
_UNTIL_NODE: Mapping[str, str] = {
    **{name.replace(" ", "-"): name for name in _STATES},
    **_STATES,
    IDLE: IDLE,
}
_UNTIL_RUN = (ENDED, "done", "waiting")
_OVER = frozenset({"done", "failed", "aborted"})
_RESTING = frozenset({Kind.STABLE, Kind.FAIL})
NODE_COLUMNS = ("uuid", "provision_state", "last_error")
"""Columns of a node that `check_node` reads."""


class Wait(NamedTuple):
    """A wait that a request asks for: seconds, and the states that end it."""

    seconds: int
    until: tuple[str, ...]


def seconds(text: str, conf: Configuration) -> int:
    """Return the seconds of the argument ``wait``, at most [api]max_wait.

    :raises errors.InvalidParameter: not a positive number.
    """
    if not _SECONDS.fullmatch(text) or int(text) < 1:
        raise errors.InvalidParameter(path="wait", reason=f"{text[:32]!r} is not seconds, from 1")
    return min(int(text), int(conf.api.max_wait))


class Words(NamedTuple):
    """The words of ``until``: as given -> as compared; what they are; the default."""

    known: Mapping[str, str]
    what: str
    default: str | None


_OF_NODE = Words(_UNTIL_NODE, "a provision state or idle", None)
_OF_RUN = Words({word: word for word in _UNTIL_RUN}, "ended, done or waiting", ENDED)


def of_node(wait: str | None, until: str | None, conf: Configuration) -> Wait | None:
    """Return the wait for a node that the arguments ask for, None without one.

    :raises errors.InvalidParameter: an argument cannot be read, or one lacks the other.
    """
    return of(wait, until, conf, _OF_NODE)


def of_run(wait: str | None, until: str | None, conf: Configuration) -> Wait | None:
    """Return the wait for a run that the arguments ask for, None without one.

    :raises errors.InvalidParameter: an argument cannot be read, or ``until`` lacks ``wait``.
    """
    return of(wait, until, conf, _OF_RUN)


def of(wait: str | None, until: str | None, conf: Configuration, words: Words) -> Wait | None:
    """Return the wait that the arguments ask for, None without one.

    :raises errors.InvalidParameter: an argument cannot be read, or one lacks the other.
    """
    if wait is None:
        if until is not None:
            raise errors.InvalidParameter(path="until", reason="needs wait, in seconds")
        return None
    text = until if until is not None else words.default
    if text is None:
        raise errors.InvalidParameter(path="wait", reason=f"needs until: {words.what}")
    found = []
    for word in text.split(","):
        name = words.known.get(word.strip().lower())
        if name is None:
            known = ", ".join(dict.fromkeys(words.known.values()))
            reason = f"{word[:32]!r} is not {words.what}. Valid are: {known}"
            raise errors.InvalidParameter(path="until", reason=reason)
        found.append(name)
    return Wait(seconds(wait, conf), tuple(dict.fromkeys(found)))


def split(
    query: Mapping[str, str],
    conf: Configuration,
    read: Callable[[str | None, str | None, Configuration], Wait | None],
) -> tuple[dict[str, str], Wait | None]:
    """Return ``fields``, if a query for one resource has it, and the wait that it asks for.

    :param read: such as `of_node` or `of_run`.
    :raises errors.InvalidParameter: an unknown argument; or as ``read``.
    """
    errors.UnexpectedArguments.check(query, ("fields", *ARGUMENTS))
    others = {name: text for name, text in query.items() if name not in ARGUMENTS}
    return others, read(query.get("wait"), query.get("until"), conf)


def check_node(
    request: Request,
    wait: Wait,
    read: Callable[[], RowView],
    latest: Callable[[str], RowView | None],
) -> None:
    """Return if the node is in a state that the request waits for.

    :param read: reads the columns `NODE_COLUMNS`, as the caller may see them.
    :param latest: reads the newest run of a node by its UUID.
    :raises errors.EndedOtherwise: nothing is under way, and the last run has ended otherwise.
    :raises errors.NotYet: it may still come.
    """
    node = read()
    if node["provision_state"] in wait.until:
        return
    run = latest(node["uuid"])
    if run is None or run["state"] in _OVER:
        node = read()  # as it is after the end of that run
        kind = STATES[State(node["provision_state"])].kind
        if node["provision_state"] in wait.until:
            return
        if kind in _RESTING:
            if IDLE in wait.until:
                return
            _refuse_failed(wait.until, node, run)
    what = f"Node {node['uuid']}"
    suspend(request, wait.seconds, what, wait.until, node["provision_state"], node=node["uuid"])


def _refuse_failed(until: Collection[str], node: RowView, run: RowView | None) -> None:
    failed = run is not None and run["state"] in ("failed", "aborted")
    if not failed and STATES[State(node["provision_state"])].kind is not Kind.FAIL:
        return
    raise errors.EndedOtherwise(
        node=node["uuid"],
        until=" or ".join(until),
        state=node["provision_state"],
        reason=node["last_error"] or "",
        run=run["uuid"] if run is not None else None,
    )


def check_run(request: Request, wait: Wait | None, run: RowView, rule: str) -> None:
    """Return if a run is in a state that the request waits for.

    :param run: with uuid, node_uuid, state, error, owner and lessee.
    :param rule: for reading the run's error; the end of a run is for all who could wait for it.
    :raises errors.EndedOtherwise: the run has ended otherwise.
    :raises errors.NotYet: it may still come.
    """
    if wait is None:
        return
    state = run["state"]
    over = state in _OVER
    if state in wait.until or (over and ENDED in wait.until):
        return
    if over:
        text = (run["error"] or {}).get("text", "") if request.access.reads(rule, run) else ""
        raise errors.EndedOtherwise(
            f"Run {run['uuid']} has ended as {state}, not as {' or '.join(wait.until)}. "
            f"{text}".rstrip(),
            node=run["node_uuid"],
            run=run["uuid"],
        )
    what = f"Run {run['uuid']}"
    suspend(request, wait.seconds, what, wait.until, state, node=run["node_uuid"])


def suspend(
    request: Request, most: float, what: str, until: Collection[str], state: str, *, node: str
) -> None:
    """Suspend the request until the next event of a node, while time is left.

    :param most: seconds since the start of the request.
    :raises errors.NotYet: always; the answer goes out when the time is over.
    """
    left = most - request.call.watch.seconds
    request.call.later = Suspension(left, node=node) if left > 0 else None
    raise errors.NotYet(what=what, until=" or ".join(until), seconds=f"{most:g}", state=state)


def fetch_node(
    service: Service,
    request: Request,
    ident: str,
    columns: Sequence[str],
    wait: Wait | None,
    *,
    with_traits: bool = False,
) -> Json:
    """Return a node's columns, read in a state that the request waits for.

    :param wait: None to read the node as it is, by one statement.
    :param with_traits: adds the key ``traits``, as in `node_lookup.fetch`.
    :raises errors.EndedOtherwise, errors.NotYet: as `check_node`.
    :raises errors.NodeNotFound: as `node_lookup.fetch`.
    """
    if wait is None:
        return node_lookup.fetch(service, request, ident, columns, with_traits=with_traits)
    redact = request.access.redactor()
    checked = (*NODE_COLUMNS, *OWNERS)
    needed = tuple(dict.fromkeys((*columns, *checked)))
    found: Json = {}

    def read() -> Row:
        nonlocal found
        found = node_lookup.fetch(service, request, ident, needed, with_traits=with_traits)
        shown = {name: found[name] for name in checked}
        if redact is not None:
            redact(shown)
        return shown

    def latest(uuid: str) -> Run | None:
        return service.database.read(lambda conn: runs.latest(conn, uuid))

    check_node(request, wait, read, latest)
    return {name: value for name, value in found.items() if name in columns or name == "traits"}
