"""Read the query string of a list or of one resource, and write the link to the next page.

Tables list the arguments of each collection and their versions. Controllers pass the parsed
filters to ``db``.
"""

from __future__ import annotations

import dataclasses
import re
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from ironic_lite import errors
from ironic_lite.api.validation import rules
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import fields, states, verbs
from ironic_lite.domain.states import State

Parser = Callable[[str, str], Any]

FIELDS_SINCE = 8
DETAIL_SINCE = 43
RUN_STATES = ("running", "waiting", "done", "failed", "aborted")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_PAGING = ("marker", "limit", "sort_key", "sort_dir")


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """A query argument that filters rows: name, minor version, and parser of its text."""

    name: str
    since: int
    parse: Parser


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """A listed resource: fields, filters, and the minor versions of ``fields`` and ``detail``.

    ``marker`` parses the marker: the value that identifies a row in the list. ``direction`` is the
    default order.
    """

    table: tuple[fields.Field, ...]
    filters: tuple[Filter, ...] = ()
    fields_since: int = FIELDS_SINCE
    detail_since: int = DETAIL_SINCE
    marker: Parser = rules.uuid
    paged: bool = True
    direction: str = "asc"


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """The parsed arguments of a list request.

    ``fields`` are the names to show. ``chosen`` is true if the caller named them, ``detail`` if all
    are shown. ``sort`` is a column. ``where`` maps filter names to parsed values. ``given`` has
    the unparsed arguments for ``next_link``.
    """

    fields: tuple[str, ...]
    chosen: bool
    detail: bool
    limit: int
    marker: str | None
    sort: str
    direction: str
    where: JsonView
    given: Mapping[str, str]


# -- parsers of texts ------------------------------------------------------------------------


def _text(value: str, path: str) -> str:
    return rules.text(value, path)


def _ident(value: str, path: str) -> str:
    """Read a UUID or a name; an empty string is refused."""
    return rules.text(value, path, least=1)


def _flag(value: str, path: str) -> bool:
    return rules.boolean(value, path)


_TYPES = frozenset({_flag, _ident, rules.uuid})
"""Parsers that run before the version of their filter is checked."""


def _several(value: str, path: str, each: Parser = _text) -> list[str]:
    """Read ``a,b,c``; refuse an empty list, which would match nothing or everything."""
    found = [each(part.strip(), path) for part in value.split(",") if part.strip()]
    if not found:
        raise errors.InvalidParameter(path=path, reason="names nothing")
    return found


def _shards(value: str, path: str) -> list[str]:
    """Read ``a,b,c``; an empty entry matches nothing, because shards have no empty names."""
    return [rules.text(part.strip(), path) for part in value.split(",")]


def _state(value: str, path: str) -> str:
    return _one_of(value, path, "a provision state", [state.value for state in State])


def _fault(value: str, path: str) -> str:
    return _one_of(value, path, "a fault", sorted(states.FAULTS))


def _group(value: str, path: str) -> str:
    return rules.conductor_group(value, path)


def _verb(value: str, path: str) -> str:
    """Read a verb; runs store the first of the names with the same meaning."""
    event = verbs.BY_TARGET[_one_of(value, path, "a verb", tuple(verbs.BY_TARGET))].event
    return next(verb.target for verb in verbs.TABLE if verb.event == event)


def _run_states(value: str, path: str) -> list[str]:
    return _several(value, path, lambda each, at: _one_of(each, at, "a run's state", RUN_STATES))


def _one_of(value: str, path: str, what: str, known: Collection[str]) -> str:
    if value not in known:
        reason = f"{value!r} is not {what}. Valid are: {', '.join(known)}"
        raise errors.InvalidParameter(path=path, reason=reason)
    return value


# -- arguments of each collection ------------------------------------------------------------

NODES = Resource(
    fields.NODE,
    (
        Filter("instance_uuid", 1, rules.uuid),
        Filter("associated", 1, _flag),
        Filter("maintenance", 1, _flag),
        Filter("chassis_uuid", 1, rules.uuid),
        Filter("provision_state", 9, _state),
        Filter("driver", 16, _text),
        Filter("resource_class", 21, _text),
        Filter("fault", 42, _fault),
        Filter("conductor_group", 46, _group),
        Filter("conductor", 49, _text),
        Filter("owner", 50, _text),
        # Ironic never enforced the versions of the next three.
        Filter("description_contains", 1, _text),
        Filter("retired", 1, _flag),  # S4.10
        Filter("project", 1, _text),
        Filter("lessee", 65, _text),
        Filter("shard", 82, _shards),
        Filter("sharded", 82, _flag),
        Filter("include_children", 83, _flag),
        Filter("parent_node", 83, _text),
        Filter("instance_name", 104, _text),
    ),
)

PORTS = Resource(
    fields.PORT,
    (
        Filter("node", 1, _ident),
        Filter("node_uuid", 1, rules.uuid),
        Filter("address", 1, rules.mac),
        Filter("portgroup", 24, _ident),
        Filter("shard", 82, _shards),
        Filter("conductor_groups", 99, partial(_several, each=_group)),
        # Ironic never enforced its version.
        Filter("description_contains", 1, _text),
    ),
)

PORTGROUPS = Resource(
    fields.PORTGROUP,
    (
        Filter("node", 1, _ident),
        Filter("address", 1, rules.mac),
        Filter("shard", 106, _shards),
        # Ironic never enforced its version.
        Filter("conductor_groups", 1, partial(_several, each=_group)),
    ),
)

VOLUME_CONNECTORS = Resource(
    fields.VOLUME_CONNECTOR, (Filter("node", 1, _ident),), fields_since=32, detail_since=32
)
VOLUME_TARGETS = Resource(
    fields.VOLUME_TARGET, (Filter("node", 1, _ident),), fields_since=32, detail_since=32
)

CHASSIS = Resource(fields.CHASSIS)

DEPLOY_TEMPLATES = Resource(fields.DEPLOY_TEMPLATE, fields_since=55, detail_since=55, marker=_text)

ALLOCATIONS = Resource(
    fields.ALLOCATION,
    (
        Filter("node", 52, _ident),
        Filter("resource_class", 52, _text),
        Filter("state", 52, _text),
        Filter("owner", 60, _text),
    ),
    fields_since=52,
    detail_since=52,
)

RUNBOOKS = Resource(
    fields.RUNBOOK,
    (Filter("project", 92, _text),),
    fields_since=92,
    detail_since=92,
    marker=_text,
)

INSPECTION_RULES = Resource(
    fields.INSPECTION_RULE,
    (Filter("phase", 96, _text),),
    fields_since=96,
    detail_since=96,
)

CONDUCTORS = Resource(fields.CONDUCTOR, fields_since=49, detail_since=49, marker=_ident)

HISTORY = Resource(fields.HISTORY, fields_since=78, detail_since=78)

RUNS = Resource(
    fields.RUN,
    (Filter("state", 1, _run_states), Filter("verb", 1, _verb)),
    fields_since=1,
    detail_since=1,
    direction="desc",
)
RUN = Resource(fields.WHOLE_RUN, fields_since=1)

BIOS_SETTINGS = Resource(fields.BIOS_SETTING, fields_since=74, detail_since=74)

FIRMWARE = Resource(fields.FIRMWARE_COMPONENT, fields_since=86, detail_since=86)


@cache
def filters_of(resource: Resource) -> Mapping[str, Filter]:
    return MappingProxyType({known.name: known for known in resource.filters})


# -- reading ---------------------------------------------------------------------------------


def listing(
    resource: Resource,
    given: Mapping[str, str],
    *,
    version: int,
    max_limit: int,
    detail: bool = False,
) -> Query:
    """Read the arguments of a list request.

    :param given: argument -> text, each once.
    :param version: the request's minor API version.
    :param max_limit: the default and the largest number of rows; a larger limit is reduced.
    :param detail: True for the ``/detail`` paths, which take neither ``fields`` nor ``detail``.
    :raises errors.InvalidParameter: an unknown argument, or a value that cannot be read.
    :raises errors.NotAcceptable: an argument or a field newer than ``version``.
    """
    allowed = _PAGING if detail else (*_PAGING, "fields", "detail")
    known = filters_of(resource)
    refuse_unknown(given, (*allowed, *known))
    where = {
        name: _filtered(known[name], text, version) for name, text in given.items() if name in known
    }
    everything = detail or _detail(resource, given, version)
    shown, chosen = _shown_fields(resource, given, version, everything)
    return Query(
        fields=shown,
        chosen=chosen,
        detail=everything,
        limit=_limit(given.get("limit"), max_limit),
        marker=resource.marker(given["marker"], "marker") if "marker" in given else None,
        sort=fields.sort_column(resource.table, given.get("sort_key") or "id", version),
        direction=_direction(given.get("sort_dir", resource.direction)),
        where=where,
        given=dict(given),
    )


def one(resource: Resource, given: Mapping[str, str], *, version: int) -> tuple[str, ...] | None:
    """Read the arguments of a request for one resource: only ``fields``.

    :returns: the requested names, or None for all.
    :raises errors.InvalidParameter: an unknown argument or field.
    :raises errors.NotAcceptable: a field, or ``fields`` itself, newer than ``version``.
    """
    refuse_unknown(given, ("fields",))
    if "fields" not in given:
        return None
    return _select(resource, given["fields"], version)


def whole(resource: Resource, given: Mapping[str, str], *, version: int) -> tuple[str, ...]:
    """Read the arguments of a list without pages: ``fields`` or ``detail``.

    :returns: the names to show.
    :raises errors.InvalidParameter: an unknown argument or field, or one newer than ``version``.
    """
    refuse_unknown(given, ("fields", "detail") if version >= resource.fields_since else ())
    try:
        return _shown_fields(resource, given, version, _detail(resource, given, version))[0]
    except errors.NotAcceptable as why:
        raise errors.InvalidParameter(path="fields", reason=why.message) from None


def refuse_unknown(given: JsonView, allowed: Collection[str]) -> None:
    """Refuse unknown arguments.

    :raises errors.InvalidParameter: an argument is not in ``allowed``.
    """
    errors.UnexpectedArguments.check(given, allowed)


def _filtered(known: Filter, text: str, version: int) -> Any:
    # Ironic checks these types before the version.
    early = known.parse(text, known.name) if known.parse in _TYPES else None
    if known.since > version:
        raise errors.NotAcceptable(what=f"Filter {known.name}", since=known.since)
    return early if known.parse in _TYPES else known.parse(text, known.name)


def _detail(resource: Resource, given: Mapping[str, str], version: int) -> bool:
    if "detail" not in given:
        return False
    wanted = rules.boolean(given["detail"], "detail")
    if version < resource.detail_since:
        raise errors.InvalidParameter(
            path="detail", reason=f"needs API version 1.{resource.detail_since} or newer"
        )
    if wanted and "fields" in given:
        raise errors.InvalidParameter(path="detail", reason="cannot be used together with fields")
    return wanted


def _shown_fields(
    resource: Resource, given: Mapping[str, str], version: int, everything: bool
) -> tuple[tuple[str, ...], bool]:
    if "fields" in given:
        return _select(resource, given["fields"], version), True
    if everything:
        return tuple(field.name for field in fields.visible(resource.table, version)), False
    return fields.brief(resource.table, version), False


def _select(resource: Resource, asked: str, version: int) -> tuple[str, ...]:
    if version < resource.fields_since:
        raise errors.NotAcceptable(what="The argument fields", since=resource.fields_since)
    # Duplicates are removed, because plans are cached by the choice of fields.
    names = list(dict.fromkeys(name for name in asked.split(",") if name.strip()))
    return fields.select(resource.table, names or ("links",), version)


def _limit(text: str | None, most: int) -> int:
    if text is None:
        return most
    if not _INTEGER.fullmatch(text):
        raise errors.InvalidParameter(path="limit", reason=f"{text!r} is not an integer")
    if int(text) <= 0:
        raise errors.InvalidParameter(path="limit", reason="must be positive")
    return min(int(text), most)


def _direction(text: str) -> str:
    if text not in ("asc", "desc"):
        reason = f"Invalid sort direction: {text!r}. Acceptable values are 'asc' or 'desc'"
        raise errors.InvalidParameter(path="sort_dir", reason=reason)
    return text


# -- writing ---------------------------------------------------------------------------------


def next_link(url: str, query: Query, rows: int, last: str) -> str | None:
    """Return the link to the next page, or None if this page was not full.

    :param url: absolute URL of the collection without a query string.
    :param rows: the number of rows of this page.
    :param last: the identifier of the last row: the next page's marker.
    """
    if rows < query.limit or "instance_uuid" in query.where:
        return None
    kept = {name: text for name, text in query.given.items() if name not in ("limit", "marker")}
    arguments = {**kept, "limit": str(query.limit), "marker": last}
    return f"{url}?{urllib.parse.urlencode(arguments, safe=',:')}"
