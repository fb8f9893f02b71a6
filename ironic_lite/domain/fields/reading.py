"""Fields visible at a version, and fields that a query may name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain.fields.field import Field
from ironic_lite.errors import unicode_text

_SHOWN = 64
"""Characters of an unknown name that its refusal repeats."""


@cache
def by_name(table: tuple[Field, ...]) -> Mapping[str, Field]:
    """Return name -> field."""
    return MappingProxyType({field.name: field for field in table})


@cache
def blank(table: tuple[Field, ...]) -> JsonView:
    """Return column -> value of an empty row."""
    known = {field.stored: field.default for field in table if field.stored is not None}
    return MappingProxyType(known)


@cache
def visible(table: tuple[Field, ...], version: int) -> tuple[Field, ...]:
    """Return the fields shown by default at minor API ``version``, in wire order."""
    return tuple(field for field in table if field.since <= version and not field.asked)


@cache
def brief(table: tuple[Field, ...], version: int) -> tuple[str, ...]:
    """Return the names of the default list fields at ``version``."""
    return tuple(field.name for field in visible(table, version) if field.brief)


def select(table: tuple[Field, ...], asked: Iterable[str], version: int) -> tuple[str, ...]:
    """Check a ``fields=`` query: names lower-cased, doubles dropped, table order not imposed.

    :raises errors.InvalidParameter: a name the table lacks.
    :raises errors.NotAcceptable: a field newer than ``version``.
    """
    known = by_name(table)
    chosen: dict[str, None] = {}
    for raw in asked:
        name = raw.strip().lower()
        field = known.get(name)
        if field is None:
            names = ", ".join(one.name for one in table if one.since <= version)
            reason = f"there is no field {unicode_text.shown(raw, _SHOWN)}. Known here: {names}"
            raise errors.InvalidParameter(path="fields", reason=reason)
        if field.since > version:
            raise errors.NotAcceptable(what=f"Field {name}", since=field.since)
        chosen[name] = None
    return tuple(chosen)


def sort_column(table: tuple[Field, ...], key: str, version: int) -> str:
    """Return the column to sort by (``id`` is always possible).

    :raises errors.InvalidParameter: an unknown or unsortable field.
    :raises errors.NotAcceptable: a field newer than ``version``.
    """
    if key == "id":
        return key
    field = by_name(table).get(key)
    if field is None or not field.sort or field.stored is None:
        seen = (one for one in table if one.since <= version)
        able = ("id", *(one.name for one in seen if one.sort and one.stored is not None))
        shown = unicode_text.shown(key, _SHOWN)
        reason = f"{shown} cannot be sorted by. Possible are: {', '.join(able)}"
        raise errors.InvalidParameter(path="sort_key", reason=reason)
    if field.since > version:
        raise errors.NotAcceptable(what=f"Field {key}", since=field.since)
    return field.stored
