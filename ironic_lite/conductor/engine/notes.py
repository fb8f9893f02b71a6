"""Accessors for ``driver_internal_info``; only this module and ``domain.waiting`` write it.

Its keys are Ironic's, because old clients read them. ``agent_changes``, ``order``, ``retry``,
``automatic_retries``, ``step_list``, ``maintenance_of_failure``, ``untidied``, ``begun``,
``polled_since``, ``paused``, ``console_paused``, ``cleaning_runbook``, ``deploy_templates`` and
``agent_secret_machine``, ``agent_looked_up_at``, ``machine_identity`` are ours.
Whole dictionaries are assigned, so that the record notices the change.
"""

from __future__ import annotations

import datetime
import math
from typing import Any, Generic, TypeVar

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine import encryption
from ironic_lite.domain import fields, waiting
from ironic_lite.domain.steps import StepKind
from ironic_lite.drivers.base import Agent
from ironic_lite.records import Node, StepsByInterface, StoredStep, StoredTemplate

RETRY_NOTE = "retry"
"""{"skip": indexes, "attempts": {index: number of the next attempt}, "doubt": indexes}"""
LIST_NOTE = "step_list"
"""{"inputs_secret": digest, "complete": flag}

The digest is hidden from readers of the node, because its inputs may contain a login.
"""
_OWN_MAINTENANCE = "maintenance_of_failure"
_AUTOMATIC = "automatic_retries"
PAUSED_NOTE = "paused"
"""The UUID of the run that a stop has paused between two steps."""

_NOTES_OF_RUN = (RETRY_NOTE, LIST_NOTE, PAUSED_NOTE)
"""The keys that the end of a run removes."""


T = TypeVar("T")


class NoteStore:
    """The keys of one node's ``driver_internal_info``."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    def _get_note(self, key: str, default: object = None) -> Any:
        return self._node.driver_internal_info.get(key, default)

    def _put_notes(self, **values: object) -> None:
        self._node.driver_internal_info = {**self._node.driver_internal_info, **values}

    def _drop_notes(self, *keys: str) -> None:
        held = self._node.driver_internal_info
        if any(key in held for key in keys):
            self._node.driver_internal_info = {
                key: value for key, value in held.items() if key not in keys
            }


class _Note(Generic[T]):
    """A note as an attribute; its default value removes it."""

    def __init__(self, key: str, default: T) -> None:
        self._key = key
        self._default = default

    def __get__(self, notes: NoteStore, _kind: type) -> T:
        value: T = notes._get_note(self._key, self._default)
        return value

    def __set__(self, notes: NoteStore, value: T) -> None:
        if value == self._default:
            notes._drop_notes(self._key)
        else:
            notes._put_notes(**{self._key: value})


class RetryNotes(NoteStore):
    """The notes about the list of a run and its retries."""

    __slots__ = ()

    def begin_retry(self, skip: list[int], attempts: dict[int, int], doubt: list[int]) -> None:
        """Store, for the run about to begin, the steps that do not run, and attempt numbers.

        :param doubt: the steps that run although their end is unknown.
        """
        numbers = {str(index): number for index, number in attempts.items()}
        self._put_notes(**{RETRY_NOTE: {"skip": skip, "attempts": numbers, "doubt": doubt}})

    @property
    def in_doubt(self) -> list[int]:
        """The steps of a retry that run although their end is unknown."""
        return list((self._get_note(RETRY_NOTE) or {}).get("doubt", ()))

    @property
    def list_inputs(self) -> str | None:
        """The digest of what the current list was made from."""
        digest: str | None = (self._get_note(LIST_NOTE) or {}).get("inputs_secret")
        return digest

    @property
    def list_complete(self) -> bool:
        """False while an agent may still add steps to the current list."""
        return bool((self._get_note(LIST_NOTE) or {}).get("complete", True))

    def note_list(self, inputs: str | None, *, complete: bool) -> None:
        """Store facts about the current list; the end of the run removes them."""
        self._put_notes(**{LIST_NOTE: {"inputs_secret": inputs, "complete": complete}})

    @property
    def retries(self) -> bool:
        """True if this run continues a failed one with its list."""
        return self._get_note(RETRY_NOTE) is not None

    # The reason of the maintenance that a failed run has set; None if an operator did.
    own_maintenance = _Note[str | None](_OWN_MAINTENANCE, None)

    # Number of retries that the service has made by itself since an operator's verb.
    automatic_retries = _Note[int](_AUTOMATIC, 0)

    @property
    def paused(self) -> bool:
        """True if a stop has paused this run: its current step has ended, no other has begun."""
        run = self._get_note(PAUSED_NOTE)
        return run is not None and run == self._node.run_uuid

    def pause(self) -> None:
        """Record that a stop pauses this run."""
        self._put_notes(**{PAUSED_NOTE: self._node.run_uuid})

    def forget_pause(self) -> None:
        """Record that the run goes on with its next step."""
        self._drop_notes(PAUSED_NOTE)

    def skipped(self, index: int) -> bool:
        """Return whether a retry has decided that this step does not run."""
        return index in (self._get_note(RETRY_NOTE) or {}).get("skip", ())

    def first_attempt(self, index: int) -> int:
        """Return the number of this run's first attempt at a step."""
        number: int = (self._get_note(RETRY_NOTE) or {}).get("attempts", {}).get(str(index), 1)
        return number


_AGENT_KEYS = (
    "agent_url",
    "agent_version",
    "agent_last_heartbeat",
    "agent_verify_ca",
)
_LISTS = tuple(
    f"agent_cached_{kind}_steps{end}"
    for kind in (StepKind.CLEAN, StepKind.DEPLOY, StepKind.SERVICE)
    for end in ("", "_refreshed")
)
_CHANGES = "agent_changes"  # {"count": of the run, "first": ordinal of the list's first step}
_TEMPLATES = "deploy_templates"  # ours
_ORDER = "order"  # ours
_UNTIDIED = "untidied"  # ours
_CONSOLE_PAUSED = "console_paused"  # ours
_POLLED = "polled_since"  # ours
_RUNBOOK = "cleaning_runbook"  # ours
_BEGUN = "begun"  # ours: {"work": name, "times": count}; set on the first begin
_KEPT = "driver_notes"  # values that drivers store through ``Task.keep``


class Notes(RetryNotes):
    """A typed view of one node's ``driver_internal_info``."""

    __slots__ = ()

    # -- the list under way ------------------------------------------------------------------

    def listed(self, kind: StepKind) -> list[StoredStep]:
        """Return the steps of the run under way, as stored."""
        return list(self._get_note(f"{kind}_steps") or [])

    def index(self, kind: StepKind) -> int | None:
        """Return the index of the running step; None before the first."""
        index: int | None = self._get_note(f"{kind}_step_index")
        return index

    def enlist(self, kind: StepKind, listed: list[StoredStep]) -> None:
        """Store a new list with no step begun."""
        self._put_notes(**{f"{kind}_steps": listed, f"{kind}_step_index": None})

    def relist(self, kind: StepKind, listed: list[StoredStep]) -> None:
        """Replace the list; steps already done stay at its start."""
        self._put_notes(**{f"{kind}_steps": listed})

    def advance(self, kind: StepKind, index: int) -> None:
        """Record that step ``index`` runs."""
        self._put_notes(**{f"{kind}_step_index": index})

    def settle_steps(self, kind: StepKind, *, forget_list: bool, tidied: bool = True) -> None:
        """Remove a run's index and flags; the list becomes null or stays readable.

        :param tidied: False if clean-up happens later: `settle_ramdisk` follows then.
        """
        self._drop_notes(f"{kind}_step_index", _CHANGES, *_NOTES_OF_RUN, *_FLAGS[kind])
        if tidied:
            self.settle_ramdisk(kind)
        if forget_list:
            self._put_notes(**{f"{kind}_steps": None})

    def settle_ramdisk(self, kind: StepKind) -> None:
        """Forget whether a ramdisk was booted, because clean-up is done."""
        if kind in _NO_RAMDISK:
            self._drop_notes(_NO_RAMDISK[kind])

    def forget_steps(self, kind: StepKind) -> None:
        """Remove list, index and flags."""
        self.settle_steps(kind, forget_list=False)
        self._drop_notes(f"{kind}_steps")

    # -- what was asked for ------------------------------------------------------------------

    def request_steps(
        self,
        kind: StepKind,
        steps: list[StoredStep] | None = None,
        *,
        ramdisk: bool = True,
        runbook: str | None = None,
    ) -> None:
        """Store a request for steps and forget the one before; no ``steps``: the drivers' steps.

        :param ramdisk: False if the steps need no ramdisk.
        :param runbook: the source of an automated clean's steps.
        """
        self.settle_steps(kind, forget_list=True)
        self._put_notes(**{f"{kind}_step_index": None})
        if steps is not None:
            self._put_notes(**{f"{kind}_steps": steps, _NO_RAMDISK[kind]: not ramdisk})
            if kind in _DECLARED:
                self._put_notes(**{_DECLARED[kind]: True})
        if runbook is not None:
            self._put_notes(**{_RUNBOOK: runbook})

    # The runbook that an automated clean has its steps from.
    runbook = _Note[str | None](_RUNBOOK, None)

    def requested_steps(self, kind: StepKind) -> list[StoredStep] | None:
        """Return the steps that an operator or a runbook listed; None if drivers list them."""
        declared = kind not in _DECLARED or self._get_note(_DECLARED[kind])
        return self.listed(kind) if declared else None

    def manual(self, kind: StepKind) -> bool:
        """Return whether an operator asked for these steps."""
        return self.requested_steps(kind) is not None and self._get_note(_RUNBOOK) is None

    def boots_ramdisk(self, kind: StepKind) -> bool:
        """Return whether this run of steps boots the ramdisk."""
        return kind not in _NO_RAMDISK or not self._get_note(_NO_RAMDISK[kind], False)

    def request_deploy(self, user_steps: list[StoredStep], templates: list[StoredTemplate]) -> None:
        """Start a deployment with fresh notes."""
        self.forget_deploy()
        self._put_notes(user_deploy_steps=user_steps)
        if templates:
            self._put_notes(**{_TEMPLATES: templates})

    @property
    def deploy_templates(self) -> list[StoredTemplate]:
        """The templates of this deployment, each with ``name`` and ``steps``."""
        return list(self._get_note(_TEMPLATES) or [])

    @property
    def user_deploy_steps(self) -> list[StoredStep]:
        """The deploy steps of the request."""
        return list(self._get_note("user_deploy_steps") or [])

    def forget_deploy(self) -> None:
        """Remove the notes of a deployment.

        Requirement C34.
        """
        self._drop_notes("user_deploy_steps", _TEMPLATES, "deploy_steps", "deploy_step_index")
        self._drop_notes("steps_validated", _CHANGES, *_NOTES_OF_RUN)

    # True if the deploy steps have been checked with those of the agent.
    deploy_validated = _Note[bool]("steps_validated", False)

    def switched(self) -> None:
        """Record the time of an operator's power change."""
        self._put_notes(last_power_state_change=clock.now().isoformat())

    @property
    def seconds_since_switched(self) -> float:
        """Seconds since the last power change of an operator; infinite if there was none."""
        at = self._get_note("last_power_state_change")
        return math.inf if at is None else clock.lived(datetime.datetime.fromisoformat(at))

    # True if the deployment set the node's lessee; it is removed with the instance.
    automatic_lessee = _Note[bool]("automatic_lessee", False)
    machine_identity = _Note[dict[str, str]]("machine_identity", {})

    # True if the console was stopped with the instance, and starts with the next one.
    console_paused = _Note[bool](_CONSOLE_PAUSED, False)

    # -- the agent ---------------------------------------------------------------------------

    # The secret shared with the running ramdisk.
    token = _Note[str | None]("agent_secret_token", None)

    def new_token(self, *, before_boot: bool = False) -> str:
        """Make a new token.

        :param before_boot: the token is part of the ramdisk's boot media instead of sent to the
            agent.
        """
        row = self._node.as_dict()
        token, self._node.driver_internal_info = waiting.with_new_token(
            row, before_boot=before_boot
        )
        return token

    # The deploy interface that has chosen the one that the node shows; None without one.
    original_deploy = _Note[str | None](fields.ORIGINAL_DEPLOY, None)

    # The agent's URL.
    agent_url = _Note[str | None]("agent_url", None)

    @property
    def agent(self) -> Agent | None:
        """The agent that has sent a heartbeat since its ramdisk booted."""
        url, token, node = self.agent_url, self.token, self._node
        heard_at = waiting.last_heartbeat(node.driver_internal_info, node.agent_heard_at)
        if not (url and token and heard_at):
            return None
        about = (self._get_note("agent_verify_ca"), self._get_note("agent_version"), heard_at)
        return Agent(url, token, *about, moved=waiting.has_moved(node.as_dict(), token))

    def heard(self, *, url: str, version: str | None, at: str, verify_ca: str | None) -> None:
        """Store a heartbeat."""
        given = {"agent_version": version, "agent_verify_ca": verify_ca}
        known = {key: value for key, value in given.items() if value}
        self._put_notes(agent_url=url, agent_last_heartbeat=at, **known)
        self._node.agent_heard_at = None

    def forget_agent(self, *, keep_token: bool = False) -> None:
        """Forget address, token and steps of the agent, because its ramdisk is gone.

        :param keep_token: keep a token that is part of the ramdisk's boot media.
        """
        kept = keep_token and self._get_note("agent_secret_token_pregenerated")
        self._drop_notes(*_AGENT_KEYS, *_LISTS, *(() if kept else waiting.TOKEN_KEYS))
        self._node.agent_pin = self._node.agent_heard_at = None

    def take_agent_steps(self, kind: StepKind, steps: StepsByInterface, *, at: str) -> None:
        """Store the agent's steps by interface, as long as its ramdisk runs.

        Requirement S1.35.
        """
        key = f"agent_cached_{kind}_steps"
        self._put_notes(**{key: steps, f"{key}_refreshed": at})

    def agent_steps(self, kind: StepKind) -> StepsByInterface | None:
        """Return the running agent's steps by interface; None before it has listed them."""
        steps: StepsByInterface | None = self._get_note(f"agent_cached_{kind}_steps")
        return steps

    def agent_steps_at(self, kind: StepKind) -> str | None:
        """Return the time in ISO 8601 at which the running agent has listed its steps."""
        at: str | None = self._get_note(f"agent_cached_{kind}_steps_refreshed")
        return at

    # The versions of the agent's hardware managers, as last reported (S2.29).
    manager_version = _Note[Any]("hardware_manager_version", None)

    @property
    def agent_changes(self) -> int:
        """Number of changes to another agent in this run."""
        count: int = (self._get_note(_CHANGES) or {}).get("count", 0)
        return count

    @property
    def first_ordinal(self) -> int:
        """The ordinal, in the run's record, of the current list's first step."""
        first: int = (self._get_note(_CHANGES) or {}).get("first", 0)
        return first

    def forget_changes(self) -> None:
        """Forget the agent changes and the retry, because the run is over."""
        self._drop_notes(_CHANGES, *_NOTES_OF_RUN)

    def count_change(self) -> None:
        """Count a change of the agent."""
        self._put_notes(
            **{_CHANGES: {"count": self.agent_changes + 1, "first": self.first_ordinal}}
        )

    def place(self, first: int) -> None:
        """Store the ordinal at which the current list begins, after earlier lists."""
        self._put_notes(**{_CHANGES: {"count": self.agent_changes, "first": first}})

    # -- an order outside of any verb --------------------------------------------------------

    # An operator's request that a worker carries out, such as "attach a cdrom".
    order = _Note[str | None](_ORDER, None)

    # -- what a conductor that goes away leaves ---------------------------------------------

    # True if an abort has moved the node and clean-up is still to be done.
    untidied = _Note[bool](_UNTIDIED, False)

    def begin_again(self, work: str) -> int:
        """Count an attempt to begin the same work; return the number including the first.

        :param work: names it; the count of other work is forgotten.
        """
        known = self._get_note(_BEGUN) or {}
        times = known["times"] + 1 if known.get("work") == work else 2
        self._put_notes(**{_BEGUN: {"work": work, "times": times}})
        return times

    def clear_attempts(self) -> None:
        """Forget the attempts, because the work has ended."""
        self._drop_notes(_BEGUN)

    # -- a wait that is asked about ---------------------------------------------------------

    def polled_since(self, now: datetime.datetime) -> datetime.datetime:
        """Return the time of this wait's first poll; store ``now`` if this is the first."""
        known = self._get_note(_POLLED)
        if known is None:
            self._put_notes(**{_POLLED: now.isoformat()})
            return now
        return datetime.datetime.fromisoformat(known)

    def forget_polls(self) -> None:
        """Forget the polls, because the wait is over."""
        self._drop_notes(_POLLED)

    # -- drivers' own ------------------------------------------------------------------------

    def recall(self, key: str, default: object) -> Any:
        """Return a driver's stored value."""
        return (self._get_note(_KEPT) or {}).get(key, default)

    def keep(self, key: str, value: object) -> None:
        """Store a driver's value; None removes it. Raises as `check_size`."""
        kept = {**(self._get_note(_KEPT) or {}), key: value}
        if value is None:
            del kept[key]
        check_size(driver_internal_info=kept)
        if kept:
            self._put_notes(**{_KEPT: kept})
        else:
            self._drop_notes(_KEPT)


_DECLARED: dict[StepKind, str] = {StepKind.CLEAN: "declarative_cleaning"}
"""The key that says that an operator or a runbook listed the steps, where drivers may list them."""
_NO_RAMDISK: dict[StepKind, str] = {
    StepKind.CLEAN: "cleaning_disable_ramdisk",
    StepKind.SERVICE: "service_disable_ramdisk",
}
_FLAGS: dict[StepKind, tuple[str, ...]] = {
    StepKind.CLEAN: (_DECLARED[StepKind.CLEAN], _RUNBOOK),
    StepKind.DEPLOY: ("steps_validated",),
    StepKind.SERVICE: (),
    StepKind.VERIFY: (),
}


# Size limit for values that agents, hooks, rules and drivers store with a node.
#
# Every list, sweep and notification carries a node's columns. ``api/resources/patches`` limits the
# fields that clients write; this module limits all other sources.

MOST_KIB = 2048
"""Limit of one value as JSON, in KiB: the same as for an inspection report."""


def check_size(**values: object) -> None:
    """Refuse a value that is too large; call it before changing the node.

    :raises errors.HardwareError: naming the value.
    """
    for name, value in values.items():
        size = len(encryption.to_json(value)) / 1024
        if size > MOST_KIB:
            raise errors.HardwareError(
                reason=f"{name} would take {size:.0f} KiB of JSON, but at most {MOST_KIB} KiB are "
                "kept with a node. Look at what the machine, its agent or an inspection rule "
                "reports"
            )
