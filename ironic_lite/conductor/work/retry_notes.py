"""Accessors for ``driver_internal_info`` about the list of a run and its retries."""

from __future__ import annotations

from typing import Any

from ironic_lite.records import Node

RETRY = "retry"
"""{"skip": indexes, "attempts": {index: number of the next attempt}, "doubt": indexes}"""
LIST = "step_list"
"""{"inputs_secret": digest, "complete": flag}

The digest is hidden from readers of the node, because its inputs may contain a login.
"""
_OWN_MAINTENANCE = "maintenance_of_failure"
_AUTOMATIC = "automatic_retries"
PAUSED = "paused"
"""The UUID of the run that a stop has paused between two steps."""

OF_RUN = (RETRY, LIST, PAUSED)
"""The keys that the end of a run removes."""


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


class RetryNotes(NoteStore):
    """The notes about the list of a run and its retries."""

    __slots__ = ()

    def begin_retry(self, skip: list[int], attempts: dict[int, int], doubt: list[int]) -> None:
        """Store, for the run about to begin, the steps that do not run, and attempt numbers.

        :param doubt: the steps that run although their end is unknown.
        """
        numbers = {str(index): number for index, number in attempts.items()}
        self._put_notes(**{RETRY: {"skip": skip, "attempts": numbers, "doubt": doubt}})

    @property
    def in_doubt(self) -> list[int]:
        """The steps of a retry that run although their end is unknown."""
        return list((self._get_note(RETRY) or {}).get("doubt", ()))

    @property
    def list_inputs(self) -> str | None:
        """The digest of what the current list was made from."""
        digest: str | None = (self._get_note(LIST) or {}).get("inputs_secret")
        return digest

    @property
    def list_complete(self) -> bool:
        """False while an agent may still add steps to the current list."""
        return bool((self._get_note(LIST) or {}).get("complete", True))

    def note_list(self, inputs: str | None, *, complete: bool) -> None:
        """Store facts about the current list; the end of the run removes them."""
        self._put_notes(**{LIST: {"inputs_secret": inputs, "complete": complete}})

    @property
    def retries(self) -> bool:
        """True if this run continues a failed one with its list."""
        return self._get_note(RETRY) is not None

    @property
    def own_maintenance(self) -> str | None:
        """The reason of the maintenance that a failed run has set; None if an operator did."""
        reason: str | None = self._get_note(_OWN_MAINTENANCE)
        return reason

    @own_maintenance.setter
    def own_maintenance(self, reason: str | None) -> None:
        if reason is None:
            self._drop_notes(_OWN_MAINTENANCE)
        else:
            self._put_notes(**{_OWN_MAINTENANCE: reason})

    @property
    def automatic_retries(self) -> int:
        """Number of retries that the service has made by itself since an operator's verb."""
        number: int = self._get_note(_AUTOMATIC, 0)
        return number

    @automatic_retries.setter
    def automatic_retries(self, number: int) -> None:
        if number:
            self._put_notes(**{_AUTOMATIC: number})
        else:
            self._drop_notes(_AUTOMATIC)

    @property
    def paused(self) -> bool:
        """True if a stop has paused this run: its current step has ended, no other has begun."""
        run = self._get_note(PAUSED)
        return run is not None and run == self._node.run_uuid

    def pause(self) -> None:
        """Record that a stop pauses this run."""
        self._put_notes(**{PAUSED: self._node.run_uuid})

    def forget_pause(self) -> None:
        """Record that the run goes on with its next step."""
        self._drop_notes(PAUSED)

    def skipped(self, index: int) -> bool:
        """Return whether a retry has decided that this step does not run."""
        return index in (self._get_note(RETRY) or {}).get("skip", ())

    def first_attempt(self, index: int) -> int:
        """Return the number of this run's first attempt at a step."""
        number: int = (self._get_note(RETRY) or {}).get("attempts", {}).get(str(index), 1)
        return number
