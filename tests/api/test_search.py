"""GET /v1/search: hits, their order and bounds, and what each caller may find."""

from __future__ import annotations

import datetime
import urllib.parse
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from ironic_lite.api import app
from ironic_lite.db.engine.session import Database, followers
from ironic_lite.db.queries import ports, reports
from ironic_lite.db.tables import models
from ironic_lite.domain.versions import LAST
from ironic_lite.features.search import rows
from tests.api.test_policy import Ruled, ruled  # noqa: F401
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature("search")

MAC = "52:54:00:aa:bb:01"
NOON = datetime.datetime(2026, 1, 31, 12)
INVENTORY = {
    "system_vendor": {"manufacturer": "Dell Inc.", "serial_number": "SN000777"},
    "disks": [{"serial": "S64F-0050"}],
}
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def following(api: Client) -> Client:
    """The API, whose writes keep terms; made before the nodes of a test."""
    return api


@pytest.fixture
def machine(add_node: AddNode, database: Database, following: Client) -> Json:
    """A node of a project, leased to another one, with everything that is searched."""
    node = add_node(
        name="rack2-u01",
        owner=OWNER,
        lessee=LESSEE,
        description="Spare of the Lab",
        instance_name="web-front",
        instance_uuid="aaaaaaaa-0000-4000-8000-000000000001",
        driver_info={"redfish_address": "https://bmc-7.example.org", "redfish_password": "hunter2"},
        driver_internal_info={"agent_url": "https://192.0.2.9"},
        instance_info={"image_source": "https://images.example.org/x"},
        extra={"asset": "AX-4711"},
        properties={"vendor": "Acme"},
    )
    port = {"uuid": "bbbbbbbb-0000-4000-8000-000000000001", "address": MAC}
    database.write(lambda conn: ports.insert(conn, {**port, "node_uuid": node["uuid"]}))
    uuid = node["uuid"]
    database.write(lambda conn: reports.put_inventory(conn, uuid, INVENTORY, {}, at=NOON))
    return node


def settle(database: Database) -> None:
    """Make the terms of all changes, as conductors do."""
    some = database.read(lambda conn: rows.changes(conn, 1000))
    database.write(lambda conn: rows.settle(conn, some))


def fields(client: Client, text: str, limit: int = 100) -> list[str]:
    """Return the fields of the hits of a query."""
    answer = client.get(f"/v1/search?q={urllib.parse.quote(text)}&limit={limit}")
    assert answer.status == 200, answer.text
    return [hit["field"] for hit in answer.json["hits"]]


def test_hit_has_node_field_and_value(api: Client, machine: Json) -> None:
    answer = api.get("/v1/search?q=sn0007")
    hit = {
        "uuid": machine["uuid"],
        "name": "rack2-u01",
        "field": "inventory.system_vendor.serial_number",
        "value": "SN000777",
        "provision_state": "enroll",
    }
    assert answer.json == {"hits": [hit], "more": False}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("RACK2", "name"),
        ("u01", "name"),
        ("web-f", "instance_name"),
        ("front", "instance_name"),
        ("of the lab", "description"),
        ("BMC-7", "driver_info.redfish_address"),
        ("ax-4711", "extra.asset"),
        ("4711", "extra.asset"),
        ("acme", "properties.vendor"),
        ("dell", "inventory.system_vendor.manufacturer"),
        ("0050", "inventory.disks.serial"),
        (MAC, "port.address"),
        ("52-54-00-AA-BB-01", "port.address"),
        ("52:54:0", "port.address"),
        ("aaaaaaaa-0", "instance_uuid"),
        ("p-owner", "owner"),
        ("p-less", "lessee"),
    ],
)
def test_start_of_a_value_or_word_is_found(
    api: Client, machine: Json, text: str, field: str
) -> None:
    assert machine["uuid"]
    assert fields(api, text) == [field]


@pytest.mark.parametrize(
    "text", ["ack2", "n000", "%%", "__", "rack_", "ra%", "hunter2", "192.0.2.9", "images", "'; --"]
)
def test_other_texts_are_not_found(api: Client, machine: Json, text: str) -> None:
    assert machine["uuid"]
    assert fields(api, text) == []


def test_node_is_found_by_its_uuid(api: Client, machine: Json) -> None:
    assert fields(api, machine["uuid"].upper()) == ["uuid"]
    assert fields(api, machine["uuid"][:20]) == ["uuid"]


def test_first_hits_are_exact_and_bounded(api: Client, add_node: AddNode) -> None:
    for name in ("gpu-10", "gpu-1", "gpu-11", "gpu-2"):
        add_node(name=name)
    answer = api.get("/v1/search?q=gpu-1&limit=2").json
    assert [hit["value"] for hit in answer["hits"]] == ["gpu-1", "gpu-10"]
    assert answer["more"] is True
    answer = api.get("/v1/search?q=gpu-1&limit=3").json
    assert (len(answer["hits"]), answer["more"]) == (3, False)


def test_value_with_a_repeated_word_is_one_hit(api: Client, add_node: AddNode) -> None:
    add_node(description="gpu gpu-2 gpu-3")
    answer = api.get("/v1/search?q=gpu&limit=1").json
    assert (len(answer["hits"]), answer["more"]) == (1, False)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "q: must have 2 to 64 characters"),
        ("q=x", "q: must have 2 to 64 characters"),
        (f"q={'x' * 65}", "q: must have 2 to 64 characters"),
        ("q=%00%00", "NUL character"),
        ("q=ab&limit=0", "limit: must be 1 to 100"),
        ("q=ab&limit=101", "limit: must be 1 to 100"),
        ("q=ab&limit=x", "limit"),
        ("q=ab&sort=name", "sort"),
    ],
)
def test_invalid_argument_is_refused(api: Client, query: str, said: str) -> None:
    answer = api.get(f"/v1/search?{query}")
    assert answer.status == 400
    assert said in answer.text


def test_patch_moves_the_terms(api: Client, machine: Json) -> None:
    path = f"/v1/nodes/{machine['uuid']}"
    patch = [
        {"op": "replace", "path": "/name", "value": "lab-9"},
        {"op": "remove", "path": "/extra/asset"},
        {"op": "replace", "path": "/driver_info/redfish_address", "value": "10.0.0.9"},
    ]
    assert api.patch(path, patch).status == 200
    assert [fields(api, text) for text in ("rack2", "ax-4711", "bmc-7")] == [[], [], []]
    assert fields(api, "lab-9") == ["name"]
    assert fields(api, "10.0.0.9") == ["driver_info.redfish_address"]
    assert fields(api, "sn000777") == ["inventory.system_vendor.serial_number"]
    refused = [
        {"op": "replace", "path": "/name", "value": "lab-10"},
        {"op": "replace", "path": "/instance_uuid", "value": "bad"},
    ]
    assert api.patch(path, refused).status == 400
    assert fields(api, "lab-1") == []


def test_enrolled_node_is_found_and_deleted_one_is_not(api: Client, database: Database) -> None:
    body = {"driver": "fake-hardware", "name": "new-1", "extra": {"rack": "r7 \t end"}}
    assert api.post("/v1/nodes", body).status == 201
    assert fields(api, "new-1") == ["name"]
    database.write(lambda conn: conn.execute(models.nodes.delete()))
    assert fields(api, "new-1") == []
    assert database.read(lambda conn: conn.execute(models.search_terms.select()).all()) == []


def test_serial_number_like_a_mac_address_is_found(api: Client, add_node: AddNode) -> None:
    add_node(extra={"serial": "123456789012", "disk": "50014EE2B1C0"})
    assert fields(api, "123456789012") == ["extra.serial"]
    assert fields(api, "50014ee2b1c0") == ["extra.disk"]


def test_whole_address_of_a_port_is_first(api: Client, machine: Json, add_node: AddNode) -> None:
    add_node(extra={"mac": MAC})
    assert machine["uuid"]
    assert fields(api, MAC.replace(":", "")) == ["port.address", "extra.mac"]


def test_node_whose_terms_fail_hides_no_other(
    api: Client, add_node: AddNode, database: Database
) -> None:
    bad = add_node(name="bad-1")["uuid"]
    fields(api, "bad-1")
    add_node(name="good-1")
    fields(api, "good-1")
    api.patch(f"/v1/nodes/{bad}", [{"op": "add", "path": "/owner", "value": "x"}])
    lost = sa.text("UPDATE nodes SET driver_info = :v WHERE uuid = :u")
    stored = {"v": '{"$fernet": "lostkey:x"}', "u": bad}
    database.write(lambda conn: conn.execute(lost, stored))
    assert fields(api, "good-1") == ["name"]
    assert database.read(lambda conn: rows.changes(conn, 9)) != []  # a conductor may have the key


# -- callers ---------------------------------------------------------------------------------


def test_other_project_finds_and_counts_nothing(
    callers: Callers, machine: Json, add_node: AddNode
) -> None:
    stranger = callers("admin", STRANGER)
    for text in ("rack2", "sn000777", "bmc-7", MAC, machine["uuid"], "aaaaaaaa", "dell", "p-ow"):
        answer = stranger.get(f"/v1/search?q={text}&limit=1")
        assert answer.json == {"hits": [], "more": False}, text
    add_node(name="rack2-zz", owner=STRANGER)
    answer = stranger.get("/v1/search?q=rack2&limit=1").json
    assert ([hit["name"] for hit in answer["hits"]], answer["more"]) == (["rack2-zz"], False)


@pytest.mark.parametrize(
    ("role", "project", "hits"),
    [
        ("reader", None, 1),
        ("admin", None, 1),
        ("reader", OWNER, 1),
        ("service", OWNER, 1),
        ("reader", LESSEE, 0),
        ("admin", LESSEE, 0),
    ],
)
def test_hit_needs_the_right_to_its_field(
    callers: Callers, machine: Json, role: str, project: str | None, hits: int
) -> None:
    client = callers(role, project)
    assert machine["uuid"]
    assert len(fields(client, "rack2")) == 1
    assert len(fields(client, "4711")) == 1
    assert len(fields(client, MAC)) == 1
    assert [len(fields(client, text)) for text in ("bmc-7", "sn000777")] == [hits, hits]
    more = client.get("/v1/search?q=dell&limit=1").json["more"]
    assert more is False


def test_lessee_that_owns_other_nodes_sees_their_fields_alone(
    callers: Callers, machine: Json, add_node: AddNode
) -> None:
    own = add_node(owner=LESSEE, driver_info={"redfish_address": "bmc-8.example.org"})
    assert machine["uuid"]
    answer = callers("reader", LESSEE).get("/v1/search?q=bmc-&limit=1").json
    assert [hit["uuid"] for hit in answer["hits"]] == [own["uuid"]]
    assert answer["more"] is False


POLICIES = [
    ('"baremetal:port:list_all": "!"\n"baremetal:port:list": "!"', "reader", MAC, 0),
    ('"baremetal:port:list_all": "!"', "reader", MAC, 0),
    ('"baremetal:port:list_all": "!"', OWNER, MAC, 1),
    ('"baremetal:port:list": "!"', OWNER, MAC, 0),
    ('"baremetal:port:list": "!"', "reader", MAC, 1),
    ('"baremetal:node:get:driver_info": "!"', OWNER, "bmc-7", 0),
    ('"baremetal:node:get:driver_info": "!"', "reader", "bmc-7", 1),  # sees all by the threshold
    (
        '"baremetal:node:get:filter_threshold": "project_id:%(node.owner)s"\n'
        '"baremetal:node:get:driver_info": "!"',
        *(OWNER, "bmc-7", 0),
    ),
    (
        '"baremetal:node:get:filter_threshold": "!"\n"baremetal:node:get:driver_info": "!"',
        *("reader", "bmc-7", 0),
    ),
    ('"baremetal:node:get:filter_threshold": "@"', LESSEE, "bmc-7", 1),
]


@pytest.mark.parametrize(("lines", "who", "text", "count"), POLICIES)
def test_policy_file_hides_hits_as_it_hides_fields(
    ruled: Ruled,  # noqa: F811
    machine: Json,
    *,
    lines: str,
    who: str,
    text: str,
    count: int,
) -> None:
    callers = ruled(lines)
    client = callers("reader") if who == "reader" else callers("reader", who)
    assert len(fields(client, text)) == count
    shown = client.at(LAST).get(f"/v1/nodes/{machine['uuid']}").json["driver_info"]
    if text == "bmc-7":
        assert ("redfish_address" in shown) is bool(count)
    else:
        listed = client.at(LAST).get("/v1/ports")
        assert len(listed.json["ports"] if listed.status == 200 else []) == count


def test_statements_of_a_search_are_few(
    api: Client, callers: Callers, database: Database, machine: Json, add_node: AddNode
) -> None:
    owner = callers("reader", OWNER)
    for number in range(9):
        add_node(name=f"more-{number}")
    with count_statements(database) as sent:
        fields(api, "none")  # makes the terms of five changes
    assert len(sent) <= 2 + 5 * 4 + 2, sent
    assert machine["uuid"]
    settle(database)
    for client, text, count in ((api, "rack", 3), (api, "5254", 6), (owner, "rack", 3)):
        with count_statements(database) as sent:
            fields(client, text)
        assert len(sent) == count, sent


def test_feature_that_is_off_writes_no_terms(
    sqlite_database: Database, conf: cfg.ConfigOpts, recorder: Recorder
) -> None:
    followers(sqlite_database.engine).clear()
    client = Client(app.build(sqlite_database, recorder, conf))
    assert client.post("/v1/nodes", {"driver": "fake-hardware", "name": "x-1"}).status == 201
    assert client.get("/v1/search?q=x-1").status == 404
    assert sqlite_database.read(lambda conn: conn.execute(models.search_terms.select()).all()) == []


def test_list_has_the_serial_numbers_of_machines_that_the_caller_may_read(
    callers: Callers, machine: Json, add_node: AddNode, database: Database
) -> None:
    add_node(name="bare", owner=OWNER, lessee=LESSEE, properties={"serial_number": "typed"})
    settle(database)

    def serials(client: Client) -> dict[str, str | None]:
        answer = client.get("/v1/nodes?fields=name,serial")
        assert answer.status == 200, answer.text
        return {node["name"]: node["serial"] for node in answer.json["nodes"]}

    known = {"rack2-u01": "SN000777", "bare": None}
    assert serials(callers("reader")) == serials(callers("reader", OWNER)) == known
    assert serials(callers("reader", LESSEE)) == dict.fromkeys(known)
    assert serials(callers("reader", STRANGER)) == {}
    one = callers("reader").get("/v1/nodes/rack2-u01?fields=serial")
    assert (one.status, one.json["serial"]) == (200, "SN000777")
    assert "serial" not in callers("reader").get("/v1/nodes/rack2-u01").json
    # A new owner does not see what the former one has found out, though the terms are old.
    handed = models.nodes.update().where(models.nodes.c.name == "rack2-u01")
    database.write(lambda conn: conn.execute(handed.values(owner=STRANGER)))
    assert serials(callers("reader", STRANGER)) == {"rack2-u01": None}
