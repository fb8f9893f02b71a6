"""Holds: typed reasons to leave a node alone, each with its own end. Pure.

A hold has blocks, and each block refuses a class of operations: verbs, by their event, and the
operations `POWER`, `REMOVAL`, `ALLOCATION` and `ORDER`. A hold sets nothing on the node, and it
stops nothing that is under way.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.core.json_types import Json, RowView
from ironic_lite.domain import verbs


class Block(enum.StrEnum):
    """A class of operations that a hold refuses."""

    ERASE = "erase"
    USE = "use"
    VERBS = "verbs"
    POWER = "power"
    MACHINE = "machine"
    FORGET = "forget"


POWER, REMOVAL, ALLOCATION = "power change", "deletion of the node", "allocation"
ORDER = "change of the machine"
"""Operations beside verbs. Verbs are named by their events. An order is any other request that
changes a machine, its BMC or its files."""

MOST = 20
"""Largest number of holds in force on a node."""
MOST_KEPT = 500
"""Largest number of ended holds that stay readable on a node."""

OBSERVE, TRIAL = "observe", "trial"
"""Kinds of nodes that are only looked at; only an import sets a trial, which never ends."""
_LOOKING = (Block.VERBS, Block.POWER, Block.MACHINE, Block.FORGET)
KINDS: Mapping[str, tuple[Block, ...]] = {
    "legal": (Block.ERASE, Block.FORGET),
    "hardware": (Block.USE,),
    "freeze": (Block.VERBS, Block.POWER, Block.FORGET),
    OBSERVE: _LOOKING,
    TRIAL: _LOOKING,
}
"""Kinds that bring their blocks; holds of other kinds name theirs."""

BY_RESTORE = "restore of the database"
"""The name under which nodes are held, and batches paused, after a restore of the database."""
_SPARED = frozenset({"abort", "unhold"})
_USES = frozenset({"deploy", "rebuild"})
_DESTROYS = frozenset({*_USES, "delete", "clean", "provide", "service", "retry"})
_EVENTS = frozenset(verb.event for verb in verbs.TABLE)
REFUSED: Mapping[Block, frozenset[str]] = {
    # An allocation takes a node for a deployment, so it is refused with the deployment.
    Block.ERASE: _DESTROYS | {ALLOCATION},
    Block.USE: _USES | {ALLOCATION},
    Block.VERBS: (_EVENTS - _SPARED) | {ALLOCATION},
    Block.POWER: frozenset({POWER}),
    Block.MACHINE: frozenset({ORDER}),
    Block.FORGET: frozenset({REMOVAL}),
}
"""The operations that each block refuses."""


PROJECTS = ("owner", "lessee", "project")
"""Columns with a hold's own projects: those of its node at that time, and of its author."""


class Hold(NamedTuple):
    """A hold of a node; times are naive UTC. Other projects read it without its reason."""

    uuid: str
    kind: str
    reason: str | None
    blocks: tuple[Block, ...]
    until: datetime.datetime | None
    created_at: datetime.datetime
    created_by: str | None

    @property
    def about(self) -> str:
        """The kind, the author and the times as words."""
        by = f" by {self.created_by}" if self.created_by else ""
        until = f", until {_moment(self.until)}" if self.until else ""
        return f"{self.kind},{by} since {_moment(self.created_at)}{until}"

    @property
    def document(self) -> Json:
        """The hold as clients see it while it is in force."""
        return {**self._asdict(), "blocks": [str(block) for block in self.blocks]}

    def block(self, operation: str) -> Block | None:
        """Return the first block that refuses an operation, None if the hold permits it."""
        return next((block for block in self.blocks if operation in REFUSED[block]), None)


def read(row: RowView) -> Hold:
    """Return the hold of a row, of which ``blocks`` is text with commas."""
    chosen = {name: row[name] for name in Hold._fields}
    return Hold(**{**chosen, "blocks": stored_blocks(row["blocks"])})


def is_own(row: RowView, project: str | None) -> bool:
    """Return whether a hold is one of a project; None stands for the system scope."""
    return project is None or project in (row[name] for name in PROJECTS)


def read_of_others(row: RowView) -> Hold:
    """Return the hold of a row as other projects read it."""
    return read(row)._replace(reason=None)


def document(row: RowView, now: datetime.datetime) -> Json:
    """Return a row as clients see it; a hold whose time is over has ended at this time."""
    found = {**row, "blocks": [str(block) for block in stored_blocks(row["blocks"])]}
    until = row["until"]
    if row["ended_at"] is None and until is not None and until <= now:
        found["ended_at"] = until
    return found


def event_data(row: RowView, standing: Json, project: str | None) -> Json:
    """Return the data of the event of a hold's begin or end, an entry of the node's history.

    :param standing: from `domain.history.standing_of`.
    :param project: that has begun or ended the hold.
    """
    until = row["until"]
    return {
        **standing,
        "project": project,
        "hold": row["uuid"],
        "kind": row["kind"],
        "reason": row["reason"],
        "blocks": [str(block) for block in stored_blocks(row["blocks"])],
        "until": until.isoformat() if until is not None else None,
    }


def stored_blocks(text: str) -> tuple[Block, ...]:
    """Return the blocks that a column holds, without those of a newer release."""
    known = {str(block) for block in Block}
    return tuple(Block(word) for word in text.split(",") if word in known)


def blocks_of(kind: str, named: Sequence[str] | None) -> tuple[Block, ...]:
    """Return the blocks of a new hold.

    :param named: the blocks that the request names; None for those that the kind brings.
    :raises errors.InvalidParameter: the kind brings other blocks.
    :raises errors.MissingParameter: the kind brings none, and the request names none.
    """
    brought = KINDS.get(kind)
    if brought is None and not named:
        raise errors.MissingParameter(
            f"Missing mandatory parameter: blocks. A hold of the kind {kind} needs one or more of "
            f"{', '.join(Block)}. Only the kinds {', '.join(KINDS)} have blocks of their own.",
            path="blocks",
        )
    chosen = tuple(block for block in Block if block in (named or ()))
    if brought is not None and named and set(chosen) != set(brought):
        reason = f"the kind {kind} brings the blocks {', '.join(brought)}; leave blocks out"
        raise errors.InvalidParameter(path="blocks", reason=reason)
    return brought or chosen


def refusable(operation: str) -> bool:
    """Return whether any block refuses an operation; none refuses an abort or an unhold."""
    return any(operation in refused for refused in REFUSED.values())


def refusal(
    node_uuid: str, held: Iterable[Hold], operation: str, said: str
) -> errors.NodeHeld | None:
    """Return the error of an operation that one of these holds in force refuses, or None.

    :param operation: the event of a verb, or `POWER`, `REMOVAL`, `ALLOCATION`.
    :param said: the name of the operation for the message, such as the verb's target.
    """
    for hold in held:
        block = hold.block(operation)
        if block is not None:
            return errors.NodeHeld(
                node=node_uuid,
                hold=hold.uuid,
                about=hold.about,
                reason=(hold.reason or _HIDDEN).rstrip("."),
                block=str(block),
                operation=said,
                advice=(
                    errors.TrialImport().message
                    if hold.kind == TRIAL
                    else f"End the hold with DELETE /v1/nodes/{node_uuid}/holds/{hold.uuid} first."
                ),
            )
    return None


_HIDDEN = "its reason is shown to its own projects"


def _moment(at: datetime.datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
