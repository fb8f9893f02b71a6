"""What sensors say, out of documents as four makers write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers.redfish import management
from ironic_lite.drivers.redfish import sensors as redfish_sensors
from tests.emulators import bmc
from tests.emulators.bmc import shapes
from tests.support import bmc_tasks
from tests.support import sensor_documents as recorded

OK = {"state": "Enabled", "health": "OK"}


def picked(sensors: redfish_sensors.Sensors, *facts: str) -> dict[str, Any]:
    """Return one fact of each sensor, or several as a list."""
    return {
        name: sensor[facts[0]] if len(facts) == 1 else [sensor[fact] for fact in facts]
        for name, sensor in sensors.items()
    }


def test_a_thermal_document_of_dell() -> None:
    assert redfish_sensors.parse_thermal(recorded.DELL_THERMAL, "System.Embedded.1") == {
        "Fan": {
            "0x17||Fan.Embedded.1A@System.Embedded.1": {
                "identity": "0x17||Fan.Embedded.1A",
                "name": "System Board Fan1A",
                "max_reading_range": 197,
                "min_reading_range": 720,
                "reading": 8280,
                "reading_units": "RPM",
                "serial_number": None,
                "physical_context": "SystemBoard",
                **OK,
            }
        },
        "Temperature": {
            "iDRAC.Embedded.1#CPU1Temp@System.Embedded.1": {
                "identity": "iDRAC.Embedded.1#CPU1Temp",
                "name": "CPU1 Temp",
                "max_reading_range_temp": None,
                "min_reading_range_temp": None,
                "reading_celsius": 38,
                "physical_context": "CPU",
                "sensor_number": 1,
                **OK,
            }
        },
    }


def test_a_power_document_of_dell_tells_the_output_under_another_name() -> None:
    assert redfish_sensors.parse_power(recorded.DELL_POWER, "1") == {
        "Power": {
            "PSU.Slot.1:Power@1": {
                "name": "PS1 Status",
                "power_capacity_watts": 750,
                "line_input_voltage": 230,
                "last_power_output_watts": 132.0,
                "serial_number": "CNDED0094101RE",
                **OK,
            }
        }
    }


def test_fans_in_percent_and_sockets_without_a_sensor_of_hpe() -> None:
    found = redfish_sensors.parse_thermal(recorded.HPE_THERMAL, "1")
    assert picked(found["Fan"], "reading", "reading_units") == {"0@1": [12, "Percent"]}
    states = picked(found["Temperature"], "reading_celsius", "state")
    assert states == {"0@1": [21, "Enabled"], "1@1": [0, "Absent"]}


def test_a_drive_of_hpe_with_a_health_is_there_and_an_empty_bay_is_none() -> None:
    assert redfish_sensors.parse_drives(recorded.HPE_DRIVES, "DE00A000", "1") == {
        "HpeSmartStorageDiskDrive:DE00A000@1": {
            "name": "HpeSmartStorageDiskDrive",
            "model": "EG1200JEHMC",
            "capacity_bytes": 1200 * 1000**3,
            **OK,
        }
    }


def test_numbers_in_words_of_supermicro_are_numbers_and_other_words_none() -> None:
    found = redfish_sensors.parse_thermal(recorded.SUPERMICRO_THERMAL, "1")
    fans = picked(found["Fan"], "name", "reading", "reading_units", "state")
    assert fans == {"0@1": ["FAN1", 3600, "RPM", None], "1@1": ["FAN2", None, None, "Absent"]}
    assert picked(found["Temperature"], "reading_celsius") == {"0@1": 30, "1@1": None}


def test_two_supplies_of_one_name_hide_none() -> None:
    found = redfish_sensors.parse_power(recorded.SUPERMICRO_POWER, "1")["Power"]
    names = picked(found, "name")
    assert names == {"0:Power@1": "Power Supply 1", "0:Power@1#2": "Power Supply 2"}


def test_fans_of_openbmc_turn_as_often_as_they_tell_else_in_percent() -> None:
    found = redfish_sensors.parse_fans(recorded.OPENBMC_FANS, "chassis")
    speeds = picked(found, "reading", "reading_units")
    assert speeds == {"fan0@chassis": [9200, "RPM"], "fan1@chassis": [50, "Percent"]}


def test_temperatures_of_openbmc_are_named_after_their_sensors() -> None:
    found = redfish_sensors.parse_metrics(recorded.OPENBMC_METRICS, "chassis")
    assert picked(found, "name", "reading_celsius") == {
        "temperature_Inlet@chassis": ["Inlet", 23.5],
        "1@chassis": ["Outlet", None],
    }


def test_a_supply_of_openbmc_with_its_metrics() -> None:
    found = redfish_sensors.parse_supplies([recorded.OPENBMC_SUPPLY], "PowerSubsystem@chassis")
    assert found == {
        "psu0:PowerSubsystem@chassis": {
            "name": "psu0",
            "power_capacity_watts": 1600,
            "line_input_voltage": 208.5,
            "last_power_output_watts": 310,
            "serial_number": "PS7431",
            **OK,
        }
    }


def test_sensors_of_all_kinds_are_sorted_and_the_rest_is_left_out() -> None:
    found = redfish_sensors.parse_sensors(recorded.OPENBMC_SENSORS, "c")
    assert picked(found["Temperature"], "reading_celsius") == {"inlet@c": 22}
    assert picked(found["Fan"], "reading", "reading_units", "max_reading_range") == {
        "tach0@c": [9100, "RPM", 20000],
        "pwm0@c": [40, "Percent", None],
    }
    assert picked(found["Power"], "last_power_output_watts") == {"psu0_out:Sensors@c": 300}


@pytest.mark.parametrize(
    "document",
    [{}, {"Fans": None}, {"Fans": {}}, {"Fans": "none"}, {"Fans": [None, 1, []]}],
    ids=str,
)
def test_document_without_a_list_of_sensors_has_none(document: dict[str, Any]) -> None:
    assert redfish_sensors.parse_thermal(document, "1") == {"Fan": {}, "Temperature": {}}


def test_nonsense_in_a_sensor_costs_that_fact_only() -> None:
    fan = {
        "MemberId": [],
        "Name": {"a": 1},
        "Reading": True,
        "Status": "fine",
        "MaxReadingRange": 9,
    }
    (found,) = redfish_sensors.parse_thermal({"Fans": [fan]}, "1")["Fan"].values()
    known = {name: value for name, value in found.items() if value is not None}
    assert known == {"identity": "0", "max_reading_range": 9}


# Reading sensors of a machine, whatever documents its BMC has them in.

MANAGEMENT = management.RedfishManagement()


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    """A machine with two drives and no other sensors."""
    with bmc.serve(drives=2) as running:
        for name in ("Thermal", "Power", "ThermalSubsystem", "PowerSubsystem", "Sensors"):
            running.tree[running.places.chassis].pop(name, None)
        running.tree[running.system].pop("SimpleStorage", None)
        yield running


@pytest.fixture
def task(machine: bmc.Machine) -> bmc_tasks.BmcTask:
    return bmc_tasks.task_of(machine)


def put(machine: bmc.Machine, name: str, document: recorded.Json) -> str:
    """Give a chassis a document; return its path."""
    path = f"{machine.places.chassis}/{name}"
    machine.tree[path] = {**document, "@odata.id": path}
    machine.tree[machine.places.chassis][name] = shapes.link(path)
    return path


def put_all(machine: bmc.Machine, path: str, documents: list[recorded.Json]) -> None:
    """Make a collection of documents."""
    places = [f"{path}/{document['Id']}" for document in documents]
    machine.tree[path] = shapes.collection(path, "Thing", places)
    machine.tree.update(zip(places, documents, strict=True))


def old(machine: bmc.Machine) -> None:
    put(machine, "Thermal", recorded.DELL_THERMAL)
    put(machine, "Power", recorded.DELL_POWER)


def test_the_emulator_tells_fans_and_temperatures_of_its_chassis(
    emulated: bmc_tasks.BmcTask,
) -> None:
    found = MANAGEMENT.get_sensors_data(emulated)
    assert {fan["reading"] for fan in found["Fan"].values()} == {2100, 2050}
    assert {heat["reading_celsius"] for heat in found["Temperature"].values()} == {25, 41}


def test_thermal_and_power_are_two_requests(machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    old(machine)
    found = MANAGEMENT.get_sensors_data(task)
    assert {kind: len(sensors) for kind, sensors in found.items()} == {
        "Fan": 1,
        "Temperature": 1,
        "Power": 1,
        "Drive": 2,
    }
    asked = [title for title in machine.log if "/Chassis/" in title]
    chassis = machine.places.chassis
    assert asked == [f"GET {chassis}", f"GET {chassis}/Thermal", f"GET {chassis}/Power"]


def test_the_documents_that_came_after_them_are_read_too(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    cooling = put(machine, "ThermalSubsystem", {"Id": "ThermalSubsystem"})
    put_all(machine, f"{cooling}/Fans", recorded.OPENBMC_FANS)
    machine.tree[f"{cooling}/ThermalMetrics"] = recorded.OPENBMC_METRICS
    machine.tree[cooling] |= {
        "Fans": shapes.link(f"{cooling}/Fans"),
        "ThermalMetrics": shapes.link(f"{cooling}/ThermalMetrics"),
    }
    supplies = put(machine, "PowerSubsystem", {"Id": "PowerSubsystem"})
    supply = {key: recorded.OPENBMC_SUPPLY[key] for key in ("Id", "Name", "PowerCapacityWatts")}
    metrics = f"{supplies}/PowerSupplies/psu0/Metrics"
    put_all(machine, f"{supplies}/PowerSupplies", [{**supply, "Metrics": shapes.link(metrics)}])
    machine.tree[metrics] = {"Id": "Metrics", "OutputPowerWatts": {"Reading": 310}}
    machine.tree[supplies]["PowerSupplies"] = shapes.link(f"{supplies}/PowerSupplies")

    found = MANAGEMENT.get_sensors_data(task)
    assert set(found["Fan"]) == {"fan0@1", "fan1@1"}
    assert set(found["Temperature"]) == {"temperature_Inlet@1", "1@1"}
    power = found["Power"]["psu0:PowerSubsystem@1"]
    assert (power["power_capacity_watts"], power["last_power_output_watts"]) == (1600, 310)


def test_bare_sensors_do_where_there_is_nothing_else(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    path = put(machine, "Sensors", {"Members": []})
    put_all(machine, path, recorded.OPENBMC_SENSORS)
    found = MANAGEMENT.get_sensors_data(task)
    assert set(found["Fan"]) == {"tach0@1", "pwm0@1"}


def test_pages_of_a_collection_are_read_to_the_end_and_not_for_ever(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    path = put(machine, "Sensors", {"Members": []})
    put_all(machine, path, recorded.OPENBMC_SENSORS[:2])
    put_all(machine, f"{path}/more", recorded.OPENBMC_SENSORS[2:3])
    machine.tree[path]["Members@odata.nextLink"] = f"{path}/more"
    assert set(MANAGEMENT.get_sensors_data(task)["Fan"]) == {"tach0@1", "pwm0@1"}
    machine.tree[f"{path}/more"]["Members@odata.nextLink"] = f"{path}/more"
    machine.tree[f"{path}/more"]["Members"] = []
    assert set(MANAGEMENT.get_sensors_data(task)["Fan"]) == {"tach0@1"}


EXPANDED = "?$expand=.($levels=1)"


@pytest.fixture
def expanding(machine: bmc.Machine) -> str:
    """Sensors of a BMC that gives collections whole, and their path."""
    machine.tree["/redfish/v1"]["ProtocolFeaturesSupported"] = {"ExpandQuery": {"NoLinks": True}}
    path = put(machine, "Sensors", {"Members": []})
    put_all(machine, path, recorded.OPENBMC_SENSORS)
    whole = {**machine.tree[path], "Members": recorded.OPENBMC_SENSORS}
    machine.tricks[f"GET {path}{EXPANDED}"] = bmc.says(200, whole)
    return path


def test_a_bmc_that_gives_collections_whole_is_asked_once(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, expanding: str
) -> None:
    assert set(MANAGEMENT.get_sensors_data(task)["Fan"]) == {"tach0@1", "pwm0@1"}
    asked = [title for title in machine.log if "/Sensors" in title]
    assert asked == [f"GET {expanding}{EXPANDED}"]


@pytest.mark.parametrize("status", [400, 404, 500, 501])
def test_a_bmc_that_only_claims_to_is_asked_for_each(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, expanding: str, status: int
) -> None:
    machine.tricks[f"GET {expanding}{EXPANDED}"] = bmc.says(status)
    assert set(MANAGEMENT.get_sensors_data(task)["Fan"]) == {"tach0@1", "pwm0@1"}


def test_drives_of_simple_storage_come_without_a_request_each(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    path = f"{machine.system}/SimpleStorage"
    devices = [
        {"Name": "Disk 0", "CapacityBytes": 8, "Status": {"Health": "OK"}},
        {"Name": "Backplane", "CapacityBytes": None},
    ]
    put_all(machine, path, [{"Id": "RAID1", "Devices": devices}])
    machine.tree[machine.system]["SimpleStorage"] = shapes.link(path)
    assert set(MANAGEMENT.get_sensors_data(task)["Drive"]) == {"Disk 0:RAID1@1"}
    assert not [title for title in machine.log if "/Drives/" in title]


def test_one_broken_document_costs_its_own_sensors_only(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    old(machine)
    machine.tricks[f"GET {machine.places.chassis}/Thermal"] = bmc.says(500)
    found = MANAGEMENT.get_sensors_data(task)
    assert (found["Fan"], len(found["Power"]), len(found["Drive"])) == ({}, 1, 2)
    assert "cannot read one of the sensors: The BMC at" in caplog.text


def test_error_has_the_first_reason_if_all_documents_are_broken(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    old(machine)
    machine.tricks[f"GET {machine.places.chassis}/*"] = bmc.says(
        500, {"error": {"message": "Hot."}}
    )
    machine.tricks[f"GET {machine.system}/Storage*"] = bmc.says(500)
    with pytest.raises(errors.BmcBadAnswer, match=r"has an internal error: HTTP 500 \(Hot\)"):
        MANAGEMENT.get_sensors_data(task)


def test_a_bmc_that_falls_silent_is_not_asked_for_the_rest(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    def fall_silent(handler: bmc.Handler) -> None:
        machine.tricks["*"] = bmc.silent
        bmc.silent(handler)

    old(machine)
    bmc_tasks.wait_for_answers(1)
    machine.tricks[f"GET {machine.places.chassis}/Thermal"] = fall_silent
    with pytest.raises(errors.BmcUnreachable, match="no complete answer"):
        MANAGEMENT.get_sensors_data(task)
    assert f"GET {machine.places.chassis}/Power" not in machine.log


def test_a_session_that_ends_between_two_documents_is_renewed_unseen() -> None:
    with bmc.serve(users={"root": "secret"}) as machine:

        def forget(handler: bmc.Handler) -> None:
            for token in list(machine.sessions):
                machine.end_session(token)
            handler.truth()

        machine.tricks[f"GET {machine.places.chassis}"] = bmc.says_first(1, forget)
        found = MANAGEMENT.get_sensors_data(bmc_tasks.task_of(machine))
        assert len(found["Drive"]) > 0
        assert machine.logins == 2


def test_a_machine_that_shows_no_part_has_no_sensors(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    system = machine.tree[machine.system]
    del system["Storage"], system["Links"]["Chassis"]
    with pytest.raises(errors.UnsupportedDriverExtension, match="shows no chassis and no storage"):
        MANAGEMENT.get_sensors_data(task)


@pytest.mark.parametrize("status", [500, 503])
def test_drive_that_cannot_be_read_loses_only_its_own_sensors(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, status: int
) -> None:
    machine.tree[machine.system].pop("SimpleStorage", None)
    before = MANAGEMENT.get_sensors_data(task)["Drive"]
    drive = machine.tree[machine.places.storage]["Drives"][0]["@odata.id"]
    machine.tricks[f"GET {drive}"] = bmc.says(status)
    assert len(MANAGEMENT.get_sensors_data(task)["Drive"]) == len(before) - 1 > 0
    machine.tricks[f"GET {machine.places.chassis}"] = bmc.says(status)
    assert len(MANAGEMENT.get_sensors_data(task)["Drive"]) == len(before) - 1
    lamps = MANAGEMENT.get_supported_indicators(task, "disk")["disk"]
    assert len(lamps) == len(before) - 1
