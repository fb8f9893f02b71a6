"""Reports of machines: inventory, firmware, and the clean steps of the last agent."""

from __future__ import annotations

import collections
import datetime
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.api.controllers import inspection
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, reports
from ironic_lite.db.tables import models
from ironic_lite.records import StepsByInterface
from tests.support.database_rows import NOON, add_node, lock_node, new_uuid
from tests.support.in_process import InProcess
from tests.support.wsgi_client import Response

# The inventory of a node: one, the last one, and gone with it.

FOUND: dict[str, Any] = {"memory": {"physical_mb": 98304}, "disks": [], "hostname": "Öre 😀"}
LATER = NOON + datetime.timedelta(hours=1)


def put(
    database: Database, node: str, found: dict[str, Any], *, at: datetime.datetime = NOON
) -> None:
    database.write(lambda conn: reports.put_inventory(conn, node, found, {"macs": []}, at=at))


def get(database: Database, node: str) -> dict[str, Any]:
    return database.read(lambda conn: reports.get_inventory(conn, node))


def times(database: Database, node: str) -> tuple[Any, ...]:
    table = models.inventories
    query = sa.select(table.c.created_at, table.c.updated_at).where(table.c.node_uuid == node)
    return tuple(database.read(lambda conn: conn.execute(query).one()))


def test_the_last_inventory_of_each_node_is_kept(database: Database) -> None:
    node, other = add_node(database), add_node(database)
    put(database, node, {"memory": {}})
    put(database, other, {})
    assert times(database, node) == (NOON, None)
    put(database, node, FOUND, at=LATER)
    assert get(database, node) == {"inventory": FOUND, "plugin_data": {"macs": []}}
    assert get(database, other) == {"inventory": {}, "plugin_data": {"macs": []}}
    assert times(database, node) == (NOON, LATER)


def test_the_same_once_more_is_no_second_one(database: Database) -> None:
    node = add_node(database)
    put(database, node, FOUND)
    put(database, node, FOUND)
    assert get(database, node)["inventory"] == FOUND


def test_a_large_one_with_odd_texts_is_kept(database: Database) -> None:
    node = add_node(database)
    put(database, node, {"log": "é" * 1_000_000, "odd": "a\ud800b", "many": 10**30})
    found = get(database, node)["inventory"]
    assert len(found["log"]) == 1_000_000
    assert (found["odd"], found["many"]) == ("a\ufffdb", str(10**30))


def test_a_node_that_was_never_inspected_has_none(database: Database) -> None:
    node = add_node(database)
    with pytest.raises(errors.NotFound, match=f"inventory record for node {node} could not be"):
        get(database, node)


def test_inventory_is_deleted_with_its_node(database: Database) -> None:
    node, token = add_node(database), new_uuid()
    put(database, node, FOUND)
    assert lock_node(database, node, token)
    database.write(lambda conn: nodes.delete(conn, node, token=token))
    with pytest.raises(errors.NotFound):
        get(database, node)


# The firmware settings and versions of machines.

TURBO: dict[str, Any] = {
    "name": "Turbo",
    "value": "On",
    "attribute_type": "Enumeration",
    "allowable_values": ["On", "Öff"],
    "read_only": False,
    "reset_required": True,
    "unique": False,
}
CORES = {"name": "Cores", "value": "8", "lower_bound": -(2**63), "upper_bound": 2**63 - 1}
LABEL = {"name": "label", "value": "é" * 70_000, "min_length": 0, "max_length": 2**32}


def put_settings(
    database: Database, node: str, *settings: dict[str, Any], at: datetime.datetime = NOON
) -> None:
    database.write(lambda conn: reports.put_bios_settings(conn, node, settings, at=at))


def settings(database: Database, node: str) -> list[dict[str, Any]]:
    return database.read(lambda conn: reports.get_bios_settings(conn, node))


def put_versions(
    database: Database, node: str, *found: dict[str, Any], at: datetime.datetime = NOON
) -> None:
    database.write(lambda conn: reports.put_firmware(conn, node, found, at=at))


def versions(database: Database, node: str) -> dict[str, dict[str, Any]]:
    rows = database.read(lambda conn: reports.get_firmware(conn, node))
    return {row["component"]: row for row in rows}


def test_settings_are_kept_as_told_by_name(database: Database) -> None:
    node, other = add_node(database), add_node(database)
    put_settings(database, node, TURBO, LABEL, CORES)
    put_settings(database, other, {**TURBO, "value": "Öff"})
    blank = dict.fromkeys(reports.BIOS_FACTS)
    made = {"node_uuid": node, "created_at": NOON, "updated_at": None}
    assert settings(database, node) == [{**blank, **one, **made} for one in (CORES, TURBO, LABEL)]
    assert [row["value"] for row in settings(database, other)] == ["Öff"]


def test_changed_components_get_a_new_time_and_unreported_ones_are_removed(
    database: Database,
) -> None:
    node = add_node(database)
    put_settings(database, node, TURBO, LABEL, CORES)
    more = {"name": "More", "value": None}
    put_settings(database, node, TURBO, {**CORES, "value": "4"}, more, at=LATER)
    found = {row["name"]: row for row in settings(database, node)}
    times = {name: (row["created_at"], row["updated_at"]) for name, row in found.items()}
    assert times == {"Cores": (NOON, LATER), "More": (LATER, None), "Turbo": (NOON, None)}
    assert found["Cores"]["value"] == "4"
    put_settings(database, node)
    assert settings(database, node) == []


def test_names_differ_by_case_and_one_setting_is_found_by_its_name(database: Database) -> None:
    node = add_node(database)
    put_settings(database, node, TURBO, {"name": "TURBO", "value": "loud"})
    row = database.read(lambda conn: reports.get_bios_setting(conn, node, "TURBO"))
    assert (row["name"], row["value"]) == ("TURBO", "loud")
    with pytest.raises(errors.NotFound, match="doesn't have a BIOS setting 'turbo'"):
        database.read(lambda conn: reports.get_bios_setting(conn, node, "turbo"))
    with pytest.raises(errors.NotFound):
        database.read(lambda conn: reports.get_bios_setting(conn, add_node(database), "TURBO"))


def test_versions_first_now_and_flashed_last(database: Database) -> None:
    node = add_node(database)
    bmc = {"component": "bmc", "current_version": "1.0", "model": "Iron"}
    put_versions(database, node, bmc, {"component": "bios", "current_version": "A"})
    first = versions(database, node)
    assert (first["bmc"]["initial_version"], first["bmc"]["last_version_flashed"]) == ("1.0", None)
    assert (first["bmc"]["model"], first["bmc"]["vendor"]) == ("Iron", None)
    put_versions(database, node, {**bmc, "current_version": "1.1"}, at=LATER)
    second = versions(database, node)
    assert (
        second["bios"] == first["bios"]
    )  # not told of this time, as a card of a machine that is off
    assert second["bmc"] == {
        **first["bmc"],
        "current_version": "1.1",
        "last_version_flashed": "1.1",
        "updated_at": LATER,
    }
    # Another name of the maker is no flash, and the same once more is no change.
    put_versions(database, node, {**bmc, "current_version": "1.1", "vendor": "Acme"}, at=LATER)
    third = versions(database, node)["bmc"]
    assert (third["vendor"], third["last_version_flashed"]) == ("Acme", "1.1")
    again = LATER + datetime.timedelta(hours=1)
    put_versions(database, node, {**bmc, "current_version": "1.1", "vendor": "Acme"}, at=again)
    assert versions(database, node)["bmc"]["updated_at"] == LATER


def test_all_goes_with_the_node(database: Database) -> None:
    node, token = add_node(database), new_uuid()
    put_settings(database, node, TURBO)
    put_versions(database, node, {"component": "bios", "current_version": "A"})
    assert lock_node(database, node, token)
    database.write(lambda conn: nodes.delete(conn, node, token=token))
    assert (settings(database, node), versions(database, node)) == ([], {})


# The clean steps that the last agent of a node has listed.

STEPS: StepsByInterface = {
    "deploy": [{"interface": "deploy", "step": "brûler", "priority": 1.5}],
    "raid": [],
}


def test_steps_are_kept_replaced_and_gone_with_their_node(database: Database) -> None:
    node, other = add_node(database), add_node(database)
    assert database.read(lambda conn: reports.get_agent_steps(conn, node)) is None
    database.write(lambda conn: reports.put_agent_steps(conn, node, STEPS, at=NOON))
    database.write(lambda conn: reports.put_agent_steps(conn, other, {}, at=NOON))
    assert database.read(lambda conn: reports.get_agent_steps(conn, node)) == STEPS
    later = NOON + datetime.timedelta(hours=1)
    database.write(lambda conn: reports.put_agent_steps(conn, node, {"raid": []}, at=later))
    assert database.read(lambda conn: reports.get_agent_steps(conn, node)) == {"raid": []}
    # Nothing listed is something else than not known.
    assert database.read(lambda conn: reports.get_agent_steps(conn, other)) == {}
    table = models.agent_steps
    rows = database.read(lambda conn: conn.execute(sa.select(table.c.refreshed_at)).all())
    assert sorted(row[0] for row in rows) == [NOON, later]
    token = new_uuid()
    assert lock_node(database, node, token)
    database.write(lambda conn: nodes.delete(conn, node, token=token))
    assert database.read(lambda conn: reports.get_agent_steps(conn, node)) is None


# Reports of unknown machines, by API and conductor in one process: their limit, and their nodes.

MOST_PER_HOUR = 200


@pytest.fixture
def discovering(database: Database) -> Iterator[InProcess]:
    """A service that enrolls unknown machines."""
    options: dict[str, Any] = {"enabled": True, "driver": "fake-hardware"}
    service = InProcess(
        database,
        **{f"auto_discovery__{name}": value for name, value in options.items()},
        api__ramdisk_refusals_per_minute=0,
    )
    yield service
    service.close()


def report(service: InProcess, number: int) -> Response:
    """Send the report of a machine as its ramdisk does, without a version; wait for the work."""
    card = {"name": "eth0", "mac_address": f"52:54:00:00:{number // 256:02x}:{number % 256:02x}"}
    found = {"interfaces": [card], "boot": {"pxe_interface": card["mac_address"]}}
    answer = service.api.post("/v1/continue_inspection", {"inventory": found})
    assert service.rig.service.runtime.workers.wait_idle(60)
    return answer


def test_201_unknown_machines_in_an_hour_are_200_nodes_and_a_refusal(
    discovering: InProcess,
) -> None:
    with ThreadPoolExecutor(inspection.AT_ONCE) as pool:
        answers = list(pool.map(lambda n: report(discovering, n), range(MOST_PER_HOUR + 1)))
    assert collections.Counter(one.status for one in answers) == {200: MOST_PER_HOUR, 404: 1}
    rows = discovering.database.read(lambda conn: nodes.page(conn, columns=("uuid", "run_uuid")))
    assert {row["uuid"] for row in rows} == {one.json.get("uuid") for one in answers} - {None}
    assert {row["run_uuid"] for row in rows} == {None}


def test_machine_that_reports_twice_at_once_is_one_node(
    discovering: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)
    enroll = inspection.Discovery.enroll

    def together(self: Any, *given: Any) -> dict[str, Any]:
        both.wait(20)
        return enroll(self, *given)

    monkeypatch.setattr(inspection.Discovery, "enroll", together)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: report(discovering, 1), range(2)))
    (row,) = discovering.database.read(lambda conn: nodes.page(conn, columns=("uuid",)))
    assert [(one.status, one.json) for one in answers] == [(200, {"uuid": row["uuid"]})] * 2
    assert len(discovering.rig.runs(row["uuid"])) == 1
