"""Read the query string of a list or of one resource, and write the link to the next page.

Tables list the arguments of each collection and their versions. Controllers pass the parsed
filters to ``db``.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

from ironic_lite import errors
from ironic_lite.api.validation import rules, shapes
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.queries import paging
from ironic_lite.domain import erasure_records, fields, states, verbs, vocabulary
from ironic_lite.domain.states import State

# Parsers of the texts of query arguments.
#
# Each takes a text and the name of its argument, and raises `errors.InvalidParameter`.

Parser = Callable[[str, str], Any]

_LONGEST_TIME = 40
_SHOWN = 64
"""Characters of a refused value that its refusal repeats."""
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_BLANK_OFFSET = re.compile(r"(?<=\d) (\d\d:?\d\d)$")
_CAUSE = re.compile(r"[0-9a-f]{12}")
_DURATION = re.compile(  # in P5M, which is refused, M means months
    r"(?!P[^T]*[HMS])P?(?:(?P<days>\d{1,6})D)?"
    r"T?(?:(?P<hours>\d{1,6})H)?(?:(?P<minutes>\d{1,7})M)?(?:(?P<seconds>\d{1,9})S)?",
    re.IGNORECASE,
)
MOST_UUIDS = 150
"""UUIDs in one request: their 5.5 KB pass every proxy, also with a long ``fields`` (8 KB)."""
RUN_STATES = ("running", "waiting", "done", "failed", "aborted")


def read_text(value: str, path: str) -> str:
    """Read a text that every database can store."""
    return rules.text(value, path)


def read_ident(value: str, path: str) -> str:
    """Read a UUID or a name."""
    rules.ident(value, path)
    return value


def read_held(value: str, path: str) -> bool | str:
    """Read a boolean, or the kind of a hold."""
    try:
        return rules.boolean(value, path)
    except errors.InvalidParameter:
        if re.fullmatch(shapes.KIND["pattern"], value):
            return value
        reason = f"{value!r:.64} is neither true nor false nor {shapes.KIND['description']}"
        raise errors.InvalidParameter(path=path, reason=reason) from None


def read_uuids(value: str, path: str) -> list[str]:
    """Read the UUIDs ``a,b,c`` of up to `MOST_UUIDS` nodes."""
    if value.count(",") >= MOST_UUIDS:
        reason = f"names more than {MOST_UUIDS} nodes; send several requests"
        raise errors.InvalidParameter(path=path, reason=reason)
    return list(dict.fromkeys(rules.uuid(part, path) for part in value.split(",")))


def read_groups(value: str, path: str) -> list[str]:
    """Read the conductor groups ``a,b,c``."""
    return [read_group(part.strip(), path) for part in value.split(",")]


def read_several(value: str, path: str, each: Parser = read_text) -> list[str]:
    """Read ``a,b,c``; refuse an empty list, which would match nothing or everything."""
    found = [each(part.strip(), path) for part in value.split(",") if part.strip()]
    if not found:
        raise errors.InvalidParameter(path=path, reason="names nothing")
    return found


def read_causes(value: str, path: str) -> list[str]:
    """Read the keys of causes ``a,b,c``."""
    return read_several(value, path, _read_cause)


def _read_cause(value: str, path: str) -> str:
    if not _CAUSE.fullmatch(value):
        reason = f"{errors.shown(value, _SHOWN)} is not the key of a cause: 12 hexadecimal digits"
        raise errors.InvalidParameter(path=path, reason=reason)
    return value


def read_shards(value: str, path: str) -> list[str]:
    """Read ``a,b,c``; an empty entry matches nothing, because shards have no empty names."""
    return [rules.text(part.strip(), path) for part in value.split(",")]


def read_state(value: str, path: str) -> str:
    """Read a provision state."""
    return read_one_of(value, path, "a provision state", [state.value for state in State])


def read_node_states(value: str, path: str) -> str | list[str]:
    """Read one provision state, or several ``a,b,c``."""
    found = list(dict.fromkeys(read_state(part, path) for part in value.split(",")))
    return found if len(found) > 1 else found[0]


def read_fault(value: str, path: str) -> str:
    """Read a fault."""
    return read_one_of(value, path, "a fault", sorted(states.FAULTS))


def read_health(value: str, path: str) -> str:
    """Read the health of a machine."""
    return read_one_of(value, path, "a health", vocabulary.HEALTH)


def read_group(value: str, path: str) -> str:
    """Read a conductor group; other characters than those of a name match nothing."""
    return rules.text(value, path).lower()


def read_verb(value: str, path: str) -> str:
    """Read a verb; runs store the first of the names with the same meaning."""
    event = verbs.BY_TARGET[read_one_of(value, path, "a verb", tuple(verbs.BY_TARGET))].event
    return next(verb.target for verb in verbs.TABLE if verb.event == event)


def read_run_verbs(value: str, path: str) -> list[str]:
    """Read verbs ``a,b,c``, as `verb`."""
    return read_several(value, path, _read_run_verb)


def _read_run_verb(value: str, path: str) -> str:
    return value if value == verbs.DISCOVERY else read_verb(value, path)


def read_moment(value: str, path: str) -> datetime.datetime:
    """Read a time of ISO 8601, UTC without an offset; or a duration before now: ``12h``, ``PT12H``.

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
            "nor a duration before now, such as 12h or PT12H"
        )
        raise errors.InvalidParameter(path=path, reason=reason) from None


def read_run_states(value: str, path: str) -> list[str]:
    """Read the states of runs ``a,b,c``."""
    return read_several(
        value, path, lambda each, at: read_one_of(each, at, "a run's state", RUN_STATES)
    )


def read_data_state(value: str, path: str) -> str:
    """Read the state of a node's data."""
    return read_one_of(value, path, "a state of data", tuple(map(str, erasure_records.DataState)))


def read_one_of(value: str, path: str, what: str, known: Collection[str]) -> str:
    """Read one of the words ``known``."""
    if value not in known:
        reason = f"{errors.shown(value, _SHOWN)} is not {what}. Valid are: {', '.join(known)}"
        raise errors.InvalidParameter(path=path, reason=reason)
    return value


def read_limit(text: str | None, most: int) -> int:
    """Read the number of rows of a page, at most ``most``."""
    if text is None:
        return most
    if not _INTEGER.fullmatch(text):
        shown = errors.shown(text, _SHOWN)
        raise errors.InvalidParameter(path="limit", reason=f"{shown} is not an integer")
    if int(text) <= 0:
        raise errors.InvalidParameter(path="limit", reason="must be positive")
    return min(int(text), most)


def read_direction(text: str) -> str:
    """Read the order of a list."""
    if text not in ("asc", "desc"):
        shown = errors.shown(text, _SHOWN)
        reason = f"Invalid sort direction: {shown}. Acceptable values are 'asc' or 'desc'"
        raise errors.InvalidParameter(path="sort_dir", reason=reason)
    return text


FIELDS_SINCE = 8
DETAIL_SINCE = 43
_PAGING = ("marker", "limit", "sort_key", "sort_dir")


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """A query argument that filters rows: name, minor version, and parser of its text.

    ``blank`` is true if an empty text does not filter.
    """

    name: str
    since: int
    parse: Parser
    blank: bool = False


# Compared by identity, because each resource exists once and is a key of the cache of `filters_of`.
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A listed resource: fields, filters, and the minor versions of ``fields`` and ``detail``.

    Without ``detail_since`` there is no ``detail``. ``marker`` parses the marker: the value that
    identifies a row in the list. ``direction`` is the default order.
    """

    table: tuple[fields.Field, ...]
    filters: tuple[Filter, ...] = ()
    fields_since: int = FIELDS_SINCE
    detail_since: int | None = DETAIL_SINCE
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

    @property
    def place(self) -> paging.Place:
        """The place of the page in its list, as functions of the database take it."""
        return {"marker_id": self.marker, "direction": self.direction, "limit": self.limit}


# -- arguments of each collection ------------------------------------------------------------

NODES = Resource(
    fields.NODE,
    (
        Filter("instance_uuid", 1, rules.uuid),
        Filter("associated", 1, rules.boolean),
        Filter("maintenance", 1, rules.boolean),
        Filter("chassis_uuid", 1, rules.uuid),
        Filter("provision_state", 9, read_node_states),
        Filter("driver", 16, read_text),
        Filter("resource_class", 21, read_text),
        Filter("fault", 42, read_fault),
        Filter("conductor_group", 46, read_group),
        Filter("conductor", 49, read_text, blank=True),
        Filter("owner", 50, read_text),
        # Ironic never enforced the versions of the next three.
        Filter("description_contains", 1, read_text),
        Filter("retired", 1, rules.boolean),  # S4.10
        Filter("project", 1, read_text),
        Filter("lessee", 65, read_text),
        Filter("shard", 82, read_shards),
        Filter("sharded", 82, rules.boolean),
        Filter("include_children", 83, rules.boolean),
        Filter("parent_node", 83, read_text),
        Filter("instance_name", 104, read_text),
        # Ironic does not have the next five.
        Filter("health", 109, read_health),
        Filter("held", 1, read_held),
        Filter("uuid", 1, read_uuids),
        Filter("data_state", 1, read_data_state),
        Filter("cause", 1, read_causes),
    ),
)

PORTS = Resource(
    fields.PORT,
    (
        Filter("node", 1, read_ident),
        Filter("node_uuid", 1, rules.uuid),
        Filter("address", 1, rules.mac),
        Filter("portgroup", 24, read_ident),
        Filter("shard", 82, read_shards, blank=True),
        # Ironic never enforced the versions of the next two.
        Filter("conductor_groups", 1, read_groups, blank=True),
        Filter("description_contains", 1, read_text, blank=True),
        Filter("nodes", 1, read_uuids),  # Ironic does not have it
    ),
)

PORTGROUPS = Resource(
    fields.PORTGROUP,
    (
        Filter("node", 1, read_ident),
        Filter("address", 1, rules.mac),
        Filter("shard", 106, read_shards, blank=True),
        # Ironic never enforced its version.
        Filter("conductor_groups", 1, read_groups, blank=True),
    ),
)

VOLUME_CONNECTORS = Resource(
    fields.VOLUME_CONNECTOR, (Filter("node", 1, read_ident),), fields_since=32, detail_since=32
)
VOLUME_TARGETS = Resource(
    fields.VOLUME_TARGET, (Filter("node", 1, read_ident),), fields_since=32, detail_since=32
)

CHASSIS = Resource(fields.CHASSIS)

DEPLOY_TEMPLATES = Resource(
    fields.DEPLOY_TEMPLATE, fields_since=55, detail_since=55, marker=read_ident
)

ALLOCATIONS = Resource(
    fields.ALLOCATION,
    (
        Filter("node", 52, read_ident),
        Filter("resource_class", 52, read_text),
        Filter("state", 52, read_text),
        Filter("owner", 60, read_text),
    ),
    fields_since=52,
    detail_since=None,
)

RUNBOOKS = Resource(
    fields.RUNBOOK,
    (Filter("project", 92, read_text),),
    fields_since=92,
    detail_since=92,
    marker=read_ident,
)

INSPECTION_RULES = Resource(
    fields.INSPECTION_RULE,
    (Filter("phase", 96, read_text),),
    fields_since=96,
    detail_since=96,
    marker=rules.text,
)

CONDUCTORS = Resource(fields.CONDUCTOR, fields_since=49, detail_since=49, marker=rules.host_port)

HISTORY = Resource(fields.HISTORY, fields_since=78, detail_since=78)

NODES_RUNS = Resource(
    fields.LISTED_RUN,
    (Filter("state", 1, read_run_states), Filter("verb", 1, read_verb)),
    fields_since=1,
    detail_since=1,
    direction="desc",
)
NODES_RUN = Resource(fields.WHOLE_RUN, fields_since=1)

RUNS = Resource(
    fields.LISTED_FLEET_RUN,
    (
        Filter("state", 1, read_run_states),
        Filter("verb", 1, read_run_verbs),
        Filter("node", 1, read_ident),
        Filter("requester", 1, read_text),
        Filter("project", 1, read_text),
        Filter("driver", 1, read_several),
        Filter("resource_class", 1, read_several),
        Filter("code", 1, read_several),
        Filter("cause", 1, read_causes),
        Filter("since", 1, read_moment),
        Filter("before", 1, read_moment),
        Filter("retry_of", 1, rules.uuid),
        Filter("latest", 1, rules.boolean),
        Filter("overdue", 1, rules.boolean),
        Filter("batch", 1, rules.uuid),
    ),
    fields_since=1,
    detail_since=None,
    direction="desc",
)
RUN = Resource(fields.WHOLE_FLEET_RUN, fields_since=1)

_OF_HOLDS = (Filter("kind", 1, read_text), Filter("ended", 1, rules.boolean))
NODES_HOLDS = Resource(fields.HOLD, _OF_HOLDS, fields_since=1, detail_since=None)
HOLDS = Resource(
    fields.HOLD, (Filter("node", 1, read_ident), *_OF_HOLDS), fields_since=1, detail_since=None
)

BIOS_SETTINGS = Resource(fields.BIOS_SETTING, fields_since=74, detail_since=74)

FIRMWARE = Resource(fields.FIRMWARE_COMPONENT, fields_since=86, detail_since=86)

RESOURCES: dict[str, Resource] = {
    name: one for name, one in globals().items() if isinstance(one, Resource)
}
"""All resources by name, those of features too."""


@cache
def filters_of(resource: Resource) -> Mapping[str, Filter]:
    return {known.name: known for known in resource.filters}


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
    choice = () if detail else ("fields", *(("detail",) if resource.detail_since else ()))
    refuse_unknown(given, (*_PAGING, *choice, *filters_of(resource)))
    where = filters(resource, given, version=version)
    everything = detail or _wants_detail(resource, given, version)
    shown, chosen = _shown_fields(resource, given, version, everything)
    return Query(
        fields=shown,
        chosen=chosen,
        detail=everything,
        limit=read_limit(given.get("limit"), max_limit),
        marker=resource.marker(given["marker"], "marker") if "marker" in given else None,
        sort=fields.sort_column(resource.table, given.get("sort_key") or "id", version),
        direction=read_direction(given.get("sort_dir", resource.direction)),
        where=where,
        given=dict(given),
    )


def filters(resource: Resource, given: Mapping[str, str], *, version: int) -> Json:
    """Return the parsed values of the arguments that filter rows; other arguments are ignored.

    :raises errors.InvalidParameter: a value that cannot be read.
    :raises errors.NotAcceptable: a filter newer than ``version``.
    """
    known = filters_of(resource)
    where = {
        name: _read_filter(known[name], text, version)
        for name, text in given.items()
        if name in known
    }
    return {name: value for name, value in where.items() if given[name] or not known[name].blank}


def one(resource: Resource, given: Mapping[str, str], *, version: int) -> tuple[str, ...] | None:
    """Read the arguments of a request for one resource: only ``fields``.

    :returns: the requested names, or None for all.
    :raises errors.InvalidParameter: an unknown argument or field.
    :raises errors.NotAcceptable: a field, or ``fields`` itself, newer than ``version``.
    """
    refuse_unknown(given, ("fields",))
    if "fields" not in given:
        return None
    return _selected_fields(resource, given["fields"], version)


def whole(resource: Resource, given: Mapping[str, str], *, version: int) -> tuple[str, ...]:
    """Read the arguments of a list without pages: ``fields`` or ``detail``.

    :returns: the names to show.
    :raises errors.InvalidParameter: an unknown argument or field, or one newer than ``version``.
    """
    refuse_unknown(given, ("fields", "detail") if version >= resource.fields_since else ())
    try:
        return _shown_fields(resource, given, version, _wants_detail(resource, given, version))[0]
    except errors.NotAcceptable as why:
        raise errors.InvalidParameter(path="fields", reason=why.message) from None


def refuse_unknown(given: JsonView, allowed: Collection[str]) -> None:
    """Refuse arguments that are not in ``allowed``."""
    errors.UnexpectedArguments.check(given, allowed)


def _read_filter(known: Filter, text: str, version: int) -> Any:
    if known.since > version:
        raise errors.NotAcceptable(what=f"Filter {known.name}", since=known.since)
    return known.parse(text, known.name)


def _wants_detail(resource: Resource, given: Mapping[str, str], version: int) -> bool:
    if "detail" not in given:
        return False
    wanted = rules.boolean(given["detail"], "detail")
    if resource.detail_since is not None and version < resource.detail_since:
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
        return _selected_fields(resource, given["fields"], version), True
    if everything:
        return tuple(field.name for field in fields.visible(resource.table, version)), False
    return fields.brief(resource.table, version), False


def _selected_fields(resource: Resource, asked: str, version: int) -> tuple[str, ...]:
    if version < resource.fields_since:
        raise errors.NotAcceptable(what="The argument fields", since=resource.fields_since)
    return fields.select(resource.table, _names(resource, asked), version)


def _names(resource: Resource, asked: str) -> tuple[str, ...]:
    # Duplicates are removed, because plans are cached by the choice of fields.
    names = tuple(dict.fromkeys(name for name in asked.split(",") if name.strip()))
    if names or "links" in fields.by_name(resource.table):
        return names or ("links",)
    raise errors.InvalidParameter(path="fields", reason="names no field")


# -- writing ---------------------------------------------------------------------------------


def next_link(url: str, query: Query, rows: int, last: str, *, cut: bool = False) -> str | None:
    """Return the link to the next page, or None if this page was not full.

    :param url: absolute URL of the collection without a query string.
    :param rows: the number of rows of this page.
    :param last: the identifier of the last row: the next page's marker.
    :param cut: the page has ended early, because it was large.
    """
    if (rows < query.limit and not cut) or "instance_uuid" in query.where:
        return None
    kept = {name: text for name, text in query.given.items() if name not in ("limit", "marker")}
    arguments = {**kept, "limit": str(query.limit), "marker": last}
    return f"{url}?{urllib.parse.urlencode(arguments, safe=',:')}"
