"""The documents of a machine and its BMC, as the schemas of DMTF and its public mock-ups have them.

Each function gives the documents of one part by path. Values are of an invented machine; names of
properties, types and links are those of DSP8010 (the schemas) and DSP2043 (the mock-ups).
"""

from __future__ import annotations

import dataclasses
from typing import Any

Json = dict[str, Any]

ROOT = "/redfish/v1"
GB = 1000**3


@dataclasses.dataclass(frozen=True, slots=True)
class Make:
    """Names that a manufacturer gives to its resources; they end up in paths."""

    manufacturer: str
    model: str
    system: str = "1"
    manager: str = "1"
    chassis: str = "1"
    storage: str = "RAID1"


MAKES = {
    "contoso": Make("Contoso", "3500RX"),
    "dell": Make(
        "Dell Inc.",
        "PowerEdge R640",
        system="System.Embedded.1",
        manager="iDRAC.Embedded.1",
        chassis="System.Embedded.1",
        storage="RAID.Integrated.1-1",
    ),
    "hpe": Make("HPE", "ProLiant DL360 Gen10", storage="DE00A000"),
    "supermicro": Make("Supermicro", "SYS-1029P", storage="HA-RAID"),
    "lenovo": Make("Lenovo", "ThinkSystem SR650", storage="RAID_Slot3"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """The paths of the parts of one machine."""

    make: Make

    @property
    def system(self) -> str:
        return f"{ROOT}/Systems/{self.make.system}"

    @property
    def manager(self) -> str:
        return f"{ROOT}/Managers/{self.make.manager}"

    @property
    def chassis(self) -> str:
        return f"{ROOT}/Chassis/{self.make.chassis}"

    @property
    def storage(self) -> str:
        return f"{self.system}/Storage/{self.make.storage}"

    @property
    def volumes(self) -> str:
        return f"{self.storage}/Volumes"

    @property
    def bios(self) -> str:
        return f"{self.system}/Bios"

    @property
    def sessions(self) -> str:
        return f"{ROOT}/SessionService/Sessions"

    @property
    def firmware(self) -> str:
        return f"{ROOT}/UpdateService/FirmwareInventory"

    @property
    def tasks(self) -> str:
        return f"{ROOT}/TaskService/Tasks"

    @property
    def media(self) -> str:
        return f"{self.manager}/VirtualMedia"


def tree(places: Places, *, drives: int) -> dict[str, Json]:
    """Return the documents of a machine's core by path, none with a slash at its end."""
    parts = (
        _root(places),
        _system(places),
        _firmware_settings(places),
        _storage(places, drives),
        _manager(places),
        _services(places),
    )
    found: dict[str, Json] = {}
    for part in parts:
        found.update(part)
    return found


def document(path: str, kind: str, name: str, **rest: Any) -> Json:
    """Return a resource: ``kind`` is type and version as in ``Bios.v1_2_0``."""
    bare = kind.partition(".")[0]
    return {
        "@odata.id": path,
        "@odata.type": f"#{kind}.{bare}",
        "Id": path.rpartition("/")[2],
        "Name": name,
        **rest,
    }


def collection(path: str, kind: str, members: list[str], **rest: Any) -> Json:
    """Return a collection of resources of ``kind``."""
    return {
        "@odata.id": path,
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "Name": f"{kind} Collection",
        "Members": [link(member) for member in members],
        **rest,
    }


def link(path: str) -> Json:
    """Return a reference to another document."""
    return {"@odata.id": path}


OK: Json = {"State": "Enabled", "Health": "OK"}


# -- the root and the system ----------------------------------------------------------------------


def _root(at: Places) -> dict[str, Json]:
    return {
        ROOT: document(
            ROOT,
            "ServiceRoot.v1_9_0",
            "Root Service",
            Id="RootService",
            RedfishVersion="1.13.0",
            UUID="92384634-2938-2342-8820-489239905423",
            Systems=link(f"{ROOT}/Systems"),
            Chassis=link(f"{ROOT}/Chassis"),
            Managers=link(f"{ROOT}/Managers"),
            Tasks=link(f"{ROOT}/TaskService"),
            SessionService=link(f"{ROOT}/SessionService"),
            UpdateService=link(f"{ROOT}/UpdateService"),
            Registries=link(f"{ROOT}/Registries"),
            Links={"Sessions": link(at.sessions)},
        ),
        f"{ROOT}/Systems": collection(f"{ROOT}/Systems", "ComputerSystem", [at.system]),
        f"{ROOT}/Chassis": collection(f"{ROOT}/Chassis", "Chassis", [at.chassis]),
        f"{ROOT}/Managers": collection(f"{ROOT}/Managers", "Manager", [at.manager]),
    }


RESETS = (
    "On",
    "ForceOff",
    "GracefulShutdown",
    "GracefulRestart",
    "ForceRestart",
    "Nmi",
    "ForceOn",
    "PowerCycle",
)


def _system(at: Places) -> dict[str, Json]:
    return {
        at.system: document(
            at.system,
            "ComputerSystem.v1_16_0",
            "Machine",
            SystemType="Physical",
            Manufacturer=at.make.manufacturer,
            Model=at.make.model,
            SKU="8675309",
            SerialNumber="2M220100SL",
            PartNumber="224071-J23",
            UUID="38947555-7742-3448-3784-823347823834",
            AssetTag="",
            HostName="",
            IndicatorLED="Off",
            PowerState="Off",
            BiosVersion="P79 v1.45",
            Status=dict(OK),
            BootProgress={"LastState": "None"},
            Boot={
                "BootSourceOverrideEnabled": "Disabled",
                "BootSourceOverrideTarget": "None",
                "BootSourceOverrideMode": "UEFI",
                "BootSourceOverrideTarget@Redfish.AllowableValues": [
                    "None",
                    "Pxe",
                    "Cd",
                    "Usb",
                    "Hdd",
                    "BiosSetup",
                    "UefiHttp",
                ],
                "BootSourceOverrideMode@Redfish.AllowableValues": ["Legacy", "UEFI"],
            },
            ProcessorSummary={"Count": 2, "Model": "Multi-Core Processor", "Status": dict(OK)},
            MemorySummary={"TotalSystemMemoryGiB": 96, "Status": dict(OK)},
            Bios=link(at.bios),
            SecureBoot=link(f"{at.system}/SecureBoot"),
            Storage=link(f"{at.system}/Storage"),
            Links={"Chassis": [link(at.chassis)], "ManagedBy": [link(at.manager)]},
            Actions={
                "#ComputerSystem.Reset": {
                    "target": f"{at.system}/Actions/ComputerSystem.Reset",
                    "ResetType@Redfish.AllowableValues": list(RESETS),
                }
            },
        ),
        f"{at.system}/SecureBoot": document(
            f"{at.system}/SecureBoot",
            "SecureBoot.v1_1_0",
            "UEFI Secure Boot",
            SecureBootEnable=False,
            SecureBootCurrentBoot="Disabled",
            SecureBootMode="UserMode",
            Actions={
                "#SecureBoot.ResetKeys": {
                    "target": f"{at.system}/SecureBoot/Actions/SecureBoot.ResetKeys",
                    "ResetKeysType@Redfish.AllowableValues": [
                        "ResetAllKeysToDefault",
                        "DeleteAllKeys",
                        "DeletePK",
                    ],
                }
            },
        ),
    }


# -- BIOS settings --------------------------------------------------------------------------------

REGISTRY = "BiosAttributeRegistry.v1_0_0"

DEFAULTS: Json = {
    "AdminPhone": "",
    "BootMode": "Uefi",
    "EmbeddedSata": "Raid",
    "NicBoot1": "NetworkBoot",
    "NumberOfCores": 0,
    "ProcTurboMode": "Enabled",
    "SriovEnabled": False,
    "SystemSerialNumber": "2M220100SL",
    "UsbControl": "UsbEnabled",
}


def _entry(name: str, kind: str, **rest: Any) -> Json:
    return {
        "AttributeName": name,
        "Type": kind,
        "DisplayName": name,
        "HelpText": f"{name} of the machine.",
        "DefaultValue": DEFAULTS[name],
        "ReadOnly": False,
        "ResetRequired": True,
        **rest,
    }


def _choice(name: str, *words: str) -> Json:
    values = [{"ValueName": word, "ValueDisplayName": word} for word in words]
    return _entry(name, "Enumeration", Value=values)


ENTRIES = (
    _entry("AdminPhone", "String", MinLength=0, MaxLength=16),
    _choice("BootMode", "Bios", "Uefi"),
    _choice("EmbeddedSata", "Off", "Ahci", "Raid"),
    _choice("NicBoot1", "Disabled", "NetworkBoot"),
    _entry("NumberOfCores", "Integer", LowerBound=0, UpperBound=24, ScalarIncrement=2),
    _choice("ProcTurboMode", "Disabled", "Enabled"),
    _entry("SriovEnabled", "Boolean"),
    _entry("SystemSerialNumber", "String", ReadOnly=True, MaxLength=32),
    _choice("UsbControl", "UsbDisabled", "UsbEnabled"),
)
APPLY_TIMES = ("OnReset", "Immediate")


def _firmware_settings(at: Places) -> dict[str, Json]:
    file = f"{ROOT}/Registries/{REGISTRY}"
    return {
        at.bios: document(
            at.bios,
            "Bios.v1_2_0",
            "BIOS Configuration Current Settings",
            AttributeRegistry=REGISTRY,
            Attributes=dict(DEFAULTS),
            Actions={
                f"#Bios.{word}": {"target": f"{at.bios}/Actions/Bios.{word}"}
                for word in ("ResetBios", "ChangePassword")
            },
            **{
                "@Redfish.Settings": {
                    "@odata.type": "#Settings.v1_3_5.Settings",
                    "SettingsObject": link(f"{at.bios}/Settings"),
                    "SupportedApplyTimes": ["OnReset"],
                    "Time": "2026-01-01T00:00:00+00:00",
                    "Messages": [],
                }
            },
        ),
        f"{at.bios}/Settings": document(
            f"{at.bios}/Settings",
            "Bios.v1_2_0",
            "BIOS Configuration Pending Settings",
            AttributeRegistry=REGISTRY,
            Attributes={},
        ),
        f"{ROOT}/Registries": collection(f"{ROOT}/Registries", "MessageRegistryFile", [file]),
        file: document(
            file,
            "MessageRegistryFile.v1_1_3",
            "BIOS Attribute Registry File",
            Languages=["en"],
            Registry=REGISTRY,
            Location=[{"Language": "en", "Uri": f"{file}.json"}],
        ),
        f"{file}.json": document(
            f"{file}.json",
            "AttributeRegistry.v1_3_6",
            "BIOS Attribute Registry",
            Id=REGISTRY,
            Language="en",
            OwningEntity=at.make.manufacturer,
            RegistryVersion="1.0.0",
            SupportedSystems=[{"ProductName": at.make.model, "SystemId": at.make.system}],
            RegistryEntries={"Attributes": [dict(entry) for entry in ENTRIES]},
        ),
    }


# -- storage --------------------------------------------------------------------------------------

LEVELS = {"RAID0": 1, "RAID1": 2, "RAID5": 3, "RAID6": 4, "RAID10": 4, "RAID50": 6, "RAID60": 8}
"""RAID types the controller makes, and the drives each takes at least."""


def _storage(at: Places, drives: int) -> dict[str, Json]:
    places = [f"{at.storage}/Drives/{number}" for number in range(drives)]
    found = {
        f"{at.system}/Storage": collection(f"{at.system}/Storage", "Storage", [at.storage]),
        at.storage: document(
            at.storage,
            "Storage.v1_10_0",
            "RAID Controller",
            Status=dict(OK),
            StorageControllers=[
                {
                    "@odata.id": f"{at.storage}#/StorageControllers/0",
                    "MemberId": "0",
                    "Name": "RAID Controller",
                    "Manufacturer": at.make.manufacturer,
                    "Model": "12G SAS RAID",
                    "FirmwareVersion": "4.3.2",
                    "SpeedGbps": 12,
                    "Status": dict(OK),
                    "SupportedControllerProtocols": ["PCIe"],
                    "SupportedDeviceProtocols": ["SAS", "SATA"],
                    "SupportedRAIDTypes": list(LEVELS),
                }
            ],
            Drives=[link(place) for place in places],
            Volumes=link(at.volumes),
        ),
        at.volumes: collection(
            at.volumes,
            "Volume",
            [],
            **{
                "@Redfish.OperationApplyTimeSupport": {
                    "@odata.type": "#Settings.v1_3_5.OperationApplyTimeSupport",
                    "SupportedValues": ["Immediate", "OnReset"],
                }
            },
        ),
    }
    return found | {place: drive(place, number) for number, place in enumerate(places)}


def drive(path: str, number: int) -> Json:
    """Return a disk of 1200 GB; a test changes what it wants otherwise."""
    return document(
        path,
        "Drive.v1_12_0",
        f"Drive {number}",
        Manufacturer="Drives Ltd",
        Model="C123",
        SerialNumber=f"SN{number:06d}",
        PartNumber="C123-1111",
        Revision="S20A",
        MediaType="HDD",
        Protocol="SAS",
        CapacityBytes=1200 * GB,
        BlockSizeBytes=512,
        RotationSpeedRPM=15000,
        CapableSpeedGbs=12,
        NegotiatedSpeedGbs=12,
        FailurePredicted=False,
        IndicatorLED="Off",
        Status=dict(OK),
        Identifiers=[{"DurableName": f"5000C500000{number:05X}", "DurableNameFormat": "NAA"}],
        Links={"Volumes": []},
    )


# -- the BMC and its services ---------------------------------------------------------------------


def _manager(at: Places) -> dict[str, Json]:
    found = {
        at.manager: document(
            at.manager,
            "Manager.v1_13_0",
            "Manager",
            ManagerType="BMC",
            Model="BMC 2000",
            FirmwareVersion="1.45.455b66-rev4",
            DateTime="2015-03-13T04:14:33+06:00",
            DateTimeLocalOffset="+06:00",
            PowerState="On",
            UUID="58893887-8974-2487-2389-841168418919",
            Status=dict(OK),
            VirtualMedia=link(at.media),
            Links={"ManagerForServers": [link(at.system)], "ManagerForChassis": [link(at.chassis)]},
            Actions={
                "#Manager.Reset": {
                    "target": f"{at.manager}/Actions/Manager.Reset",
                    "ResetType@Redfish.AllowableValues": ["ForceRestart", "GracefulRestart"],
                }
            },
        ),
        at.chassis: document(
            at.chassis,
            "Chassis.v1_17_0",
            "Chassis",
            ChassisType="RackMount",
            Manufacturer=at.make.manufacturer,
            Model=at.make.model,
            SerialNumber="437XR1138R2",
            IndicatorLED="Off",
            PowerState="Off",
            Status=dict(OK),
            Links={"ComputerSystems": [link(at.system)], "ManagedBy": [link(at.manager)]},
        ),
        at.media: collection(at.media, "VirtualMedia", [f"{at.media}/{n}" for n in _MEDIA]),
    }
    return found | {f"{at.media}/{name}": _medium(at, name) for name in _MEDIA}


_MEDIA = {"Cd": ["CD", "DVD"], "Floppy": ["Floppy", "USBStick"]}


def _medium(at: Places, name: str) -> Json:
    path = f"{at.media}/{name}"
    return document(
        path,
        "VirtualMedia.v1_5_0",
        f"Virtual {name}",
        MediaTypes=list(_MEDIA[name]),
        Image=None,
        ImageName=None,
        Inserted=False,
        WriteProtected=True,
        ConnectedVia="NotConnected",
        Actions={
            f"#VirtualMedia.{word}": {"target": f"{path}/Actions/VirtualMedia.{word}"}
            for word in ("InsertMedia", "EjectMedia")
        },
    )


FIRMWARE = {
    "BIOS": "P79 v1.45",
    "BMC": "1.45.455b66-rev4",
    "NIC1": "7.4.10",
    "RAID1": "4.3.2",
}


def _services(at: Places) -> dict[str, Json]:
    update = f"{ROOT}/UpdateService"
    found = {
        f"{ROOT}/SessionService": document(
            f"{ROOT}/SessionService",
            "SessionService.v1_1_8",
            "Session Service",
            ServiceEnabled=True,
            SessionTimeout=1800,
            Status=dict(OK),
            Sessions=link(at.sessions),
        ),
        at.sessions: collection(at.sessions, "Session", []),
        f"{ROOT}/TaskService": document(
            f"{ROOT}/TaskService",
            "TaskService.v1_2_0",
            "Task Service",
            ServiceEnabled=True,
            CompletedTaskOverWritePolicy="Oldest",
            Status=dict(OK),
            Tasks=link(at.tasks),
        ),
        at.tasks: collection(at.tasks, "Task", []),
        update: document(
            update,
            "UpdateService.v1_11_0",
            "Update Service",
            ServiceEnabled=True,
            Status=dict(OK),
            FirmwareInventory=link(at.firmware),
            Actions={
                "#UpdateService.SimpleUpdate": {
                    "target": f"{update}/Actions/UpdateService.SimpleUpdate",
                    "TransferProtocol@Redfish.AllowableValues": ["HTTP", "HTTPS", "NFS"],
                }
            },
        ),
        at.firmware: collection(
            at.firmware, "SoftwareInventory", [f"{at.firmware}/{name}" for name in FIRMWARE]
        ),
    }
    return found | {
        f"{at.firmware}/{name}": document(
            f"{at.firmware}/{name}",
            "SoftwareInventory.v1_5_0",
            f"{name} Firmware",
            Version=version,
            Updateable=True,
            Manufacturer=at.make.manufacturer,
            SoftwareId=f"sw-{name.lower()}",
            Status=dict(OK),
        )
        for name, version in FIRMWARE.items()
    }
