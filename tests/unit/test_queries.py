"""What requests carry: query strings, the header Prefer, and who asks."""

from __future__ import annotations

import json
import re
import time
import urllib.parse
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.api.resources import preferred, queries
from ironic_lite.core import context
from ironic_lite.domain import versions

# Query strings are read by tables: filters, paging, fields, and the link to the next page.

UUID = "9c5f1c32-5a0c-4a3f-8a0a-6d1d0b0a9c77"


def listing(
    also: Mapping[str, str] | None = None,
    *,
    version: int = versions.LAST,
    below: bool = False,
    **named: str,
) -> queries.Query:
    """Read a list request for nodes; ``below`` asks at /nodes/detail."""
    given = {**(also or {}), **named}
    return queries.listing(queries.NODES, given, version=version, max_limit=1000, detail=below)


def test_no_argument_means_the_default_fields_from_the_start() -> None:
    query = listing()
    assert set(query.fields) == {
        *("instance_uuid", "maintenance", "power_state", "provision_state", "uuid", "name"),
    }
    assert (query.limit, query.marker, query.sort, query.direction) == (1000, None, "id", "asc")
    assert not query.where
    assert not query.chosen


def test_name_is_no_default_field_before_it_existed() -> None:
    assert "name" not in listing(version=4).fields


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("associated", "True", True),
        ("maintenance", "no", False),
        ("retired", "1", True),
        ("instance_uuid", UUID.upper(), UUID),
        ("provision_state", "clean failed", "clean failed"),
        ("driver", "fake-hardware", "fake-hardware"),
        ("conductor_group", "RACK-1", "rack-1"),
        ("shard", "a, b", ["a", "b"]),
        ("cause", "c41f0be9a7d2, 000000000000", ["c41f0be9a7d2", "000000000000"]),
        ("sharded", "off", False),
        ("description_contains", "100%", "100%"),
    ],
)
def test_filters_are_read_by_their_type(name: str, text: str, value: object) -> None:
    assert listing({name: text}).where == {name: value}


@pytest.mark.parametrize(
    "given",
    [
        {"maintenance": "maybe"},
        {"maintenance": ""},
        {"instance_uuid": "7"},
        {"chassis_uuid": "x" * 36},
        {"provision_state": "on holiday"},
        {"driver": "a\x00b"},
        {"limit": "0"},
        {"limit": "-5"},
        {"limit": "many"},
        {"limit": "\u0663"},
        {"limit": "1" * 40},
        {"marker": "not a uuid"},
        {"sort_key": "driver_info"},
        {"sort_key": "nothing"},
        {"sort_dir": "up"},
        {"detail": "maybe"},
        {"detail": "true", "fields": "uuid"},
        {"fields": "uuid,nothing"},
        {"fault": "boredom"},
        {"health": "ok"},
        {"cause": "c41f0be9a7d"},
        {"cause": ","},
    ],
)
def test_values_that_cannot_be_read_are_refused_by_their_name(given: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidParameter) as caught:
        listing(given)
    assert caught.value.facts["path"] in given


def test_unknown_arguments_are_named() -> None:
    with pytest.raises(errors.InvalidParameter, match="arguments: bar, foo") as caught:
        listing(foo="1", bar="2")
    assert "Known here: associated, cause, chassis_uuid, " in caught.value.message


@pytest.mark.parametrize(
    ("name", "text", "since"),
    [
        ("fields", "uuid", 8),
        ("provision_state", "active", 9),
        ("driver", "x", 16),
        ("resource_class", "x", 21),
        ("fault", "clean failure", 42),
        ("conductor_group", "x", 46),
        ("conductor", "x", 49),
        ("owner", "x", 50),
        ("lessee", "x", 65),
        ("shard", "x", 82),
        ("sharded", "true", 82),
        ("include_children", "true", 83),
        ("parent_node", "x", 83),
        ("instance_name", "x", 104),
        ("health", "Critical", 109),
    ],
)
def test_arguments_newer_than_the_version_are_not_acceptable(
    name: str, text: str, since: int
) -> None:
    listing({name: text}, version=since)
    with pytest.raises(errors.NotAcceptable):
        listing({name: text}, version=since - 1)


@pytest.mark.parametrize("name", ["retired", "description_contains", "project"])
def test_ironic_never_asked_a_version_for_these(name: str) -> None:
    assert name in listing({name: "true"}, version=1).where


def test_a_field_newer_than_the_version_is_not_acceptable() -> None:
    with pytest.raises(errors.NotAcceptable):
        listing(version=60, fields="uuid,retired")


def test_fields_are_lower_cased_and_named_once() -> None:
    query = listing(fields="UUID,name,uuid")
    assert query.fields == ("uuid", "name")
    assert query.chosen


def test_detail_shows_every_field_of_the_version() -> None:
    assert "retired" in listing(below=True).fields
    assert "retired" not in listing(version=60, detail="true").fields
    with pytest.raises(errors.InvalidParameter):
        listing(version=42, detail="true")


def test_detail_paths_take_neither_fields_nor_detail() -> None:
    for name in ("fields", "detail"):
        with pytest.raises(errors.InvalidParameter, match="Unexpected"):
            queries.listing(
                queries.NODES, {name: "uuid"}, version=versions.LAST, max_limit=9, detail=True
            )


def test_a_limit_beyond_the_maximum_is_cut() -> None:
    assert listing(limit="99999").limit == 1000
    assert listing(limit="7").limit == 7


def test_one_resource_knows_fields_only() -> None:
    assert queries.one(queries.NODES, {}, version=1) is None
    assert queries.one(queries.NODES, {"fields": "uuid"}, version=8) == ("uuid",)
    with pytest.raises(errors.NotAcceptable):
        queries.one(queries.NODES, {"fields": "uuid"}, version=7)
    with pytest.raises(errors.InvalidParameter, match="Unexpected"):
        queries.one(queries.NODES, {"limit": "1"}, version=versions.LAST)


def test_the_next_link_repeats_every_filter() -> None:
    given = {"driver": "fake-hardware", "shard": "a,b", "limit": "2", "marker": UUID}
    query = listing(given, sort_key="name", detail="true")
    link = queries.next_link("http://h/v1/nodes", query, 2, "last")
    assert link is not None
    assert dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(link).query)) == {
        **given,
        "marker": "last",
        "sort_key": "name",
        "detail": "true",
    }


def test_the_last_page_has_no_next_link() -> None:
    assert queries.next_link("u", listing(limit="2"), 1, "last") is None


def test_a_search_for_one_instance_never_pages() -> None:
    query = listing(limit="1", instance_uuid=UUID)
    assert queries.next_link("u", query, 1, "last") is None


def test_ports_are_found_by_address_in_either_case() -> None:
    query = queries.listing(
        queries.PORTS, {"address": "AA:BB:CC:00:11:22"}, version=1, max_limit=10
    )
    assert query.where == {"address": "aa:bb:cc:00:11:22"}


@given(st.dictionaries(st.sampled_from([*queries.filters_of(queries.NODES), "limit"]), st.text()))
def test_any_text_is_read_or_refused(arguments: dict[str, str]) -> None:
    try:
        listing(arguments)
    except errors.InvalidParameter as refused:
        assert refused.status == 400


# The header Prefer as RFC 7240 defines it.


@pytest.mark.parametrize(
    ("text", "seconds", "asynchronous"),
    [
        ("wait=50", 50, False),
        ("WAIT = 50", 50, False),
        ('wait="50"', 50, False),
        ("wait=50; foo=bar", 50, False),
        ("wait=5, wait=9", 5, False),
        ("wait=9999", 300, False),
        ("Respond-Async", 0, True),
        ("respond-async; a, wait=7", 7, True),
        ("return=minimal,respond-async", 0, True),
        ('foo="a, wait=9", wait=5', 5, False),
        ('foo="say \\", wait=9", wait=5', 5, False),
    ],
)
def test_preferences_are_read(text: str, seconds: int, asynchronous: bool) -> None:
    assert preferred.parse_preference(text, 300) == (seconds, asynchronous)


@pytest.mark.parametrize(
    "text",
    ["", ",", ";", "wait", "wait=", "wait=x", "wait=0", "wait=-1", "wait=1.5", "wait=1234567890",
     'wait="5', 'foo="a, wait=9"', "return=minimal; wait=9", "waits=9", "await=9"],
)  # fmt: skip
def test_broken_and_unknown_preferences_are_ignored(text: str) -> None:
    assert preferred.parse_preference(text, 300) is None


@pytest.mark.parametrize(
    "text",
    ['"' + '\\"' * 500, '"' + 'a"' * 500, ",;" * 500, '"' + "\\" * 999],
    ids=["escaped quotes", "quotes", "separators", "backslashes"],
)
def test_time_to_read_a_header_grows_with_its_length_only(text: str) -> None:
    """A quadratic parser takes more than three seconds here."""
    began = time.thread_time()
    for _ in range(500):
        assert preferred.parse_preference(text, 300) is None
    assert time.thread_time() - began < 1.5


@pytest.mark.parametrize(
    "text", ['"' + '\\"' * 8000, "wait=5" + "," * 8000], ids=["escaped quotes", "separators"]
)
def test_very_long_header_is_ignored_at_once(text: str) -> None:
    began = time.thread_time()
    assert preferred.parse_preference(text, 300) is None
    assert time.thread_time() - began < 0.1


def test_header_of_a_kibibyte_is_read() -> None:
    assert preferred.parse_preference("wait=5".rjust(1024, ","), 300) == (5, False)
    assert preferred.parse_preference("wait=5".rjust(1025, ","), 300) is None


def test_open_quotes_end_the_list() -> None:
    assert preferred.parse_preference('wait=5, foo="a, respond-async', 300) == (5, False)


# Who asks is carried between processes of different versions.

TEXT = st.none() | st.text(max_size=8)


@given(
    user=TEXT,
    project=TEXT,
    roles=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    theirs=TEXT,
)
def test_a_context_survives_json(
    user: str | None, project: str | None, roles: tuple[str, ...], theirs: str | None
) -> None:
    who = context.Context(context.new_request_id(), user, project, roles, theirs)
    assert context.Context.from_dict(json.loads(json.dumps(who.as_dict()))) == who


def test_fields_of_a_newer_sender_are_ignored() -> None:
    who = context.Context.from_dict({"request_id": "req-1", "mood": "fine"})
    assert who == context.Context("req-1")


def test_roles_may_be_missing_or_null() -> None:
    assert context.Context.from_dict({"request_id": "r", "roles": None}).roles == ()


def test_a_request_id_is_req_and_a_uuid_and_never_twice_the_same() -> None:
    one, other = context.new_request_id(), context.new_request_id()
    assert re.fullmatch(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", one)
    assert one != other


def test_work_nobody_asked_for_says_which_sweep_it_is() -> None:
    assert context.internal("power sync").user == "conductor:power sync"
