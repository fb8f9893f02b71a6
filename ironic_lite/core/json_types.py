"""The loose types of the package: JSON objects and database rows, named once.

Both stay open: a JSON object holds what clients, agents and BMCs send. Data of a known form has a
type of its own, such as a ``TypedDict`` or a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Json = dict[str, Any]
"""A JSON object: values are None, bool, int, float, str, lists and objects of these."""

JsonView = Mapping[str, Any]
"""A JSON object that is only read."""

Row = dict[str, Any]
"""A database row, column -> value."""

RowView = Mapping[str, Any]
"""A database row that is only read."""

T = TypeVar("T")


def restored(kind: type[T], stored: JsonView) -> T:
    """Return a dataclass or NamedTuple from its stored form, without keys of later releases."""
    known: Any = kind
    found: T = known(**{name: stored[name] for name in known.__match_args__ if name in stored})
    return found
