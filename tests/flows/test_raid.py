"""Volumes of a Redfish machine in the hands of a real conductor, which dies at any moment."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.core import config
from ironic_lite.drivers.redfish.bmc import connection, jobs
from ironic_lite.drivers.registry import Registry, Settings
from tests.emulators import bmc
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, configure
from tests.support.crashes import Stage, rests

Json = dict[str, Any]

ROOT = {"raid_level": "1", "size_gb": 100, "is_root_volume": True}
DATA = {"raid_level": "0", "size_gb": "MAX", "number_of_physical_disks": 2}
WANTED = {"logical_disks": [ROOT, DATA]}
BUILT = [("RAID0", ["4", "5"]), ("RAID1", ["0", "1"])]
OLD = {"RAIDType": "RAID5", "CapacityBytes": 10**9}
STEP = {"interface": "raid", "step": "create_configuration", "args": {"delete_existing": True}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No pause between looks at a task."""
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())
    options = {"raid_config_status_interval": 0, "connection_retry_interval": 0, "read_timeout": 5}
    for name, value in options.items():
        config.CONF.set_override(name, value, group="redfish")
    yield
    for name in options:
        config.CONF.clear_override(name, group="redfish")


@pytest.fixture
def registry() -> Registry:
    real = {f"DEFAULT__enabled_{kind}_interfaces": ["redfish"] for kind in ("power", "raid")}
    none = {f"DEFAULT__enabled_{kind}_interfaces": [f"no-{kind}"] for kind in ("bios", "firmware")}
    conf = configure(
        DEFAULT__enabled_hardware_types=["redfish"],
        DEFAULT__default_boot_interface="fake",
        DEFAULT__default_deploy_interface="fake",
        DEFAULT__enabled_management_interfaces=["noop"],
        DEFAULT__enabled_inspect_interfaces=["no-inspect"],
        DEFAULT__enabled_vendor_interfaces=["no-vendor"],
        **real,
        **none,
    )
    return Registry.load(Settings.read(conf))


@contextlib.contextmanager
def machine_with_a_volume(*times: str) -> Iterator[bmc.Machine]:
    """Give a machine that is on, has a volume, and changes volumes at these times."""
    with bmc.serve() as machine:
        machine.tree[machine.system]["PowerState"] = "On"
        machine["Volumes"]["@Redfish.OperationApplyTimeSupport"]["SupportedValues"] = list(times)
        drives = [{"@odata.id": f"{machine.places.storage}/Drives/{n}"} for n in (1, 2, 3)]
        path = f"{machine.places.volumes}/9"
        machine.add(path, {"@odata.id": path, "Id": "9", **OLD, "Links": {"Drives": drives}})
        for drive in drives:
            machine.tree[drive["@odata.id"]]["Links"]["Volumes"].append({"@odata.id": path})
        yield machine


def node_at(rig: ConductorFixture, machine: bmc.Machine, **columns: Any) -> str:
    return rig.node(
        driver="redfish",
        driver_info=machine.driver_info,
        target_raid_config=WANTED,
        power_state="power on",
        **columns,
    )


def there(machine: bmc.Machine) -> list[tuple[str, list[str]]]:
    return sorted(
        (
            document["RAIDType"],
            [link["@odata.id"].rpartition("/")[2] for link in document["Links"]["Drives"]],
        )
        for path, document in machine.tree.items()
        if "/Volumes/" in path
    )


def ask(rig: ConductorFixture, node: str) -> None:
    rig.ask("clean", node, clean_steps=[STEP])


def check(row: Json, machine: bmc.Machine, restarts: int) -> None:
    """Check that everything was done, and nothing twice."""
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert there(machine) == BUILT
    changes = [title.rpartition("/")[2] for title in machine.changes()]
    assert changes.count("Volumes") == 2
    assert changes.count("9") == 1
    assert machine.sent == ["ForceOff", "On"] * restarts
    disks = row["raid_config"]["logical_disks"]
    assert [disk["physical_disks"] for disk in disks] == [["0", "1"], ["4", "5"]]
    assert row["properties"]["local_gb"] == 100
    assert "redfish_raid" not in row["driver_internal_info"].get("driver_notes", {})


WAYS = {"Immediate": 0, "OnReset": 2}


@pytest.mark.parametrize("when", WAYS)
def test_a_clean_builds_the_volumes(
    build: Callable[..., ConductorFixture], registry: Registry, when: str
) -> None:
    rig = build(registry=registry)
    with machine_with_a_volume(when) as machine:
        node = node_at(rig, machine)
        ask(rig, node)
        check(rests(rig, node), machine, WAYS[when])
    assert rig.step_states(node) == ["done"]
    assert rig.started(node) == ["raid.create_configuration"]


@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("when", WAYS)
def test_a_conductor_that_dies_in_mid_task_does_nothing_twice(
    stages: Callable[..., Stage],
    registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    what: str,
) -> None:
    carried = 0
    stage = stages(lambda life: crashes.drivers(registry, life))
    for moment in stage.moments(what):
        with machine_with_a_volume(when) as machine:
            node = moment.die(functools.partial(node_at, machine=machine), ask)
            if moment.died:
                monkeypatch.setattr(jobs, "CLAIMS", jobs.Claims())
            rig = moment.heir()
            row = rests(rig, node)
            if rig.started(node):  # else it died before the verb was accepted
                check(row, machine, WAYS[when])
                carried += moment.died
    assert carried > 5


def test_a_failed_task_fails_the_clean_with_the_words_of_the_bmc(
    build: Callable[..., ConductorFixture], registry: Registry
) -> None:
    rig = build(registry=registry)
    with machine_with_a_volume("Immediate") as machine:
        machine.habits.task_fails = "The controller battery is empty."
        node = node_at(rig, machine)
        ask(rig, node)
        row = rests(rig, node)
    assert row["provision_state"] == "clean failed"
    assert row["last_error"].startswith(
        "Clean step raid.create_configuration failed: the BMC could not delete volume 9 of "
        "controller RAID1: its task /redfish/v1/TaskService/Tasks/1 ended as Exception: "
        "The controller battery is empty"
    )
    assert row["raid_config"] is None


def test_a_machine_with_too_few_disks_fails_the_clean_before_anything_is_sent(
    build: Callable[..., ConductorFixture], registry: Registry
) -> None:
    rig = build(registry=registry)
    with machine_with_a_volume("Immediate") as machine:
        node = node_at(rig, machine)
        rig.edit(node, target_raid_config={"logical_disks": [{**ROOT, "raid_level": "6+0"}]})
        ask(rig, node)
        row = rests(rig, node)
        assert machine.changes() == []
    assert row["last_error"] == (
        "Clean step raid.create_configuration failed: target_raid_config/logical_disks/0: "
        "RAID 6+0 needs 8 free disks of one kind, there are 6"
    )
