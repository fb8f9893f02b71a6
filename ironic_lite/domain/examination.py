"""Examinations of the service: checks as rows of tables, their results, the worst result. Pure.

A check is a row with a name and a function. The function yields a `Verdict` for each fact that it
has found; an error that it raises is a failed verdict. A function that yields nothing does not
apply, and has no result. ``checks`` has the tables, and runs them.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypedDict, TypeVar

from ironic_lite.core.json_types import JsonView
from ironic_lite.core.masking import PROSE, TextMask

WARNING_DAYS = 30
"""Days before the end of a certificate at which checks begin to warn."""

Subject_contra = TypeVar("Subject_contra", contravariant=True)


class Status(enum.StrEnum):
    """The result of a check, from the best to the worst."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    FAILED = "failed"


_ORDER = tuple(Status)
_EXIT_STATUS = {Status.OK: 0, Status.UNKNOWN: 1, Status.WARNING: 1, Status.FAILED: 2}
_BLOCKING = frozenset({Status.FAILED, Status.UNKNOWN})


class Verdict(NamedTuple):
    """A fact that a check has found; ``do`` is the operator's next action, "" for ok."""

    status: Status
    text: str
    do: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Check(Generic[Subject_contra]):
    """A row of a table of checks.

    ``about`` describes the check for the documentation. ``do`` is the advice for an error that the
    function raises. ``needs`` names earlier checks of the table: if one of them has failed, this
    check is not made, and its result is unknown. ``applies`` says whether a
    subject needs the check, and asks nothing: without need, a check not made has no result.
    """

    name: str
    about: str
    find: Callable[[Subject_contra], Iterator[Verdict]]
    do: str = ""
    needs: tuple[str, ...] = ()
    applies: Callable[[Subject_contra], bool] | None = None


class FindingDocument(TypedDict):
    """A finding as clients see it; ``do`` is None if there is nothing to do."""

    name: str
    where: str
    status: Status
    ms: int
    text: str
    do: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check at a place, such as ``conductor c1``."""

    name: str
    where: str
    status: Status
    text: str
    do: str = ""
    ms: int = 0

    def as_json(self) -> FindingDocument:
        """Return the finding as JSON."""
        return {
            "name": self.name,
            "where": self.where,
            "status": self.status,
            "ms": self.ms,
            "text": self.text,
            "do": self.do or None,
        }

    @classmethod
    def from_json(cls, given: JsonView, where: str | None = None) -> Finding:
        """Return a finding that another process has sent.

        :param where: replaces its place.
        """
        word = str(given.get("status"))
        return cls(
            name=str(given.get("name")),
            where=str(given.get("where")) if where is None else where,
            status=Status(word) if word in _ORDER else Status.UNKNOWN,
            text=str(given.get("text")),
            do=str(given.get("do") or ""),
            ms=int(given.get("ms") or 0),
        )


def passed(text: str) -> Verdict:
    """Return the verdict that a fact is as it should be."""
    return Verdict(Status.OK, text)


def warning(text: str, do: str) -> Verdict:
    """Return the verdict that a fact will hinder some machines, or will fail later."""
    return Verdict(Status.WARNING, text, do)


def failed(text: str, do: str) -> Verdict:
    """Return the verdict that a fact hinders the service now."""
    return Verdict(Status.FAILED, text, do)


def unknown(text: str, do: str) -> Verdict:
    """Return the verdict that a fact could not be found out."""
    return Verdict(Status.UNKNOWN, text, do)


def worst(statuses: Iterable[Status]) -> Status:
    """Return the worst of some results, ok without any."""
    return max(statuses, key=_ORDER.index, default=Status.OK)


def exit_status(status: Status) -> int:
    """Return the exit status of a command: 0, 1 or 2."""
    return _EXIT_STATUS[status]


def as_finding(
    check: Check[Any], where: str, verdict: Verdict, seconds: float, hide: TextMask = PROSE
) -> Finding:
    """Return a verdict of a check as a finding, on one line and masked.

    :param hide: the mask of its texts.
    """
    text, do = (" ".join(hide(part).split()) for part in (verdict.text, verdict.do))
    if verdict.status is not Status.OK:
        do = do or check.do
    return Finding(check.name, where, verdict.status, text, do, round(seconds * 1000))


class Examination(TypedDict):
    """All findings, their worst result, and the time of the examination in ISO 8601."""

    status: Status
    at: Annotated[str, "date-time"]
    checks: list[FindingDocument]


def document(findings: Sequence[Finding], at: str) -> Examination:
    """Return the answer about all findings.

    :param at: the time of the examination.
    """
    status = worst(finding.status for finding in findings)
    return {"status": status, "at": at, "checks": [finding.as_json() for finding in findings]}


def blocked_by(check: Check[Any], results: Iterable[Finding]) -> str | None:
    """Return the name of the failed check that this one needs, None if it can be made."""
    bad = {one.name for one in results if one.status in _BLOCKING}
    return next((name for name in check.needs if name in bad), None)


def independent_groups(checks: Sequence[Check[Any]]) -> list[list[Check[Any]]]:
    """Return the checks in groups that can be made side by side, each in the table's order.

    Checks that need each other, directly or not, are in one group.
    """
    groups: list[list[Check[Any]]] = []
    for check in checks:
        joined = [group for group in groups if any(one.name in check.needs for one in group)]
        for group in joined[1:]:
            joined[0].extend(group)
            groups.remove(group)
        if joined:
            joined[0].append(check)
        else:
            groups.append([check])
    return groups
