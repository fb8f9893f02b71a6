"""Read the query of GET /v1/events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.api.resources import queries
from ironic_lite.api.validation import rules
from ironic_lite.api.watching import waits
from ironic_lite.core.configuration import Configuration
from ironic_lite.domain import notifications

NOW = "now"
ARGUMENTS = ("since", "node", "run", "kind", "limit", "wait", "follow")
MOST = 1000
"""Largest page."""
_PAGE = 100
_CURSOR = re.compile(r"[0-9]{1,18}")
_LONGEST_LIST = 50


class FeedQuery(NamedTuple):
    """The arguments of a request for events.

    :ivar since: a cursor; None for the newest events, -1 for `NOW`.
    :ivar nodes: UUIDs and names as given; None without this filter, as for the next two.
    :ivar limit: events of a page; for a stream, None means no limit.
    :ivar wait: seconds to wait for the first event, None not to wait.
    """

    since: int | None
    nodes: tuple[str, ...] | None
    runs: frozenset[str] | None
    kinds: frozenset[str] | None
    limit: int | None
    wait: int | None
    follow: bool


def read(given: Mapping[str, str], conf: Configuration) -> FeedQuery:
    """Return the parsed arguments.

    :raises errors.InvalidParameter: an unknown argument, or a value that cannot be read.
    """
    queries.refuse_unknown(given, ARGUMENTS)
    follow = rules.boolean(given["follow"], "follow") if "follow" in given else False
    if follow and "wait" in given:
        raise errors.InvalidParameter(path="wait", reason="cannot be used together with follow")
    runs, kinds = _listed(given, "run"), _listed(given, "kind")
    for kind in kinds or ():
        if kind not in notifications.KINDS:
            known = ", ".join(notifications.KINDS)
            reason = f"{kind[:32]!r} is not a kind of events. Valid are: {known}"
            raise errors.InvalidParameter(path="kind", reason=reason)
    return FeedQuery(
        since=_since(given.get("since")),
        nodes=_listed(given, "node"),
        runs=None if runs is None else frozenset(rules.uuid(run, "run") for run in runs),
        kinds=None if kinds is None else frozenset(kinds),
        limit=_limit(given.get("limit"), None if follow else _PAGE),
        wait=waits.seconds(given["wait"], conf) if "wait" in given else None,
        follow=follow,
    )


def _since(text: str | None) -> int | None:
    if text is None:
        return None
    if text == NOW:
        return -1
    if not _CURSOR.fullmatch(text):
        reason = f"{text[:32]!r} is not a cursor of an earlier answer, 0 or now"
        raise errors.InvalidParameter(path="since", reason=reason)
    return int(text)


def _listed(given: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    if name not in given:
        return None
    found = tuple(word.strip() for word in given[name].split(",") if word.strip())
    if not 1 <= len(found) <= _LONGEST_LIST:
        reason = f"has {len(found)} entries, not 1 to {_LONGEST_LIST}"
        raise errors.InvalidParameter(path=name, reason=reason)
    return found


def _limit(text: str | None, default: int | None) -> int | None:
    if text is None:
        return default
    if not _CURSOR.fullmatch(text) or not 1 <= int(text) <= MOST:
        reason = f"{text[:32]!r} is not a number from 1 to {MOST}"
        raise errors.InvalidParameter(path="limit", reason=reason)
    return int(text)
