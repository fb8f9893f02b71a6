"""Redfish documents with sensors, in the forms of four makers; the machines are invented."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

OK = {"State": "Enabled", "Health": "OK"}
ABSENT = {"State": "Absent", "Health": None}

# -- Dell: long MemberIds, FanName of old, what is not there is null ------------------------------

DELL_THERMAL: Json = {
    "@odata.type": "#Thermal.v1_6_2.Thermal",
    "Id": "Thermal",
    "Fans": [
        {
            "MemberId": "0x17||Fan.Embedded.1A",
            "Name": "System Board Fan1A",
            "FanName": "System Board Fan1A",
            "PhysicalContext": "SystemBoard",
            "Reading": 8280,
            "ReadingUnits": "RPM",
            "MinReadingRange": 720,
            "MaxReadingRange": 197,
            "Status": OK,
        }
    ],
    "Temperatures": [
        {
            "MemberId": "iDRAC.Embedded.1#CPU1Temp",
            "Name": "CPU1 Temp",
            "SensorNumber": 1,
            "PhysicalContext": "CPU",
            "ReadingCelsius": 38,
            "MinReadingRangeTemp": None,
            "MaxReadingRangeTemp": None,
            "Status": OK,
        }
    ],
}
DELL_POWER: Json = {
    "@odata.type": "#Power.v1_6_1.Power",
    "Id": "Power",
    "PowerSupplies": [
        {
            "MemberId": "PSU.Slot.1",
            "Name": "PS1 Status",
            "LineInputVoltage": 230,
            "PowerCapacityWatts": 750,
            "PowerOutputWatts": 132.0,
            "LastPowerOutputWatts": None,
            "SerialNumber": "CNDED0094101RE",
            "Status": OK,
        }
    ],
}

# -- HPE: fans in percent, no State of a drive, empty sockets are listed --------------------------

HPE_THERMAL: Json = {
    "@odata.type": "#Thermal.v1_1_0.Thermal",
    "Id": "Thermal",
    "Fans": [
        {"MemberId": "0", "Name": "Fan 1", "Reading": 12, "ReadingUnits": "Percent", "Status": OK}
    ],
    "Temperatures": [
        {
            "MemberId": "0",
            "Name": "01-Inlet Ambient",
            "SensorNumber": 1,
            "PhysicalContext": "Intake",
            "ReadingCelsius": 21,
            "Status": OK,
        },
        {
            "MemberId": "1",
            "Name": "05-P2 DIMM 1-6",
            "SensorNumber": 5,
            "ReadingCelsius": 0,
            "Status": {"State": "Absent"},
        },
    ],
}
HPE_DRIVES: list[Json] = [
    {
        "Id": "1",
        "Name": "HpeSmartStorageDiskDrive",
        "Model": "EG1200JEHMC",
        "CapacityBytes": 1200 * 1000**3,
        "Status": {"Health": "OK"},
    },
    {"Id": "2", "Name": "Empty Bay", "CapacityBytes": None, "Status": ABSENT},
]

# -- Supermicro: numbers as words, several supplies with one MemberId, no Name --------------------

SUPERMICRO_THERMAL: Json = {
    "@odata.type": "#Thermal.v1_4_0.Thermal",
    "Id": "Thermal",
    "Fans": [
        {"MemberId": "0", "FanName": "FAN1", "Reading": "3600", "ReadingUnits": "RPM"},
        {
            "MemberId": "1",
            "FanName": "FAN2",
            "Reading": "N/A",
            "ReadingUnits": "",
            "Status": ABSENT,
        },
    ],
    "Temperatures": [
        {"Name": "System Temp", "SensorNumber": 11, "ReadingCelsius": 30, "Status": OK},
        {"Name": "Peripheral Temp", "SensorNumber": 12, "ReadingCelsius": "", "Status": OK},
    ],
}
SUPERMICRO_POWER: Json = {
    "@odata.type": "#Power.v1_5_2.Power",
    "Id": "Power",
    "PowerSupplies": [
        {"MemberId": "0", "Name": "Power Supply 1", "LastPowerOutputWatts": 98, "Status": OK},
        {"MemberId": "0", "Name": "Power Supply 2", "LastPowerOutputWatts": 101, "Status": OK},
    ],
}

# -- OpenBMC: a document for each fan and supply; metrics apart ------------------------------------

OPENBMC_FANS: list[Json] = [
    {
        "Id": "fan0",
        "Name": "fan0",
        "PhysicalContext": "Chassis",
        "SpeedPercent": {
            "DataSourceUri": "/redfish/v1/Chassis/chassis/Sensors/fantach_fan0",
            "SpeedRPM": 9200,
            "Reading": 48,
        },
        "Status": OK,
    },
    {"Id": "fan1", "Name": "fan1", "SpeedPercent": {"Reading": 50}, "Status": OK},
]
OPENBMC_METRICS: Json = {
    "@odata.type": "#ThermalMetrics.v1_0_1.ThermalMetrics",
    "Id": "ThermalMetrics",
    "TemperatureReadingsCelsius": [
        {
            "DataSourceUri": "/redfish/v1/Chassis/chassis/Sensors/temperature_Inlet",
            "DeviceName": "Inlet",
            "Reading": 23.5,
        },
        {"DeviceName": "Outlet", "Reading": "NaN"},
    ],
}
OPENBMC_SUPPLY: Json = {
    "Id": "psu0",
    "Name": "psu0",
    "PowerCapacityWatts": 1600,
    "SerialNumber": "PS7431",
    "Status": OK,
    "InputVoltage": {"Reading": 208.5},
    "OutputPowerWatts": {"Reading": 310},
}
OPENBMC_SENSORS: list[Json] = [
    {"Id": "inlet", "Name": "Inlet", "ReadingType": "Temperature", "Reading": 22, "Status": OK},
    {"Id": "tach0", "Name": "Fan 0", "ReadingType": "Rotational", "Reading": 9100, "Status": OK}
    | {"ReadingUnits": "RPM", "ReadingRangeMax": 20000, "ReadingRangeMin": 0},
    {"Id": "pwm0", "ReadingType": "Percent", "PhysicalContext": "Fan", "Reading": 40}
    | {"ReadingUnits": "%"},
    {"Id": "cpu", "ReadingType": "Percent", "PhysicalContext": "CPU", "Reading": 3},
    {"Id": "psu0_out", "ReadingType": "Power", "PhysicalContext": "PowerSupply", "Reading": 300},
    {"Id": "total", "ReadingType": "Power", "PhysicalContext": "Chassis", "Reading": 600},
    {"Id": "vcore", "ReadingType": "Voltage", "Reading": 1.1},
    {"Id": "odd", "ReadingType": ["Power"], "Reading": {}},
]
