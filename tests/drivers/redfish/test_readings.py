"""What sensors say, out of documents as four makers write them."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.drivers.redfish.sensors import values
from tests.support import sensor_documents as recorded

OK = {"state": "Enabled", "health": "OK"}


def picked(sensors: values.Sensors, *facts: str) -> dict[str, Any]:
    """Return one fact of each sensor, or several as a list."""
    return {
        name: sensor[facts[0]] if len(facts) == 1 else [sensor[fact] for fact in facts]
        for name, sensor in sensors.items()
    }


def test_a_thermal_document_of_dell() -> None:
    assert values.thermal(recorded.DELL_THERMAL, "System.Embedded.1") == {
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
    assert values.power(recorded.DELL_POWER, "1") == {
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
    found = values.thermal(recorded.HPE_THERMAL, "1")
    assert picked(found["Fan"], "reading", "reading_units") == {"0@1": [12, "Percent"]}
    states = picked(found["Temperature"], "reading_celsius", "state")
    assert states == {"0@1": [21, "Enabled"], "1@1": [0, "Absent"]}


def test_a_drive_of_hpe_with_a_health_is_there_and_an_empty_bay_is_none() -> None:
    assert values.drives(recorded.HPE_DRIVES, "DE00A000", "1") == {
        "HpeSmartStorageDiskDrive:DE00A000@1": {
            "name": "HpeSmartStorageDiskDrive",
            "model": "EG1200JEHMC",
            "capacity_bytes": 1200 * 1000**3,
            **OK,
        }
    }


def test_numbers_in_words_of_supermicro_are_numbers_and_other_words_none() -> None:
    found = values.thermal(recorded.SUPERMICRO_THERMAL, "1")
    fans = picked(found["Fan"], "name", "reading", "reading_units", "state")
    assert fans == {"0@1": ["FAN1", 3600, "RPM", None], "1@1": ["FAN2", None, None, "Absent"]}
    assert picked(found["Temperature"], "reading_celsius") == {"0@1": 30, "1@1": None}


def test_two_supplies_of_one_name_hide_none() -> None:
    found = values.power(recorded.SUPERMICRO_POWER, "1")["Power"]
    names = picked(found, "name")
    assert names == {"0:Power@1": "Power Supply 1", "0:Power@1#2": "Power Supply 2"}


def test_fans_of_openbmc_turn_as_often_as_they_tell_else_in_percent() -> None:
    found = values.fans(recorded.OPENBMC_FANS, "chassis")
    speeds = picked(found, "reading", "reading_units")
    assert speeds == {"fan0@chassis": [9200, "RPM"], "fan1@chassis": [50, "Percent"]}


def test_temperatures_of_openbmc_are_named_after_their_sensors() -> None:
    found = values.metrics(recorded.OPENBMC_METRICS, "chassis")
    assert picked(found, "name", "reading_celsius") == {
        "temperature_Inlet@chassis": ["Inlet", 23.5],
        "1@chassis": ["Outlet", None],
    }


def test_a_supply_of_openbmc_with_its_metrics() -> None:
    found = values.supplies([recorded.OPENBMC_SUPPLY], "PowerSubsystem@chassis")
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
    found = values.sensors(recorded.OPENBMC_SENSORS, "c")
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
    assert values.thermal(document, "1") == {"Fan": {}, "Temperature": {}}


def test_nonsense_in_a_sensor_costs_that_fact_only() -> None:
    fan = {
        "MemberId": [],
        "Name": {"a": 1},
        "Reading": True,
        "Status": "fine",
        "MaxReadingRange": 9,
    }
    (found,) = values.thermal({"Fans": [fan]}, "1")["Fan"].values()
    known = {name: value for name, value in found.items() if value is not None}
    assert known == {"identity": "0", "max_reading_range": 9}
