"""Sensors of a chassis: temperatures, fans and power supplies, in the old and the new form."""

from __future__ import annotations

from tests.emulators.bmc.inventory import group
from tests.emulators.bmc.shapes import OK, Json, Places, document, link


def documents(at: Places) -> dict[str, Json]:
    """Return the documents by path."""
    thermal, power = f"{at.chassis}/Thermal", f"{at.chassis}/Power"
    return {
        thermal: document(
            thermal,
            "Thermal.v1_7_1",
            "Thermal",
            Temperatures=[
                _temperature(thermal, 0, "CPU1 Temp", 41, "CPU"),
                _temperature(thermal, 1, "Chassis Intake Temp", 25, "Intake"),
            ],
            Fans=[_fan(thermal, number) for number in range(2)],
        ),
        power: document(
            power,
            "Power.v1_7_1",
            "Power",
            PowerControl=[
                {
                    "@odata.id": f"{power}#/PowerControl/0",
                    "MemberId": "0",
                    "Name": "Server Power Control",
                    "PowerConsumedWatts": 344,
                    "PowerCapacityWatts": 800,
                    "PowerMetrics": {"AverageConsumedWatts": 319, "MaxConsumedWatts": 489},
                    "Status": dict(OK),
                }
            ],
            PowerSupplies=[_supply(power, number) for number in range(2)],
        ),
        **group(
            at.chassis,
            "Sensors",
            "Sensor",
            [
                _sensor("CPU1Temp", "Temperature", 41, "Cel"),
                _sensor("Fan1", "Rotational", 2100, "RPM"),
                _sensor("TotalPower", "Power", 344, "W"),
            ],
        ),
    }


def links(at: Places) -> Json:
    """Return what the chassis says of them, and of what is built into it."""
    names = ("Thermal", "Power", "Sensors", "NetworkAdapters", "PCIeDevices")
    return {name: link(f"{at.chassis}/{name}") for name in names}


def _temperature(place: str, number: int, name: str, degrees: int, where: str) -> Json:
    return {
        "@odata.id": f"{place}#/Temperatures/{number}",
        "MemberId": str(number),
        "Name": name,
        "SensorNumber": 42 + number,
        "ReadingCelsius": degrees,
        "UpperThresholdNonCritical": 75,
        "UpperThresholdCritical": 90,
        "UpperThresholdFatal": 95,
        "MinReadingRangeTemp": 0,
        "MaxReadingRangeTemp": 200,
        "PhysicalContext": where,
        "Status": dict(OK),
    }


def _fan(place: str, number: int) -> Json:
    return {
        "@odata.id": f"{place}#/Fans/{number}",
        "MemberId": str(number),
        "Name": f"BaseBoard System Fan {number + 1}",
        "PhysicalContext": "Backplane",
        "Reading": 2100 + number,
        "ReadingUnits": "RPM",
        "LowerThresholdFatal": 0,
        "MinReadingRange": 0,
        "MaxReadingRange": 5000,
        "Status": dict(OK),
    }


def _supply(place: str, number: int) -> Json:
    return {
        "@odata.id": f"{place}#/PowerSupplies/{number}",
        "MemberId": str(number),
        "Name": f"Power Supply Bay {number + 1}",
        "PowerSupplyType": "AC",
        "LineInputVoltageType": "ACWideRange",
        "LineInputVoltage": 120,
        "PowerCapacityWatts": 800,
        "LastPowerOutputWatts": 325,
        "Model": "499253-B21",
        "Manufacturer": "Supplies Ltd",
        "FirmwareVersion": "1.00",
        "SerialNumber": f"1Z0000021{number}",
        "PartNumber": "0000001A3A",
        "Status": dict(OK),
    }


def _sensor(name: str, kind: str, reading: float, units: str) -> Json:
    return {
        "@version": "v1_5_0",
        "Id": name,
        "ReadingType": kind,
        "Reading": reading,
        "ReadingUnits": units,
        "Status": dict(OK),
    }
