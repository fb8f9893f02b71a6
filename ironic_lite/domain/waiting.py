"""The end of a node's wait: who or what ends it, its last sign, and its time-out. Pure."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import secrets
from collections.abc import Iterator
from typing import NamedTuple

import orjson

from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json, JsonView, restored
from ironic_lite.core.options import Group
from ironic_lite.domain import activities, states, step_lists, step_times, vocabulary
from ironic_lite.domain.activities import Activity
from ironic_lite.domain.fields import INTERFACE_KINDS
from ironic_lite.domain.states import Kind, State
from ironic_lite.records import RunStep

AGENT, MACHINE, TIMER, OPERATOR = "agent", "machine", "timer", "operator"
RETRY = "retry"
"""The service retries the failed run by itself, at ``wakes_at``."""
COLUMNS = (
    *("provision_state", "provision_updated_at", "wake_at", "driver_internal_info"),
    *("agent_heard_at", "maintenance", "fault", "clean_step", "deploy_step", "service_step"),
    *(f"{kind}_interface" for kind in INTERFACE_KINDS),
)
"""Columns of a node that `of` reads."""

_HEARD, _TOKEN = "agent_last_heartbeat", "agent_secret_token"
_IN_MEDIA = f"{_TOKEN}_pregenerated"
_MACHINE = "agent_secret_machine"  # ours
_LOOKED_UP = "agent_looked_up_at"  # ours
TOKEN_KEYS = (_TOKEN, _IN_MEDIA, _MACHINE, _LOOKED_UP)
_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
_TOKEN_BYTES = 32  # 43 characters of URL-safe text; the agent ignores anything below 32
_POLLED = "polled_since"
_DRIVERS = "driver_notes"
_POLL_LIMIT = "poll_timeout"
_STEP_LIMIT = "step_deadline"
_IN_BAND = "agent"


class NodeWait(NamedTuple):
    """The wait of a node.

    ``what`` ends it: the agent, the machine (its BMC is polled), a timer, the operator, or a retry
    by the service.
    ``given_up_at`` is the time of its failure by the option ``limit``, None without a limit.
    Signs postpone it, unless it is `final`.
    """

    what: str
    since: datetime.datetime | None
    last_sign_at: datetime.datetime | None
    wakes_at: datetime.datetime | None
    given_up_at: datetime.datetime | None
    limit: str | None

    @property
    def final(self) -> bool:
        """True if neither a heartbeat nor a poll postpones the failure."""
        return self.limit == f"[conductor]{_STEP_LIMIT}"


def heard_at(node: JsonView) -> datetime.datetime | None:
    """Return the time of the last heartbeat of the node's running agent."""
    return last_heartbeat(node["driver_internal_info"] or {}, node["agent_heard_at"])


def last_heartbeat(notes: JsonView, recorded: datetime.datetime | None) -> datetime.datetime | None:
    """Return the time of the running agent's last heartbeat.

    :param notes: with the time of the last one that a conductor has accepted.
    :param recorded: the time of the last one that the API has recorded by itself, if any; a former
        agent's counts no more.
    """
    at = notes.get(_HEARD)
    found = datetime.datetime.fromisoformat(at).replace(tzinfo=None) if at else None
    return max(found, recorded) if found and recorded else found


def shown_notes(node: JsonView) -> JsonView | None:
    """Return ``driver_internal_info`` with the time of the last heartbeat."""
    notes: JsonView | None = node["driver_internal_info"]
    at = heard_at(node)
    return notes if notes is None or at is None else {**notes, _HEARD: at.isoformat()}


def agent_pin(url: str, token: str, verify_ca: str | None, version: str | None) -> str:
    """Return the digest by which the API recognises the heartbeats of an agent."""
    return hashlib.sha256(orjson.dumps([url, token, verify_ca, version])).hexdigest()


def with_new_token(node: JsonView, *, before_boot: bool = False) -> tuple[str, Json]:
    """Return a new token of a node's ramdisk, and driver_internal_info with it.

    :param before_boot: the token is part of the ramdisk's boot media. Otherwise the ramdisk has
        looked up its node, after which its machine is left alone.
    """
    token, boot = secrets.token_urlsafe(_TOKEN_BYTES), ramdisk_boot(node)
    held = node["driver_internal_info"] or {}
    notes: Json = {name: value for name, value in held.items() if name not in TOKEN_KEYS}
    notes |= {_TOKEN: token, _MACHINE: _machine_id(node, token)}
    if before_boot:
        return token, {**notes, _IN_MEDIA: True}
    if boot.at is not None:
        settled = RamdiskBoot(boot.run)._asdict()
        notes[_DRIVERS] = {**notes[_DRIVERS], vocabulary.RAMDISK_BOOT: settled}
    return token, {**notes, _LOOKED_UP: clock.now().isoformat()}


def has_moved(node: JsonView, token: str) -> bool:
    """Return whether a token was made for a machine with other settings."""
    return bool(node["driver_internal_info"].get(_MACHINE) != _machine_id(node, token))


def _machine_id(node: JsonView, token: str) -> str:
    """Return an identifier of the agent's machine that does not reveal its settings."""
    about = orjson.dumps([node["driver"], node["driver_info"] or {}], option=_SORTED)
    return hmac.new(token.encode(), about, hashlib.sha256).hexdigest()


def looked_up_at(node: JsonView) -> datetime.datetime | None:
    """Return the time at which the running ramdisk has looked up its node and got its token."""
    at = (node["driver_internal_info"] or {}).get(_LOOKED_UP)
    return datetime.datetime.fromisoformat(at) if at else None


def asked_for_token(node: JsonView) -> bool | None:
    """Return whether a ramdisk has looked this node up; None if its medium has the token."""
    notes = node["driver_internal_info"] or {}
    if notes.get(_HEARD):
        return True
    return None if notes.get(_IN_MEDIA) else _TOKEN in notes


class RamdiskBoot(NamedTuple):
    """Note of the first boot of a ramdisk over the network in a run.

    ``by`` is the conductor that waits for its lookup. ``at``: seconds since 1970 of the machine's
    last start, None without such a wait. ``restarts``: the starts after the first.
    """

    run: str | None = None
    by: str = ""
    at: float | None = None
    restarts: int = 0


def ramdisk_boot(node: JsonView) -> RamdiskBoot:
    """Return the note of a node, an empty one if it has none."""
    notes = (node["driver_internal_info"] or {}).get(_DRIVERS) or {}
    return restored(RamdiskBoot, notes.get(vocabulary.RAMDISK_BOOT, {}))


def of(
    node: JsonView,
    since: datetime.datetime | None,
    settings: Group,
    step: RunStep | None = None,
) -> NodeWait | None:
    """Return the wait of a node; None in states that do not wait.

    :param node: with `COLUMNS`.
    :param since: the begin of the step under way, or of the run.
    :param settings: the options of ``[conductor]``.
    :param step: the step under way.
    """
    state = State(node["provision_state"])
    if states.kind(state) is Kind.HELD:
        return NodeWait(OPERATOR, since, None, None, None, None)
    if states.kind(state) is Kind.FAIL and node["wake_at"] is not None:
        return NodeWait(RETRY, node["provision_updated_at"], None, node["wake_at"], None, None)
    activity = activities.waiting(state)
    if activity is None:
        return None
    what = waited_for(node, activity)
    sign = heard_at(node) if what is AGENT else None
    if what is MACHINE and node["provision_updated_at"] != since:
        sign = node["provision_updated_at"]
    given_up_at, limit = _end(node, activity, settings, step)
    return NodeWait(what, since, sign, node["wake_at"], given_up_at, limit)


def waited_for(node: JsonView, activity: Activity) -> str:
    """Return who or what ends the wait of a node in the waiting state of this activity.

    :param node: with `COLUMNS`.
    """
    if node["wake_at"] is None:
        return AGENT  # nothing but a heartbeat or a report continues this node
    step = activities.step_under_way(node)
    if step and step["step"] in step_lists.RESERVED:
        return TIMER
    if heard_at(node) is None:
        return MACHINE
    if step:
        kind = step["interface"]
        return AGENT if kind == "deploy" or node[f"{kind}_interface"] == _IN_BAND else MACHINE
    return MACHINE if activity is activities.INSPECT else AGENT


def _end(
    node: JsonView, activity: Activity, settings: Group, step: RunStep | None
) -> tuple[datetime.datetime | None, str | None]:
    """Return the time of the first limit that ends the wait, and its option."""
    found = sorted(_limits(node, activity, settings, step))
    if not found:
        return None, None
    at, name = found[0]
    return at, f"[conductor]{name}"


def _limits(
    node: JsonView, activity: Activity, settings: Group, step: RunStep | None
) -> Iterator[tuple[datetime.datetime, str]]:
    """Yield the end by each option that limits the wait."""
    # Maintenance set by an operator stops the time-out of the state, and deadlines.
    running = not (node["maintenance"] and node["fault"] is None)
    begin, option = node["provision_updated_at"], activity.timeout
    if running and begin is not None and option is not None and settings[option] > 0:
        last = max(begin, node["wake_at"] or begin)
        yield last + datetime.timedelta(seconds=settings[option]), option
    deadline = _deadline(step, settings) if running else None
    if deadline is not None:
        yield deadline, _STEP_LIMIT
    polled = (node["driver_internal_info"] or {}).get(_POLLED)
    if polled and settings[_POLL_LIMIT] > 0:
        first = datetime.datetime.fromisoformat(polled).replace(tzinfo=None)
        yield first + datetime.timedelta(seconds=settings[_POLL_LIMIT]), _POLL_LIMIT


def _deadline(step: RunStep | None, settings: Group) -> datetime.datetime | None:
    """Return the deadline of a waiting step; None without one."""
    if step is None or step["state"] != "waiting" or step["step"] in step_times.BY_REQUEST:
        return None
    seconds = config.priorities(settings[_STEP_LIMIT]).get(f"{step['interface']}.{step['step']}")
    begun = step["started_at"]
    if seconds is None or begun is None:
        return None
    return begun + datetime.timedelta(seconds=int(seconds))
