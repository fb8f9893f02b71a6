"""Parsers of the texts of query arguments.

Each takes a text and the name of its argument, and raises `errors.InvalidParameter`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection
from typing import Any

from ironic_lite import errors
from ironic_lite.api.validation import rules
from ironic_lite.core import clock
from ironic_lite.domain import batches, erasure_records, states, verbs
from ironic_lite.domain.states import State
from ironic_lite.errors import unicode_text

Parser = Callable[[str, str], Any]

_LONGEST_TIME = 40
_SHOWN = 64
"""Characters of a refused value that its refusal repeats."""
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,9}")
_BLANK_OFFSET = re.compile(r"(?<=\d) (\d\d:?\d\d)$")
_DURATION = re.compile(
    r"P(?:(?P<days>\d{1,6})D)?"
    r"(?:T(?:(?P<hours>\d{1,6})H)?(?:(?P<minutes>\d{1,7})M)?(?:(?P<seconds>\d{1,9})S)?)?"
)
MOST_UUIDS = 150
"""UUIDs in one request: their 5.5 KB pass every proxy, also with a long ``fields`` (8 KB)."""
RUN_STATES = ("running", "waiting", "done", "failed", "aborted")


def text(value: str, path: str) -> str:
    """Read a text that every database can store."""
    return rules.text(value, path)


def ident(value: str, path: str) -> str:
    """Read a UUID or a name."""
    rules.ident(value, path)
    return value


def host(value: str, path: str) -> str:
    """Read the name of a conductor."""
    return rules.host_port(value, path)


def flag(value: str, path: str) -> bool:
    """Read a boolean."""
    return rules.boolean(value, path)


def uuids(value: str, path: str) -> list[str]:
    """Read the UUIDs ``a,b,c`` of up to `MOST_UUIDS` nodes."""
    if value.count(",") >= MOST_UUIDS:
        reason = f"names more than {MOST_UUIDS} nodes; send several requests"
        raise errors.InvalidParameter(path=path, reason=reason)
    return list(dict.fromkeys(rules.uuid(part, path) for part in value.split(",")))


TYPES = frozenset({flag, ident, rules.uuid, rules.mac, uuids})
"""Parsers that run before the version of their filter and the caller's rights are checked."""


def groups(value: str, path: str) -> list[str]:
    """Read the conductor groups ``a,b,c``."""
    return [group(part.strip(), path) for part in value.split(",")]


def several(value: str, path: str, each: Parser = text) -> list[str]:
    """Read ``a,b,c``; refuse an empty list, which would match nothing or everything."""
    found = [each(part.strip(), path) for part in value.split(",") if part.strip()]
    if not found:
        raise errors.InvalidParameter(path=path, reason="names nothing")
    return found


def shards(value: str, path: str) -> list[str]:
    """Read ``a,b,c``; an empty entry matches nothing, because shards have no empty names."""
    return [rules.text(part.strip(), path) for part in value.split(",")]


def state(value: str, path: str) -> str:
    """Read a provision state."""
    return one_of(value, path, "a provision state", [state.value for state in State])


def node_states(value: str, path: str) -> str | list[str]:
    """Read one provision state, or several ``a,b,c``."""
    found = list(dict.fromkeys(state(part, path) for part in value.split(",")))
    return found if len(found) > 1 else found[0]


def fault(value: str, path: str) -> str:
    """Read a fault."""
    return one_of(value, path, "a fault", sorted(states.FAULTS))


def group(value: str, path: str) -> str:
    """Read a conductor group; other characters than those of a name match nothing."""
    return rules.text(value, path).lower()


def verb(value: str, path: str) -> str:
    """Read a verb; runs store the first of the names with the same meaning."""
    event = verbs.BY_TARGET[one_of(value, path, "a verb", tuple(verbs.BY_TARGET))].event
    return next(verb.target for verb in verbs.TABLE if verb.event == event)


def run_verbs(value: str, path: str) -> list[str]:
    """Read verbs ``a,b,c``, as `verb`."""
    return several(value, path, verb)


def moment(value: str, path: str) -> datetime.datetime:
    """Read a time of ISO 8601, UTC without an offset; or a duration before now, as ``PT12H``.

    A ``+`` that the client has not encoded arrives as a blank.
    """
    text = _BLANK_OFFSET.sub(r"+\1", value[:_LONGEST_TIME])
    ago = _DURATION.fullmatch(text)
    try:
        if ago is not None and any(ago.groups()):
            parts = {name: int(part or 0) for name, part in ago.groupdict().items()}
            return clock.now() - datetime.timedelta(**parts)
        found = datetime.datetime.fromisoformat(text)
        return (found.astimezone(datetime.UTC) if found.tzinfo else found).replace(tzinfo=None)
    except (ValueError, OverflowError):
        reason = (
            f"{value[:_LONGEST_TIME]!r} is not a time of ISO 8601, such as 2026-11-22T18:00:00Z, "
            "nor a duration before now, such as PT12H"
        )
        raise errors.InvalidParameter(path=path, reason=reason) from None


def run_states(value: str, path: str) -> list[str]:
    """Read the states of runs ``a,b,c``."""
    return several(value, path, lambda each, at: one_of(each, at, "a run's state", RUN_STATES))


def batch_states(value: str, path: str) -> list[str]:
    """Read the states of batches ``a,b,c``."""
    known = tuple(batches.BatchState)
    return several(value, path, lambda each, at: one_of(each, at, "a batch's state", known))


def batch_results(value: str, path: str) -> list[str]:
    """Read the states of nodes in batches ``a,b,c``."""
    known = tuple(batches.NodeState)
    return several(value, path, lambda each, at: one_of(each, at, "a node's result", known))


def number(value: str, path: str) -> int:
    """Read a number from 0."""
    if not _NUMBER.fullmatch(value):
        raise errors.InvalidParameter(path=path, reason=f"{value[:32]!r} is not a number from 0")
    return int(value)


def data_state(value: str, path: str) -> str:
    """Read the state of a node's data."""
    return one_of(value, path, "a state of data", tuple(map(str, erasure_records.DataState)))


def erasure_result(value: str, path: str) -> str:
    """Read the result of an erasure record."""
    return one_of(value, path, "a result of an erasure", erasure_records.RESULTS)


def one_of(value: str, path: str, what: str, known: Collection[str]) -> str:
    """Read one of the words ``known``."""
    if value not in known:
        reason = f"{unicode_text.shown(value, _SHOWN)} is not {what}. Valid are: {', '.join(known)}"
        raise errors.InvalidParameter(path=path, reason=reason)
    return value


def limit(text: str | None, most: int) -> int:
    """Read the number of rows of a page, at most ``most``."""
    if text is None:
        return most
    number = integer(text)
    if number <= 0:
        raise errors.InvalidParameter(path="limit", reason="must be positive")
    return min(number, most)


def integer(text: str) -> int:
    """Read the integer of ``limit``."""
    if not _INTEGER.fullmatch(text):
        raise errors.InvalidParameter(
            path="limit", reason=f"{unicode_text.shown(text, _SHOWN)} is not an integer"
        )
    return int(text)


def direction(text: str) -> str:
    """Read the order of a list."""
    if text not in ("asc", "desc"):
        shown = unicode_text.shown(text, _SHOWN)
        reason = f"Invalid sort direction: {shown}. Acceptable values are 'asc' or 'desc'"
        raise errors.InvalidParameter(path="sort_dir", reason=reason)
    return text
