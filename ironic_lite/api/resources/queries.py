"""Read the query string of a list or of one resource, and write the link to the next page.

Tables list the arguments of each collection and their versions. Controllers pass the parsed
filters to ``db``.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from ironic_lite import errors
from ironic_lite.api.resources import query_values as values
from ironic_lite.api.validation import rules
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields, versions

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
    parse: values.Parser
    blank: bool = False


# Compared by identity, because each resource exists once and is a key of the cache of `filters_of`.
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A listed resource: fields, filters, and the minor versions of ``fields`` and ``detail``.

    Without ``detail_since`` there is no ``detail``. ``marker`` parses the marker: the value that
    identifies a row in the list. ``direction`` is the default order. ``strict`` is true if names of
    fields are checked before rights and versions.
    """

    table: tuple[fields.Field, ...]
    filters: tuple[Filter, ...] = ()
    fields_since: int = FIELDS_SINCE
    detail_since: int | None = DETAIL_SINCE
    marker: values.Parser = rules.uuid
    paged: bool = True
    direction: str = "asc"
    strict: bool = False


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


# -- arguments of each collection ------------------------------------------------------------

NODES = Resource(
    fields.NODE,
    (
        Filter("instance_uuid", 1, rules.uuid),
        Filter("associated", 1, values.flag),
        Filter("maintenance", 1, values.flag),
        Filter("chassis_uuid", 1, rules.uuid),
        Filter("provision_state", 9, values.node_states),
        Filter("driver", 16, values.text),
        Filter("resource_class", 21, values.text),
        Filter("fault", 42, values.fault),
        Filter("conductor_group", 46, values.group),
        Filter("conductor", 49, values.text, blank=True),
        Filter("owner", 50, values.text),
        # Ironic never enforced the versions of the next three.
        Filter("description_contains", 1, values.text),
        Filter("retired", 1, values.flag),  # S4.10
        Filter("project", 1, values.text),
        Filter("lessee", 65, values.text),
        Filter("shard", 82, values.shards),
        Filter("sharded", 82, values.flag),
        Filter("include_children", 83, values.flag),
        Filter("parent_node", 83, values.text),
        Filter("instance_name", 104, values.text),
        # Ironic does not have the next two.
        Filter("held", 1, values.flag),
        Filter("uuid", 1, values.uuids),
        Filter("data_state", 1, values.data_state),
    ),
)

PORTS = Resource(
    fields.PORT,
    (
        Filter("node", 1, values.ident),
        Filter("node_uuid", 1, rules.uuid),
        Filter("address", 1, rules.mac),
        Filter("portgroup", 24, values.ident),
        Filter("shard", 82, values.shards, blank=True),
        # Ironic never enforced the versions of the next two.
        Filter("conductor_groups", 1, values.groups, blank=True),
        Filter("description_contains", 1, values.text, blank=True),
    ),
)

PORTGROUPS = Resource(
    fields.PORTGROUP,
    (
        Filter("node", 1, values.ident),
        Filter("address", 1, rules.mac),
        Filter("shard", 106, values.shards, blank=True),
        # Ironic never enforced its version.
        Filter("conductor_groups", 1, values.groups, blank=True),
    ),
)

VOLUME_CONNECTORS = Resource(
    fields.VOLUME_CONNECTOR, (Filter("node", 1, values.ident),), fields_since=32, detail_since=32
)
VOLUME_TARGETS = Resource(
    fields.VOLUME_TARGET, (Filter("node", 1, values.ident),), fields_since=32, detail_since=32
)

CHASSIS = Resource(fields.CHASSIS, strict=True)

DEPLOY_TEMPLATES = Resource(
    fields.DEPLOY_TEMPLATE, fields_since=55, detail_since=55, marker=values.ident, strict=True
)

ALLOCATIONS = Resource(
    fields.ALLOCATION,
    (
        Filter("node", 52, values.ident),
        Filter("resource_class", 52, values.text),
        Filter("state", 52, values.text),
        Filter("owner", 60, values.text),
    ),
    fields_since=52,
    detail_since=None,
    strict=True,
)

RUNBOOKS = Resource(
    fields.RUNBOOK,
    (Filter("project", 92, values.text),),
    fields_since=92,
    detail_since=92,
    marker=values.ident,
)

INSPECTION_RULES = Resource(
    fields.INSPECTION_RULE,
    (Filter("phase", 96, values.text),),
    fields_since=96,
    detail_since=96,
    marker=values.text,
)

CONDUCTORS = Resource(
    fields.CONDUCTOR, fields_since=49, detail_since=49, marker=values.host, strict=True
)

HISTORY = Resource(fields.HISTORY, fields_since=78, detail_since=78)

NODES_RUNS = Resource(
    fields.LISTED_RUN,
    (Filter("state", 1, values.run_states), Filter("verb", 1, values.verb)),
    fields_since=1,
    detail_since=1,
    direction="desc",
)
NODES_RUN = Resource(fields.WHOLE_RUN, fields_since=1)

RUNS = Resource(
    fields.LISTED_FLEET_RUN,
    (
        Filter("state", 1, values.run_states),
        Filter("verb", 1, values.run_verbs),
        Filter("node", 1, values.ident),
        Filter("requester", 1, values.text),
        Filter("project", 1, values.text),
        Filter("driver", 1, values.several),
        Filter("resource_class", 1, values.several),
        Filter("code", 1, values.several),
        Filter("since", 1, values.moment),
        Filter("before", 1, values.moment),
        Filter("retry_of", 1, rules.uuid),
        Filter("latest", 1, values.flag),
        Filter("overdue", 1, values.flag),
        Filter("batch", 1, rules.uuid),
    ),
    fields_since=1,
    detail_since=None,
    direction="desc",
)
RUN = Resource(fields.WHOLE_FLEET_RUN, fields_since=1)

_OF_HOLDS = (Filter("kind", 1, values.text), Filter("ended", 1, values.flag))
NODES_HOLDS = Resource(fields.HOLD, _OF_HOLDS, fields_since=1, detail_since=None)
HOLDS = Resource(
    fields.HOLD, (Filter("node", 1, values.ident), *_OF_HOLDS), fields_since=1, detail_since=None
)

BATCHES = Resource(
    fields.BATCH,
    (
        Filter("state", 1, values.batch_states),
        Filter("project", 1, values.text),
        Filter("requester", 1, values.text),
        Filter("name", 1, values.text),
    ),
    fields_since=1,
    detail_since=None,
    direction="desc",
)
BATCHES_NODES = Resource(
    fields.BATCH_NODE,
    (Filter("result", 1, values.batch_results), Filter("wave", 1, values.number)),
    fields_since=1,
    detail_since=None,
)

_OF_ERASURES = (
    Filter("serial", 1, values.text),
    Filter("since", 1, values.moment),
    Filter("result", 1, values.erasure_result),
)
NODES_ERASURES = Resource(
    fields.ERASURE, _OF_ERASURES, fields_since=1, detail_since=None, direction="desc"
)
ERASURES = Resource(
    fields.ERASURE,
    (Filter("node", 1, values.ident), *_OF_ERASURES),
    fields_since=1,
    detail_since=None,
    direction="desc",
)

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
    check_form(resource, given, detail=detail)
    where = filters(resource, given, version=version)
    if "fields" in given:
        _check_choice(resource, version)
    everything = detail or _wants_detail(resource, given, version)
    shown, chosen = _shown_fields(resource, given, version, everything)
    return Query(
        fields=shown,
        chosen=chosen,
        detail=everything,
        limit=values.limit(given.get("limit"), max_limit),
        marker=resource.marker(given["marker"], "marker") if "marker" in given else None,
        sort=fields.sort_column(resource.table, given.get("sort_key") or "id", version),
        direction=values.direction(given.get("sort_dir", resource.direction)),
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


def check_form(resource: Resource, given: Mapping[str, str], *, detail: bool = False) -> None:
    """Check the arguments of a list as far as neither rights nor versions matter.

    :param detail: as for `listing`.
    :raises errors.InvalidParameter: an unknown argument, or a value of the wrong type.
    """
    choice = () if detail else ("fields", *(("detail",) if resource.detail_since else ()))
    known = filters_of(resource)
    refuse_unknown(given, (*_PAGING, *choice, *known))
    for name, text in given.items():
        if name in known and known[name].parse in values.TYPES:
            known[name].parse(text, name)
    values.integer(given.get("limit", "1"))
    if "marker" in given:
        resource.marker(given["marker"], "marker")
    if "detail" in given:
        rules.boolean(given["detail"], "detail")
    if "sort_dir" in given:
        values.direction(given["sort_dir"])
    _check_names(resource, given)


def check_form_of_one(resource: Resource, given: Mapping[str, str]) -> None:
    """Check the arguments of a request for one resource, as `check_form`."""
    refuse_unknown(given, ("fields",))
    _check_names(resource, given)


def _check_names(resource: Resource, given: Mapping[str, str]) -> None:
    if resource.strict and "fields" in given:
        fields.select(resource.table, _names(resource, given["fields"]), versions.LAST)


def one(resource: Resource, given: Mapping[str, str], *, version: int) -> tuple[str, ...] | None:
    """Read the arguments of a request for one resource: only ``fields``.

    :returns: the requested names, or None for all.
    :raises errors.InvalidParameter: an unknown argument or field.
    :raises errors.NotAcceptable: a field, or ``fields`` itself, newer than ``version``.
    """
    check_form_of_one(resource, given)
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
    _check_choice(resource, version)
    return fields.select(resource.table, _names(resource, asked), version)


def _check_choice(resource: Resource, version: int) -> None:
    if version < resource.fields_since:
        raise errors.NotAcceptable(what="The argument fields", since=resource.fields_since)


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
