"""The end of a node's wait: who or what ends it, its last sign, and its time-out. Pure."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import secrets
from typing import NamedTuple

import orjson

from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, JsonView, restored
from ironic_lite.domain import activities, step_lists, vocabulary
from ironic_lite.domain.activities import Activity
from ironic_lite.domain.fields import INTERFACE_KINDS

AGENT, MACHINE, TIMER, OPERATOR = "agent", "machine", "timer", "operator"
RETRY = "retry"
"""The service retries the failed run by itself, at ``wakes_at``."""
COLUMNS = (
    *("provision_state", "provision_updated_at", "wake_at", "driver_internal_info"),
    *("agent_heard_at", "maintenance", "fault", "clean_step", "deploy_step", "service_step"),
    *(f"{kind}_interface" for kind in INTERFACE_KINDS),
)
"""Columns of a node that decide its wait."""

_HEARD, _TOKEN = "agent_last_heartbeat", "agent_secret_token"
_IN_MEDIA = f"{_TOKEN}_pregenerated"
_MACHINE = "agent_secret_machine"  # ours
_LOOKED_UP = "agent_looked_up_at"  # ours
TOKEN_KEYS = (_TOKEN, _IN_MEDIA, _MACHINE, _LOOKED_UP)
_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
_TOKEN_BYTES = 32  # 43 characters of URL-safe text; the agent ignores anything below 32
_DRIVERS = "driver_notes"
STEP_LIMIT = "step_deadline"
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
        return self.limit == f"[conductor]{STEP_LIMIT}"


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
