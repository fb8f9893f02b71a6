"""Definition of one field of a resource."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


class Type(enum.Enum):
    """JSON types on the wire."""

    STRING = "string"
    BOOLEAN = "boolean"
    OBJECT = "object"
    LIST = "array"
    NUMBER = "number"
    INTEGER = "integer"
    TIME = "time"


class Access(enum.Enum):
    """Requests that may write a field."""

    READ = "read"  # read-only
    CREATE = "create"  # POST only
    PATCH = "patch"  # PATCH only
    BOTH = "both"


# Compared by identity, because each row exists once, and tables of rows are keys of the caches
# below.
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of a resource.

    ``column`` is the database column, None for fields computed elsewhere (links, conductor,
    traits); ``empty`` is shown instead of null; ``default`` is what removal sets; ``brief`` fields
    make up the default list; ``length`` bounds strings; ``required`` refuses null; ``asked`` fields
    are shown only if the caller names them.
    """

    name: str
    since: int = 1
    type: Type = Type.STRING
    access: Access = Access.BOTH
    column: str | None = ""
    brief: bool = False
    sort: bool = True
    secret: bool = False
    required: bool = False
    empty: Any = None
    default: Any = None
    length: int | None = 255
    asked: bool = False

    @property
    def stored(self) -> str | None:
        """Return the column's name, by default the field's."""
        return self.name if self.column == "" else self.column

    @property
    def creatable(self) -> bool:
        """Return whether POST may set it."""
        return self.access in (Access.BOTH, Access.CREATE)

    @property
    def patchable(self) -> bool:
        """Return whether PATCH may set it."""
        return self.access in (Access.BOTH, Access.PATCH)


# -- rows that recur -------------------------------------------------------------------------


def moment(name: str, since: int = 1) -> Field:
    """Return a read-only point in time."""
    return Field(name, since, Type.TIME, Access.READ)


def free_form(name: str, since: int = 1, access: Access = Access.BOTH, **more: Any) -> Field:
    """Return an object with any keys, shown as {} while unset."""
    return Field(name, since, Type.OBJECT, access, sort=False, empty={}, default={}, **more)


def flag(name: str, since: int = 1, access: Access = Access.BOTH, *, on: bool = False) -> Field:
    """Return a boolean that is never null, ``on`` by default."""
    return Field(name, since, Type.BOOLEAN, access, required=True, default=on)


def computed(name: str, since: int, kind: Type) -> Field:
    """Return a field without a column."""
    return Field(name, since, kind, Access.READ, column=None, sort=False)
