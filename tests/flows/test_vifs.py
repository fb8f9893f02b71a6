"""VIFs, from the request to the note on a port: API and conductor in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events, nodes
from ironic_lite.db.tables import models
from tests.support.in_process import InProcess
from tests.support.statements import count_statements
from tests.support.wsgi_client import Response

ABSENT = "00000000-0000-4000-8000-000000000000"
ID = "6c2bd2c2-3a3a-4f3c-9f8c-0a1b2c3d4e5f"
Json = dict[str, Any]


@pytest.fixture
def whole(sqlite_database: Database) -> Iterator[InProcess]:
    service = InProcess(sqlite_database)
    yield service
    service.close()


class Machine:
    """A node by its API."""

    def __init__(self, whole: InProcess, **values: Any) -> None:
        self.whole = whole
        interfaces = {"network_interface": "noop", "storage_interface": "noop"}
        fakes = ("power", "management", "deploy", "boot", "rescue", "inspect", "console")
        kinds = (*fakes, "raid", "bios", "firmware", "vendor")
        fake = {f"{kind}_interface": "fake" for kind in kinds}
        self.uuid = whole.rig.node(**fake, **interfaces, **values)
        self.place = f"/v1/nodes/{self.uuid}/vifs"

    def port(self, number: int, **more: Any) -> str:
        body = {"node_uuid": self.uuid, "address": f"52:54:00:00:00:{number:02x}", **more}
        answer = self.whole.api.post("/v1/ports", body)
        assert answer.status == 201, answer.body
        return str(answer.json["uuid"])

    def attach(self, vif: str, **more: Any) -> Response:
        return self.whole.api.post(self.place, {"id": vif, **more})

    def attached(self) -> list[str]:
        return [vif["id"] for vif in self.whole.api.get(self.place).json["vifs"]]

    def held(self, port: str) -> str | None:
        info = self.whole.api.get(f"/v1/ports/{port}").json["internal_info"]
        return str(info["tenant_vif_port_id"]) if info else None


@pytest.fixture
def machine(whole: InProcess) -> Machine:
    return Machine(whole)


def test_a_vif_is_attached_shown_and_detached(machine: Machine) -> None:
    first, second = machine.port(1, pxe_enabled=False), machine.port(2)
    answer = machine.attach(ID)
    assert (answer.status, answer.body) == (204, b"")
    assert (machine.held(first), machine.held(second), machine.attached()) == (None, ID, [ID])
    assert machine.attach("named-vif", foo="bar").status == 204
    assert (machine.held(first), machine.attached()) == ("named-vif", ["named-vif", ID])
    api = machine.whole.api
    assert api.delete(f"{machine.place}/{ID}").status == 204
    assert (machine.held(second), machine.attached()) == (None, ["named-vif"])
    assert api.delete(f"{machine.place}/{ID}").status == 204
    known = api.get(f"/v1/ports/{second}").json
    assert (known["internal_info"], known["updated_at"] is not None) == ({}, True)
    assert machine.whole.rig.get(machine.uuid)["reservation"] is None
    assert machine.whole.rig.get(machine.uuid)["last_error"] is None


def test_a_vif_is_attached_once(machine: Machine) -> None:
    machine.port(1)
    machine.port(2)
    assert machine.attach("one").status == 204
    assert machine.attach("one").status == 204
    assert machine.attached() == ["one"]


def test_more_vifs_than_ports_are_kept_by_the_node(machine: Machine) -> None:
    machine.port(1)
    assert [machine.attach(vif).status for vif in ("a", "b")] == [204, 204]
    assert machine.attached() == ["a", "b"]


def test_a_port_or_portgroup_can_be_named(machine: Machine) -> None:
    api = machine.whole.api
    first, second = machine.port(1), machine.port(2)
    group = api.post("/v1/portgroups", {"node_uuid": machine.uuid}).json["uuid"]
    third = machine.port(3, portgroup_uuid=group)
    assert machine.attach("a", port_uuid=second.upper()).status == 204
    assert (machine.held(first), machine.held(second)) == (None, "a")
    assert machine.attach("b", portgroup_uuid=group).status == 204
    shown = api.get(f"/v1/portgroups/{group}").json["internal_info"]
    assert (shown, machine.held(third)) == ({"tenant_vif_port_id": "b"}, None)
    assert sorted(machine.attached()) == ["a", "b"]
    for more, status in (
        ({"port_uuid": "x"}, 400),
        ({"port_uuid": first, "portgroup_uuid": group}, 400),
    ):
        assert machine.attach("c", **more).status == status
    assert api.at(66).post(machine.place, {"id": "c", "port_uuid": first}).status == 406
    assert api.at(67).post(machine.place, {"id": "c", "port_uuid": first}).status == 204


def test_a_port_with_a_vif_stays(machine: Machine) -> None:
    api, port = machine.whole.api, machine.port(1)
    assert machine.attach("one").status == 204
    assert api.delete(f"/v1/ports/{port}").status == 409
    assert api.delete(f"{machine.place}/one").status == 204
    assert api.delete(f"/v1/ports/{port}").status == 204


def test_a_node_without_ports_keeps_its_vifs_itself(machine: Machine) -> None:
    assert [machine.attach(vif).status for vif in ("a", "b", "a")] == [204, 204, 204]
    assert machine.attached() == ["a", "b"]
    api = machine.whole.api
    assert [api.delete(f"{machine.place}/{vif}").status for vif in ("a", "a", "b")] == [
        204,
        204,
        204,
    ]
    assert machine.attached() == []
    assert machine.attach("c", port_uuid=ABSENT).status == 204


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        (None, 400),
        ([], 400),
        ({"id": 1}, 400),
        ({"id": "a b"}, 400),
        ({"id": None}, 400),
    ],
    ids=["empty", "none", "list", "number", "blank", "null"],
)
def test_a_bad_vif_is_refused(machine: Machine, body: Any, status: int) -> None:
    answer = machine.whole.api.post(machine.place, body)
    assert (answer.status, machine.attached()) == (status, [])


def test_vifs_are_404_before_1_28(machine: Machine) -> None:
    old, new = machine.whole.api.at(27), machine.whole.api.at(28)
    assert (old.get(machine.place).status, new.get(machine.place).status) == (404, 200)
    assert old.post(machine.place, {"id": "a"}).status == 404
    assert old.delete(f"{machine.place}/a").status == 404
    assert new.get(f"{machine.place}/a").status == 405
    assert new.get("/v1/nodes/nobody/vifs").status == 404


def test_a_locked_node_takes_none(machine: Machine) -> None:
    database = machine.whole.database
    machine.whole.rig.service.runtime.conf.set_override(
        "node_locked_retry_attempts", 1, "conductor"
    )
    database.write(
        lambda conn: conn.execute(models.nodes.update().values(reservation="elsewhere")) and None
    )
    answer = machine.attach("a")
    assert (answer.status, "locked by host elsewhere" in answer.text) == (409, True)


def test_history_and_listeners_are_told(machine: Machine) -> None:
    machine.port(1)
    assert machine.attach("one").status == 204
    told = machine.whole.database.read(lambda conn: events.page(conn, node_uuid=machine.uuid))
    kinds = [(row["kind"], row["data"] or {}) for row in told][1:]
    assert [kind for kind, _ in kinds] == ["port_updated", "management"]
    assert kinds[0][1]["changed"] == ["internal_info"]
    assert kinds[1][1] == {"order": "attach_vif", "vif": "one"}


def test_an_instance_takes_its_vifs_with_it(whole: InProcess) -> None:
    machine = Machine(whole, provision_state="active", instance_uuid=ID)
    port = machine.port(1)
    assert machine.attach("one").status == 204
    place = f"/v1/nodes/{machine.uuid}/states/provision"
    whole.sent(lambda api: api.put(place, {"target": "deleted"}), 202)
    assert (machine.attached(), machine.held(port)) == ([], None)


def test_a_list_of_vifs_takes_four_statements(machine: Machine) -> None:
    for number in range(8):
        machine.port(number)
        assert machine.attach(f"vif-{number}").status == 204
    with count_statements(machine.whole.database) as sent:
        assert len(machine.attached()) == 8
    assert len(sent) == 4, sent


def test_attaching_a_vif_raises_the_generation_of_the_node(machine: Machine) -> None:
    before = machine.whole.rig.get(machine.uuid)["generation"]
    machine.port(1)
    assert machine.attach("one").status == 204
    row = machine.whole.database.read(lambda conn: nodes.get(conn, machine.uuid))
    assert row["generation"] > before
