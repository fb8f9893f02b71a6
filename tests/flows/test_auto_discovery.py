"""Unknown machines whose ramdisks report: which become nodes, and which do not."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.api.controllers import inspection as controller
from ironic_lite.conductor.endpoints.agent import AgentEndpoints
from ironic_lite.conductor.watch import timeouts
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, ports
from ironic_lite.db.queries import reports as queries_reports
from tests.support.in_process import InProcess
from tests.support.wsgi_client import Response

Json = dict[str, Any]
BMC = "192.0.2.77"
ON = {
    "auto_discovery__enabled": True,
    "auto_discovery__driver": "fake-hardware",
    "DEFAULT__default_resource_class": "baremetal",
    "api__ramdisk_refusals_per_minute": 0,
}


def mac(number: int, card: int = 0) -> str:
    return f"52:54:00:{number // 256:02x}:{number % 256:02x}:{card:02x}"


def report(number: int = 1, **more: Any) -> Json:
    cards = [{"name": f"eth{card}", "mac_address": mac(number, card)} for card in range(2)]
    found: Json = {
        "interfaces": cards,
        "cpu": {"count": 2, "architecture": "x86_64"},
        "bmc_address": BMC if number == 1 else "0.0.0.0",
        "boot": {"pxe_interface": mac(number)},
    }
    return {"inventory": found, "logs": "bG9n", "configuration": {}, **more}


class Site:
    """A service that enrolls unknown machines."""

    def __init__(self, database: Database, **options: Any) -> None:
        self.whole = InProcess(database, **{**ON, **options})
        self.rig = self.whole.rig

    def reports(self, told: Json | None = None, query: str = "") -> Response:
        """Send a report as the agent does: without a version."""
        path = f"/v1/continue_inspection{query}"
        answer = self.whole.api.post(path, report() if told is None else told)
        assert self.rig.service.runtime.workers.wait_idle(60)
        return answer

    def nodes(self) -> list[Json]:
        return self.rig.database.read(lambda conn: nodes.page(conn, columns=None))

    def cards(self, node: str) -> dict[str, bool]:
        found = self.rig.database.read(lambda conn: ports.of_node(conn, node))
        return {one.address: one.pxe_enabled for one in found}

    def inventory(self, node: str) -> Json:
        return self.rig.database.read(lambda conn: queries_reports.get_inventory(conn, node))


@pytest.fixture
def site(sqlite_database: Database, request: pytest.FixtureRequest) -> Iterator[Site]:
    found = Site(sqlite_database, **getattr(request, "param", {}))
    yield found
    found.whole.close()


def options(**more: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("site", [more], indirect=True, ids=[""])


def test_unknown_machine_becomes_a_node_in_enroll(site: Site) -> None:
    answer = site.reports()
    (row,) = site.nodes()
    assert (answer.status, answer.json) == (200, {"uuid": row["uuid"]})
    assert (row["provision_state"], row["driver"], row["name"]) == ("enroll", "fake-hardware", None)
    assert (row["resource_class"], row["driver_info"]) == ("baremetal", None)
    assert (row["properties"], row["last_error"]) == ({"cpu_arch": "x86_64"}, None)
    assert (row["run_uuid"], row["power_interface"]) == (None, "fake")
    assert site.cards(row["uuid"]) == {mac(1): True}
    kept = site.inventory(row["uuid"])
    assert kept["inventory"] == report()["inventory"]
    assert kept["plugin_data"]["auto_discovered"] is True
    assert "logs" not in kept["plugin_data"]
    (run,) = site.rig.runs(row["uuid"])
    assert (run["verb"], run["state"], run["conductor"]) == ("discovery", "done", "here")
    assert [one["kind"] for one in site.rig.events(row["uuid"])] == ["node_created", "port_created"]
    listed = site.whole.api.get("/v1/runs?verb=discovery").json["runs"]
    assert [one["uuid"] for one in listed] == [run["uuid"]]


@options(auto_discovery__enabled=False)
def test_without_the_option_nothing_is_enrolled(site: Site) -> None:
    assert site.reports().status == 404
    assert site.nodes() == []


def test_report_for_a_node_by_uuid_enrolls_nothing(site: Site) -> None:
    absent = "?node_uuid=00000000-0000-4000-8000-000000000000"
    assert site.reports(query=absent).status == 404
    assert site.nodes() == []


@pytest.mark.parametrize("known", ["card", "BMC", "BMC by URL", "other BMC"])
def test_machine_of_a_node_in_any_state_is_not_enrolled(
    site: Site, known: str, caplog: pytest.LogCaptureFixture
) -> None:
    info = {
        "card": {},
        "BMC": {"ipmi_address": BMC},
        "BMC by URL": {"redfish_address": f"https://{BMC}:8443"},
        "other BMC": {"site_address": BMC},
    }
    node = site.rig.node("active", driver_info=info[known])
    if known == "card":
        with site.rig.tasks.lock(site.rig.who, node) as task:
            task.add_ports([mac(1, 1)])
    before = site.rig.get(node)
    with caplog.at_level(logging.WARNING):
        answer = site.reports()
    assert answer.status == 404
    assert answer.text == "No node that is being inspected matches this inventory."
    assert site.nodes() == [before]
    warnings = [one for one in caplog.messages if "was refused" in one]
    assert [one.startswith(f"Node {node}: a ramdisk at ") for one in warnings] == [True]


def test_machine_without_a_valid_card_is_not_enrolled(site: Site) -> None:
    told = report()
    told["inventory"]["interfaces"] = [{"name": "ib0", "mac_address": "00:00:00:00:00:00"}]
    assert site.reports(told).status == 404
    assert site.nodes() == []


def test_machine_with_very_many_cards_is_not_enrolled(site: Site) -> None:
    told = report()
    told["inventory"]["interfaces"] = [
        {"name": f"eth{number}", "mac_address": mac(number)} for number in range(129)
    ]
    assert site.reports(told).status == 404
    assert site.nodes() == []


def test_repeated_report_is_answered_and_changes_nothing(site: Site) -> None:
    first = site.reports()
    before = site.nodes()
    again = report()
    again["inventory"]["cpu"] = {"architecture": "changed"}
    answer = site.reports(again)
    assert (answer.status, answer.json) == (first.status, first.json)
    assert site.nodes() == before
    assert site.inventory(before[0]["uuid"])["inventory"] == report()["inventory"]


@pytest.mark.parametrize("why", ["another card", "an hour ago", "manageable", "by an operator"])
def test_later_report_of_the_machine_is_refused(site: Site, why: str) -> None:
    site.reports()
    (row,) = site.nodes()
    uuid, told = row["uuid"], report()
    if why == "another card":
        told["inventory"]["interfaces"].append({"name": "eth9", "mac_address": mac(9)})
    elif why == "an hour ago":
        past = row["created_at"] - datetime.timedelta(minutes=61)
        site.rig.edit(uuid, created_at=past)
    elif why == "manageable":
        site.rig.edit(uuid, provision_state="manageable")
    else:
        kept = site.inventory(uuid)["inventory"]
        at = row["created_at"]
        site.rig.database.write(
            lambda conn: queries_reports.put_inventory(conn, uuid, kept, {}, at=at)
        )
    before = site.nodes()
    assert site.reports(told).status == 404
    assert site.nodes() == before


@options(auto_discovery__most_per_hour=3)
def test_machines_of_an_hour_are_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [site.reports(report(number)).status for number in range(2, 7)] == [200] * 3 + [404] * 2
    assert len(site.nodes()) == 3
    searched: list[object] = []
    monkeypatch.setattr(controller, "_refuse_known_bmc", lambda *given: searched.append(given))
    assert site.reports(report(7)).status == 404
    assert searched == []
    assert site.reports(report(3)).status == 200  # once more


@options(auto_discovery__most_waiting=2)
def test_machines_that_wait_are_limited(site: Site) -> None:
    assert [site.reports(report(number)).status for number in (2, 3, 4)] == [200, 200, 404]
    site.rig.edit(site.nodes()[0]["uuid"], provision_state="manageable")
    assert [site.reports(report(number)).status for number in (4, 5)] == [200, 404]


def add_rule(site: Site, *actions: Json, conditions: Sequence[Json] = ()) -> None:
    body = {"description": "a rule", "actions": list(actions), "conditions": list(conditions)}
    answer = site.whole.api.at(115).post("/v1/inspection_rules", body)
    assert answer.status == 201, answer.body


def test_rules_complete_the_node(site: Site) -> None:
    place = {"path": "/name", "value": "found-{inventory[cpu][count]}"}
    add_rule(site, {"op": "set-attribute", "args": place})
    address = {"path": "/driver_info/ipmi_address", "value": "{inventory[bmc_address]}"}
    add_rule(site, {"op": "set-attribute", "args": address})
    assert site.reports().status == 200
    (row,) = site.nodes()
    assert (row["name"], row["driver_info"]) == ("found-2", {"ipmi_address": BMC})
    assert row["provision_state"] == "enroll"


def test_rule_may_apply_to_discovered_machines_alone(site: Site) -> None:
    """The page of inspections has this condition in place of a scope."""
    found = {"op": "is-true", "args": {"value": "{plugin_data[auto_discovered]}"}}
    action = {"op": "set-attribute", "args": {"path": "/description", "value": "found"}}
    add_rule(site, action, conditions=[found])
    enrolled = site.rig.node("manageable")
    row = site.rig.call("inspect", enrolled)
    assert (row["provision_state"], row["description"]) == ("manageable", None)
    assert site.reports().status == 200
    assert site.nodes()[-1]["description"] == "found"


@pytest.mark.parametrize("why", ["rule", "ramdisk", "name"])
def test_failed_discovery_leaves_a_node_with_the_reason(site: Site, why: str) -> None:
    told = report(error="collector failed") if why == "ramdisk" else report()
    if why == "rule":
        add_rule(site, {"op": "fail", "args": {"msg": "not one of ours"}})
    elif why == "name":
        site.rig.node("active", name="taken")
        add_rule(site, {"op": "set-attribute", "args": {"path": "/name", "value": "taken"}})
    assert site.reports(told).status == 200
    row = site.nodes()[-1]
    said = {"rule": "not one of ours", "ramdisk": "collector failed", "name": "taken"}[why]
    assert said in row["last_error"]
    assert (row["provision_state"], row["run_uuid"]) == ("enroll", None)
    (run,) = site.rig.runs(row["uuid"])
    assert (run["state"], said in run["error"]["text"]) == ("failed", True)
    assert site.cards(row["uuid"]) == {mac(1): True}
    assert site.reports(told).json == {"uuid": row["uuid"]}


def test_lost_conductor_leaves_a_node_that_the_next_report_completes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise errors.NoConductor(driver="fake-hardware", group="")

    with monkeypatch.context() as patch:
        patch.setattr(AgentEndpoints, "continue_inspection", away)
        answer = site.reports()
    assert answer.status == 503
    assert b"fake-hardware" not in answer.body
    (row,) = site.nodes()
    assert (row["properties"], row["run_uuid"] is None) == (None, False)
    assert site.cards(row["uuid"]) == {mac(1): True}
    assert site.reports().status == 200
    (row,) = site.nodes()
    assert (row["properties"], row["run_uuid"]) == ({"cpu_arch": "x86_64"}, None)
    assert [one["state"] for one in site.rig.runs(row["uuid"])] == ["done"]


def test_unfinished_discovery_gives_way_to_a_verb(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(AgentEndpoints, "continue_inspection", lambda *_, **__: None)
        site.reports()
    (row,) = site.nodes()
    assert site.rig.call("manage", row["uuid"])["provision_state"] == "manageable"
    assert [one["state"] for one in site.rig.runs(row["uuid"])] == ["aborted", "done"]


def test_discovery_that_no_conductor_received_ends_after_an_hour(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(AgentEndpoints, "continue_inspection", lambda *_, **__: None)
        site.reports()
    uuid = site.nodes()[0]["uuid"]
    site.rig.sweep("discoveries")
    assert [one["state"] for one in site.rig.runs(uuid)] == ["running"]
    monkeypatch.setattr(timeouts, "DISCOVERY_SECONDS", -60.0)
    with site.rig.tasks.lock(site.rig.who, uuid):
        site.rig.sweep("discoveries")
    assert [one["state"] for one in site.rig.runs(uuid)] == ["running"]
    site.rig.sweep("discoveries")
    (row,), (run,) = site.nodes(), site.rig.runs(uuid)
    assert (row["provision_state"], row["run_uuid"], row["reservation"]) == ("enroll", None, None)
    assert "No conductor has received it within an hour" in row["last_error"]
    assert (run["state"], run["error"]["code"]) == ("failed", "TimedOut")
    assert row["last_error"] == run["error"]["text"]
    site.rig.sweep("discoveries")
    assert site.nodes() == [row]
    assert site.rig.call("manage", uuid)["provision_state"] == "manageable"


@options(auto_discovery__driver="nothing")
def test_driver_that_no_conductor_has_is_not_named(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    answer = site.reports()
    assert answer.status == 503
    assert b"nothing" not in answer.body
    assert site.nodes() == []
    assert "An unknown machine is not enrolled: " in caplog.text


@options(inspector__add_ports="disabled")
def test_machine_has_a_port_to_be_known_by(site: Site) -> None:
    site.reports()
    (row,) = site.nodes()
    assert set(site.cards(row["uuid"])) == {mac(1), mac(1, 1)}
    assert site.reports().json == {"uuid": row["uuid"]}
