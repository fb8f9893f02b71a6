"""Inspection and rescue: wait states, failures, rules, their calls, and inventories."""

from __future__ import annotations

import http.server
import json
import logging
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_utils import secretutils

from ironic_lite import errors
from ironic_lite.conductor.engine import notes
from ironic_lite.conductor.engine.task import Task
from ironic_lite.core import clock
from ironic_lite.db.queries import allocations, nodes, ports, reports, resources
from ironic_lite.drivers.fake import hardware
from ironic_lite.drivers.fake.hardware import FakeConsole
from ironic_lite.drivers.registry import Registry, Settings
from tests.flows.test_locks import seize
from tests.support.conductor_fixture import ConductorFixture, configure, wait_for
from tests.support.crashes import Scene, Stage
from tests.support.database_rows import new_uuid
from tests.support.ports import free_port

# Inspection and rescue: at once, through their wait states, and failing.

FOUND = {"cpu_arch": "x86_64", "cpus": 8, "memory_mb": 16384, "local_gb": 100}


def rescue(rig: ConductorFixture, node: str) -> dict[str, Any]:
    return rig.call("rescue", node, rescue_password="sesame")


def test_inspection_fills_in_the_properties(rig: ConductorFixture) -> None:
    node = rig.node(properties={"cpus": 2})
    row = rig.call("inspect", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("manageable", None)
    assert row["properties"] == {**FOUND, "cpus": 2}
    assert row["inspection_started_at"] is None
    assert row["inspection_finished_at"] is not None
    assert rig.path(node) == ["inspecting", "manageable"]


def test_inspection_may_wait_and_ends_by_itself(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_verbs=["inspect"], fake_step_seconds=3600)
    row = rig.call("inspect", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("inspect wait", "manageable")
    assert row["inspection_started_at"] is not None
    assert rig.run(node)["state"] == "waiting"
    rig.ring(node)
    row = rig.reaches(node, "manageable")
    assert row["properties"] == FOUND
    assert rig.run(node)["state"] == "done"


@pytest.mark.parametrize("waiting", [[], ["inspect"]])
def test_a_failed_inspection_says_why_and_may_be_repeated(
    rig: ConductorFixture, waiting: list[str]
) -> None:
    node = rig.node(fake_fail_verbs={"inspect": "no agent"}, fake_async_verbs=waiting)
    rig.ask("inspect", node)
    row = rig.reaches(node, "inspect failed")
    assert row["target_provision_state"] == "manageable"
    assert "no agent" in row["last_error"]
    assert not row["maintenance"]
    rig.edit(node, driver_info={})
    row = rig.call("inspect", node)
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)


def test_inspection_adds_ports_for_cards_that_no_node_has(
    rig: ConductorFixture, caplog: pytest.LogCaptureFixture
) -> None:
    node, other = rig.node(), rig.node()
    with rig.tasks.lock(rig.who, other) as task:
        task.add_ports(["52:54:00:00:00:01"])
    with rig.tasks.lock(rig.who, node) as task:
        assert list(task.ports) == []
        task.add_ports(["52:54:00:00:00:02", "52:54:00:00:00:0A", "52:54:00:00:00:01", "n/a", ""])
        task.add_ports(["52:54:00:00:00:0a"])
        cards = task.ports
    assert [port.address for port in cards] == ["52:54:00:00:00:02", "52:54:00:00:00:0a"]
    assert [port.pxe_enabled for port in cards] == [True, True]
    told = rig.events(node, "port_created")
    assert [event["data"]["port"] for event in told] == [port.uuid for port in cards]
    assert {event["requester"] for event in told} == {"tester"}
    assert "no port is added for a network card with the address 'n/a'" in caplog.text


def test_machine_with_many_odd_cards_fills_no_log(
    rig: ConductorFixture, caplog: pytest.LogCaptureFixture
) -> None:
    with rig.tasks.lock(rig.who, rig.node()) as task:
        task.add_ports([f"card-{number}" for number in range(500)])
    assert caplog.text.count("no port is added") == 20
    assert "480 more remarks are left out" in caplog.text


def test_task_that_lost_the_lock_adds_no_ports(rig: ConductorFixture) -> None:
    node = rig.node()
    with pytest.raises(errors.LockLost), rig.tasks.lock(rig.who, node) as task:
        rig.database.write(lambda conn: nodes.unlock(conn, node, token=rig.get(node)["lock_token"]))
        task.add_ports(["52:54:00:00:00:01"])
    assert rig.events(node) == []
    assert rig.database.read(lambda conn: ports.of_node(conn, node)) == []


def test_rescue_and_unrescue(rig: ConductorFixture) -> None:
    node = rig.node("active", instance_info={"image": "x"})
    row = rescue(rig, node)
    assert (row["provision_state"], row["target_provision_state"]) == ("rescue", None)
    assert set(row["instance_info"]) == {"image", "hashed_rescue_password"}
    hashed = row["instance_info"]["hashed_rescue_password"]
    assert hashed.startswith("$5$")
    assert secretutils.crypt_password("sesame", hashed) == hashed
    row = rig.call("unrescue", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("active", None)
    assert row["instance_info"] == {"image": "x"}
    assert rig.path(node) == ["rescuing", "rescue", "unrescuing", "active"]


def test_rescue_may_wait_and_ends_by_itself(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_async_verbs=["rescue"], fake_step_seconds=3600)
    row = rescue(rig, node)
    assert (row["provision_state"], row["target_provision_state"]) == ("rescue wait", "rescue")
    rig.ring(node)
    rig.reaches(node, "rescue")
    assert rig.path(node) == ["rescuing", "rescue wait", "rescuing", "rescue"]
    assert rig.run(node)["state"] == "done"


def test_the_password_itself_is_kept_only_where_ramdisks_need_it(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(
        conductor__require_rescue_password_hashed=False,
        conductor__rescue_password_hash_algorithm="sha512",
    )
    node = rig.node("active")
    info = rescue(rig, node)["instance_info"]
    assert info["rescue_password"] == "sesame"
    assert info["hashed_rescue_password"].startswith("$6$")
    assert rig.call("unrescue", node)["instance_info"] == {}


def test_another_rescue_replaces_the_password(rig: ConductorFixture) -> None:
    node = rig.node("rescue", instance_info={"rescue_password": "old", "image": "x"})
    info = rescue(rig, node)["instance_info"]
    assert set(info) == {"image", "hashed_rescue_password"}


def test_a_password_no_system_takes_is_refused_and_changes_nothing(rig: ConductorFixture) -> None:
    node = rig.node("active")
    before = rig.get(node)
    with pytest.raises(errors.InvalidParameter, match="rescue_password: has a null character"):
        rig.ask("rescue", node, rescue_password="se\0same")
    assert rig.get(node) == before


@pytest.mark.parametrize("end", ["unrescue", "unrescue fails", "rescue fails", "abort", "deleted"])
def test_no_end_of_a_rescue_leaves_a_password(
    rig: ConductorFixture, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fails = {"unrescue fails": "unrescue", "rescue fails": "rescue"}.get(end)
    node = rig.node(
        "active",
        fake_fail_verbs={fails: "no boot"} if fails else {},
        fake_async_verbs=["rescue"] if end == "abort" else [],
        fake_step_seconds=3600 if end == "abort" else 0,
        instance_info={"image": "x"},
    )
    row = rescue(rig, node)
    seen = [row["instance_info"].get("hashed_rescue_password")]
    if end == "abort":
        assert row["provision_state"] == "rescue wait"
        row = rig.act("abort", node)
    elif end == "deleted":
        row = rig.call("delete", node)
    elif end != "rescue fails":
        row = rig.call("unrescue", node)
    assert row["instance_info"] in ({"image": "x"}, {})
    told = json.dumps([rig.events(node), rig.runs(node), row], default=str) + caplog.text
    assert "sesame" not in told
    assert not any(hashed in told for hashed in seen if hashed)


@pytest.mark.parametrize("waiting", [[], ["rescue"]])
def test_a_failed_rescue_forgets_the_password(rig: ConductorFixture, waiting: list[str]) -> None:
    node = rig.node("active", fake_fail_verbs={"rescue": "no boot"}, fake_async_verbs=waiting)
    rig.ask("rescue", node, rescue_password="sesame")
    row = rig.reaches(node, "rescue failed")
    assert row["target_provision_state"] == "rescue"
    assert "no boot" in row["last_error"]
    assert row["instance_info"] == {}


def test_a_failed_unrescue_may_be_repeated(rig: ConductorFixture) -> None:
    node = rig.node("rescue", fake_fail_verbs={"unrescue": "no boot"})
    row = rig.call("unrescue", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("unrescue failed", "active")
    assert "no boot" in row["last_error"]
    rig.edit(node, driver_info={})
    assert rig.call("unrescue", node)["provision_state"] == "active"


def test_rescue_is_refused_in_maintenance_and_without_one(rig: ConductorFixture) -> None:
    node = rig.node("active", maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rescue(rig, node)
    other = rig.node("rescue", maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rig.call("unrescue", other)


# Rules are applied when an inspection ends, whoever inspects, and may fail it.

Json = dict[str, Any]
MAC = "52:54:00:00:00:01"


def rule(rig: ConductorFixture, *actions: Json, priority: int = 0, **more: Any) -> str:
    row = {
        "uuid": new_uuid(),
        "phase": "main",
        "priority": priority,
        "conditions": [],
        "actions": list(actions),
        **more,
    }
    rig.database.write(lambda conn: resources.INSPECTION_RULES.insert(conn, row))
    return str(row["uuid"])


def act(name: str, /, **args: Any) -> Json:
    return {"op": name, "args": args}


def inspected(rig: ConductorFixture, **values: Any) -> Json:
    node = rig.node("manageable", fake_ports=[MAC], **values)
    return rig.call("inspect", node)


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after a wait"])
def test_changes_by_rules_are_kept(rig: ConductorFixture, waits: bool) -> None:
    more = act("set-attribute", path="extra/cores", value="{inventory[cpu][count]}")
    seen = act("set-attribute", path="extra/seen", value="{node[extra][cores]}")
    rule(rig, seen, act("log", msg="{node.uuid}"))
    rule(
        rig,
        more,
        act("add-trait", name="CUSTOM_RULED"),
        act("set-capability", name="ruled", value="yes"),
        act("set-plugin-data", path="ruled", value=True),
        act("set-port-attribute", port_id=MAC, path="extra/ruled", value=1),
        priority=5,
    )
    rule(rig, act("fail", msg="no"), conditions=[act("eq", values=[1, 2])], priority=9)
    told: Json = {"fake_async_verbs": ["inspect"], "fake_step_seconds": 0} if waits else {}
    row = inspected(rig, **told)
    row = rig.reaches(row["uuid"], "manageable")
    cores = row["properties"]["cpus"]
    assert row["extra"] == {"cores": cores, "seen": cores}
    assert row["properties"]["capabilities"].endswith("ruled:yes")
    uuid = row["uuid"]
    assert rig.database.read(lambda conn: nodes.get_traits(conn, uuid)) == ["CUSTOM_RULED"]
    found = rig.database.read(lambda conn: reports.get_inventory(conn, uuid))
    assert found["plugin_data"] == {"ruled": True}
    (port,) = rig.database.read(lambda conn: ports.of_node(conn, uuid))
    assert port.extra == {"ruled": 1}


def test_a_rule_may_fail_the_inspection(rig: ConductorFixture) -> None:
    put = act("set-attribute", path="extra/half", value=1)
    uuid = rule(rig, put, act("fail", msg="only {inventory[cpu][count]} cores"))
    row = inspected(rig)
    assert row["provision_state"] == "inspect failed"
    assert f"Inspection rule {uuid}: fail: only" in row["last_error"]
    assert row["extra"] == {}
    assert row["properties"]["cpus"]  # what was found stays, to be looked at
    rig.database.write(resources.clear_rules)
    assert rig.call("inspect", row["uuid"])["provision_state"] == "manageable"


def test_without_rules_an_inspection_asks_for_them_once(rig: ConductorFixture) -> None:
    row = inspected(rig)
    assert (row["provision_state"], row["extra"]) == ("manageable", {})


@pytest.mark.parametrize("wanted", ["idrac", "redfish"], ids=["absent", "other"])
def test_a_driver_that_cannot_drive_the_node_fails_the_inspection(
    rig: ConductorFixture, wanted: str
) -> None:
    rule(rig, act("set-attribute", path="driver", value=wanted))
    fakes = {f"{kind}_interface": "fake" for kind in ("power", "management", "inspect")}
    row = rig.reaches(inspected(rig, **fakes)["uuid"], "inspect failed")
    assert row["driver"] == "fake-hardware"
    assert "A rule sets the driver" in row["last_error"]


@pytest.mark.parametrize("named", [False, True], ids=["all", "all others"])
def test_new_driver_of_a_rule_resets_the_interfaces(
    build: Callable[..., ConductorFixture], named: bool
) -> None:
    types = {"DEFAULT__enabled_hardware_types": ["fake-hardware", "manual-management"]}
    rig = build(registry=Registry.load(Settings.read(configure(**types))), **types)
    rule(rig, act("set-attribute", path="/driver", value="manual-management"))
    if named:
        rule(rig, act("set-attribute", path="/inspect_interface", value="no-inspect"))
    fakes = {f"{kind}_interface": "fake" for kind in ("power", "management", "vendor", "bios")}
    row = rig.reaches(inspected(rig, **fakes)["uuid"], "manageable")
    wanted = rig.service.runtime.registry.resolve(
        "manual-management", {"inspect": "no-inspect"} if named else {}
    )
    assert (row["driver"], row["last_error"]) == ("manual-management", None)
    assert {kind: row[f"{kind}_interface"] for kind in wanted} == wanted
    assert row["management_interface"] != "fake"


def test_a_driver_that_can_drive_the_node_is_kept(rig: ConductorFixture) -> None:
    rule(rig, act("set-attribute", path="driver", value="fake-hardware"))
    row = rig.reaches(inspected(rig)["uuid"], "manageable")
    assert (row["driver"], row["last_error"]) == ("fake-hardware", None)


def test_interfaces_are_changed_if_the_node_can_be_driven_with_them(rig: ConductorFixture) -> None:
    rule(rig, act("set-attribute", path="vendor_interface", value="no-vendor"))
    row = rig.reaches(inspected(rig)["uuid"], "manageable")
    assert row["vendor_interface"] == "no-vendor"
    rule(rig, act("set-attribute", path="raid_interface", value="nowhere"), priority=-1)
    row = rig.call("inspect", row["uuid"])
    assert (row["provision_state"], row["raid_interface"]) == ("inspect failed", None)
    assert "nowhere" in row["last_error"]


def test_a_console_that_runs_keeps_its_interface(rig: ConductorFixture) -> None:
    rule(rig, act("set-attribute", path="console_interface", value="no-console"))
    row = rig.reaches(inspected(rig, console_enabled=True)["uuid"], "inspect failed")
    assert "while the console is enabled" in row["last_error"]


def test_a_rule_names_nodes_by_what_is_found(rig: ConductorFixture) -> None:
    rule(rig, act("set-attribute", path="name", value="cores-{inventory[cpu][count]}"))
    first = rig.reaches(inspected(rig)["uuid"], "manageable")
    assert first["name"] == f"cores-{first['properties']['cpus']}"
    second = rig.reaches(inspected(rig)["uuid"], "inspect failed")
    assert second["name"] != first["name"]
    assert first["name"] in second["last_error"]


def test_a_rule_switches_booting_by_a_port_off(rig: ConductorFixture) -> None:
    rule(rig, act("set-port-attribute", port_id=MAC, path="pxe_enabled", value=False))
    uuid = rig.reaches(inspected(rig)["uuid"], "manageable")["uuid"]
    (port,) = rig.database.read(lambda conn: ports.of_node(conn, uuid))
    assert port.pxe_enabled is False


def test_rules_of_a_file_run_among_the_others_by_their_priority(
    build: Callable[..., ConductorFixture], tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "rules.yaml"
    text = "- {priority: 2, actions: [{op: extend-attribute, args: {path: extra.l, value: file}}]}"
    file.write_text(text, encoding="utf-8")
    rig = build(inspection_rules__built_in_rules=str(file))
    for value, priority in (("low", 1), ("same", 2), ("high", 3)):
        rule(rig, act("extend-attribute", path="extra.l", value=value), priority=priority)
    row = rig.reaches(inspected(rig)["uuid"], "manageable")
    assert row["extra"] == {"l": ["high", "same", "file", "low"]}
    file.write_text("nonsense", encoding="utf-8")
    row = rig.call("inspect", row["uuid"])
    assert row["provision_state"] == "inspect failed"
    assert f"The file {file}" in row["last_error"]


@pytest.mark.parametrize(
    ("mask", "sensitive", "seen"),
    [
        ("always", True, "******"),
        ("sensitive", True, "s3same"),
        ("sensitive", False, "******"),
        ("never", False, "s3same"),
    ],
)
def test_mask_secrets_decides_which_rules_see_secrets(
    build: Callable[..., ConductorFixture], mask: str, sensitive: bool, seen: str
) -> None:
    rig = build(inspection_rules__mask_secrets=mask)
    copy = act("set-attribute", path="extra/seen", value="{node.driver_info[own_password]}")
    rule(rig, copy, sensitive=sensitive)
    row = inspected(rig, driver_info={"own_password": "s3same"})
    assert rig.reaches(row["uuid"], "manageable")["extra"] == {"seen": seen}


def test_rule_that_sees_the_mask_of_a_secret_does_not_store_it_as_a_login(
    rig: ConductorFixture,
) -> None:
    rule(rig, act("set-attribute", path="driver_info/b_password", value="{node.driver_info.a_key}"))
    rule(rig, act("set-attribute", path="driver_info", value="{node.driver_info}"))
    row = inspected(rig, driver_info={"a_key": "fine", "redfish_password": "s3same"})
    row = rig.reaches(row["uuid"], "inspect failed")
    assert "/driver_info/redfish_password: would become ******" in row["last_error"]
    assert row["driver_info"]["redfish_password"] == "s3same"


@pytest.mark.parametrize("field", ["owner", "lessee"])
def test_rule_that_gives_a_node_to_others_ends_what_its_users_have(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(FakeConsole, "stop_console", lambda *_args: calls.append("stop"))
    rule(rig, act("set-attribute", path=field, value="p-new"))
    used = {"console_interface": "fake", "console_enabled": True, field: "p-old"}
    node = rig.node("manageable", fake_ports=[MAC], **used)
    ident = new_uuid()
    rig.database.write(lambda conn: allocations.insert(conn, _allocation(ident, node, "p-old")))
    info = {"traits": [], "kept": 1}
    rig.edit(node, allocation_uuid=ident, instance_uuid=ident, instance_info=info)
    row = rig.call("inspect", node)
    assert (row["provision_state"], row[field]) == ("manageable", "p-new")
    assert (row["console_enabled"], calls) == (False, ["stop"])
    assert (row["allocation_uuid"], row["instance_uuid"]) == (None, None)
    assert row["instance_info"] == {"kept": 1}
    with pytest.raises(errors.AllocationNotFound):
        rig.database.read(lambda conn: allocations.get(conn, ident))


def _allocation(uuid: str, node: str, project: str) -> Json:
    blank = dict.fromkeys(name for name in allocations.COLUMNS if name != "id")
    known = {"uuid": uuid, "owner": project, "node_uuid": node, "state": "active", "extra": {}}
    return {**blank, **known, "resource_class": "big", "created_at": clock.now()}


def test_rule_that_sets_the_present_owner_ends_nothing(rig: ConductorFixture) -> None:
    rule(rig, act("set-attribute", path="owner", value="p-old"))
    row = inspected(rig, console_interface="fake", console_enabled=True, owner="p-old")
    assert (row["owner"], row["console_enabled"]) == ("p-old", True)


# Inspection rules call others by HTTP, while the inspection waits.

Build = Callable[..., ConductorFixture]


class Cmdb:
    """A server that answers with these, the last one for ever, and notes what it was asked."""

    def __init__(self, *statuses: int) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        left, cmdb = list(statuses), self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                cmdb.asked.append((self.path, self.headers.get("X-Node")))
                cmdb.meanwhile()
                status = left.pop(0) if len(left) > 1 else left[0]
                self.send_response(status, "s3same")  # servers repeat what they were sent
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Cmdb]]:
    made: list[Cmdb] = []

    def start(*statuses: int) -> Cmdb:
        made.append(Cmdb(*statuses))
        return made[-1]

    yield start
    for one in made:
        one.close()


def call(url: str, **args: Any) -> dict[str, Any]:
    return act("api-call", **{"url": url, "retries": 2, "backoff_factor": 0, **args})


def test_an_inspection_is_told(rig: ConductorFixture, serve: Callable[..., Cmdb]) -> None:
    cmdb = serve(204)
    url = f"{cmdb.url}/seen/{{inventory[cpu][count]}}"
    rule(rig, call(url, headers={"X-Node": "{node.uuid}"}))
    row = rig.reaches(inspected(rig)["uuid"], "manageable")
    assert cmdb.asked == [(f"/seen/{row['properties']['cpus']}", row["uuid"])]


def test_a_server_that_is_busy_is_asked_again(
    rig: ConductorFixture, serve: Callable[..., Cmdb]
) -> None:
    cmdb = serve(503, 429, 200)
    rule(rig, call(cmdb.url))
    rig.reaches(inspected(rig)["uuid"], "manageable")
    assert len(cmdb.asked) == 3


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (503, 3)])
def test_a_call_that_fails_fails_the_inspection_and_nothing_of_the_rules_is_kept(
    rig: ConductorFixture, serve: Callable[..., Cmdb], status: int, tries: int
) -> None:
    cmdb = serve(status)
    put = act("set-attribute", path="extra/half", value=1)
    uuid = rule(rig, put, call(cmdb.url.replace("//", "//me:s3same@") + "/s3same?s3same"))
    row = rig.reaches(inspected(rig)["uuid"], "inspect failed")
    assert len(cmdb.asked) == tries
    assert f"Inspection rule {uuid}: api-call: {cmdb.url} cannot be called" in row["last_error"]
    assert f"replies {status}" in row["last_error"]
    assert "s3same" not in row["last_error"]
    assert row["extra"] == {}


def test_call_to_a_server_that_is_away_fails_the_inspection(rig: ConductorFixture) -> None:
    rule(rig, call(f"http://127.0.0.1:{free_port()}", retries=0))
    row = rig.reaches(inspected(rig)["uuid"], "inspect failed")
    assert "cannot be called: connection refused" in row["last_error"]


def test_blocked_networks_are_not_called(build: Build, serve: Callable[..., Cmdb]) -> None:
    cmdb = serve(200)
    rig = build(conductor__image_blocked_networks=["127.0.0.0/8"])
    rule(rig, call(cmdb.url, retries=0))
    row = rig.reaches(inspected(rig)["uuid"], "inspect failed")
    assert "image_blocked_networks" in row["last_error"]
    assert cmdb.asked == []


def test_a_conductor_that_has_lost_the_node_calls_no_more(
    rig: ConductorFixture, serve: Callable[..., Cmdb]
) -> None:
    cmdb = serve(503)
    rule(rig, call(cmdb.url))
    node = rig.node("manageable")

    def lose() -> None:
        seize(rig.database, node, "theirs")
        rig.service.runtime.fence.doubt(0)

    cmdb.meanwhile = lose
    rig.ask("inspect", node)
    assert rig.service.runtime.workers.wait_idle(60)
    assert len(cmdb.asked) == 1
    row = rig.get(node)
    assert (row["provision_state"], row["lock_token"]) == ("inspecting", "theirs")


def test_a_conductor_that_stops_leaves_the_inspection_to_another(
    build: Build, serve: Callable[..., Cmdb]
) -> None:
    cmdb, rig = serve(503, 200), build()
    rule(rig, call(cmdb.url, backoff_factor=60))
    node = rig.node("manageable")
    rig.ask("inspect", node)
    wait_for(lambda: cmdb.asked)
    rig.service.stop(timeout=0.01)
    assert rig.get(node)["provision_state"] == "inspecting"
    other = build(DEFAULT__host="there")
    other.service.orphans.sweep()
    assert other.reaches(node, "manageable")["last_error"] is None
    assert len(cmdb.asked) == 2


# What an inspection finds is kept with its end, or not at all.

CARD, OTHER = "52:54:00:00:00:01", "52:54:00:00:00:02"


def inventory(rig: ConductorFixture, node: str) -> dict[str, Any] | None:
    """Return what is kept, None if nothing is."""
    try:
        found = rig.database.read(lambda conn: reports.get_inventory(conn, node))
    except errors.NotFound:
        return None
    return dict(found["inventory"])


def cards(rig: ConductorFixture, node: str) -> dict[str, bool]:
    found = rig.database.read(lambda conn: ports.of_node(conn, node))
    return {port.address: port.pxe_enabled for port in found}


@pytest.mark.parametrize("waiting", [[], ["inspect"]], ids=["at once", "after a wait"])
def test_an_inspection_keeps_an_inventory(rig: ConductorFixture, waiting: list[str]) -> None:
    node = rig.node(fake_ports=[CARD], fake_async_verbs=waiting)
    rig.ask("inspect", node)
    rig.reaches(node, "manageable")
    found = inventory(rig, node)
    assert found is not None
    assert found["interfaces"] == [{"name": "eth0", "mac_address": CARD}]
    assert found["cpu"] == {"count": 8, "architecture": "x86_64"}


def test_the_next_inspection_replaces_it(rig: ConductorFixture) -> None:
    node = rig.node(fake_ports=[CARD])
    rig.call("inspect", node)
    rig.edit(node, driver_info={"fake_ports": [OTHER]})
    rig.call("inspect", node)
    found = inventory(rig, node)
    assert found is not None
    assert [one["mac_address"] for one in found["interfaces"]] == [OTHER]
    assert set(cards(rig, node)) == {CARD, OTHER}


def test_inspection_with_an_inventory_too_large_fails(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = rig.node(fake_ports=[CARD])
    rig.call("inspect", node)
    before = inventory(rig, node)
    monkeypatch.setattr(notes, "MOST_KIB", 0)
    rig.edit(node, driver_info={"fake_ports": [OTHER]})
    rig.ask("inspect", node)
    row = rig.reaches(node, "inspect failed")
    assert "inventory would take" in row["last_error"]
    assert inventory(rig, node) == before


def test_failed_inspection_keeps_the_last_inventory(rig: ConductorFixture) -> None:
    node = rig.node(fake_fail_verbs={"inspect": "no"})
    rig.call("inspect", node)
    assert inventory(rig, node) is None
    rig.edit(node, driver_info={"fake_ports": [CARD]})
    rig.call("inspect", node)
    before = inventory(rig, node)
    assert before is not None
    rig.edit(node, driver_info={"fake_fail_verbs": {"inspect": "no"}})
    assert rig.call("inspect", node)["provision_state"] == "inspect failed"
    assert inventory(rig, node) == before


@pytest.mark.parametrize("what", ["commit", "call"])
def test_a_conductor_that_dies_leaves_all_or_nothing_and_no_port_twice(
    stage: Stage, what: str
) -> None:
    whole = 0
    for moment in stage.moments(what):
        card = f"52:54:00:00:{moment.number:02x}:01"
        scene = Scene("manageable", "inspect", {}, "manageable", columns={"fake_ports": [card]})
        node = moment.die(scene.begin, scene.ask)
        row = moment.rig.get(node)
        ended = row["inspection_finished_at"] is not None
        assert (inventory(moment.rig, node) is not None) is ended
        assert ("cpus" in row["properties"]) is ended
        whole += ended
        # Whoever goes on: what was found before is found once more.
        again = moment.heir()
        with again.tasks.lock(again.who, node, stale=nodes.Lease.seen(row)) as task:
            hardware.FakeInspect().inspect_hardware(task)
            task.save()
        assert (set(cards(again, node)), inventory(again, node) is None) == ({card}, False)
    assert 0 < whole < moment.number


def test_task_that_lost_the_lock_stores_no_inventory(rig: ConductorFixture) -> None:
    node = rig.node()
    with pytest.raises(errors.LockLost), rig.tasks.lock(rig.who, node) as task:
        rig.database.write(lambda conn: nodes.unlock(conn, node, token=rig.get(node)["lock_token"]))
        task.keep_inventory({"cpu": {}}, {})
        task.save()
    assert inventory(rig, node) is None


def test_a_card_of_another_node_is_told_of_and_stays_there(
    rig: ConductorFixture, caplog: pytest.LogCaptureFixture
) -> None:
    node, other = rig.node(fake_ports=[CARD, OTHER]), rig.node(fake_ports=[CARD])
    rig.call("inspect", other)
    with caplog.at_level(logging.WARNING):
        assert rig.call("inspect", node)["provision_state"] == "manageable"
        rig.call("inspect", other)
    assert (set(cards(rig, node)), set(cards(rig, other))) == ({OTHER}, {CARD})
    said = [line for line in caplog.messages if "no port is added" in line]
    assert said == [
        f"Node {node}: no port is added for network card {CARD}: it is a port of node {other}."
    ]


def test_a_card_nobody_boots_from_becomes_such_a_port(rig: ConductorFixture) -> None:
    node = rig.node()
    with rig.tasks.lock(rig.who, node) as task:
        assert isinstance(task, Task)
        task.add_ports({CARD.upper(): True, OTHER: False})
        assert [port.pxe_enabled for port in task.ports] == [True, False]
    assert cards(rig, node) == {CARD: True, OTHER: False}
