"""A hardware manager for an agent that owns nothing but one regular file, or what a test gives it.

Loaded by the real agent, in the agent's own environment. Every call that a hardware manager gets
is answered here first, so the real manager never looks at the machine that runs the tests. What the
environment says: ``MACHINE_FOLDER`` (the file ``disk.img``, what a rescue writes, and the flags by
which a test steers the steps), ``MACHINE_MACS``, ``MACHINE_VERSION`` of this manager,
``MACHINE_STEPS``: JSON, more or other steps by kind, ``MACHINE_DISKS``: JSON, its disks by name and
serial number, ``MACHINE_ERASES``: ``generic`` lets the agent's own code erase them.
"""

import json
import os
import pathlib
import time

from ironic_python_agent import errors, hardware, tls_utils
from ironic_python_agent.extensions import rescue

MIB = 1024 * 1024
FOLDER = pathlib.Path(os.environ["MACHINE_FOLDER"])
DISK = str(FOLDER / "disk.img")
DISKS = json.loads(os.environ.get("MACHINE_DISKS", "null")) or [{"name": DISK, "serial": "F1"}]
DISK = DISKS[0]["name"]
MACS = os.environ["MACHINE_MACS"].split(",")

# Of the agent's own extension: below /etc, which is not ours.
rescue.PASSWORD_FILE = str(FOLDER / "rescue" / "password")


LEAST = 4 * 1024 * MIB
HINTED = ("instance_info", "properties")


def _size(disk):
    with open(disk, "rb") as opened:
        return opened.seek(0, os.SEEK_END)


def step(name, priority=0, interface="deploy", **more):
    return {
        "step": name,
        "priority": priority,
        "interface": interface,
        "reboot_requested": False,
        "abortable": True,
        **more,
    }


LISTED = [
    step("scrub", 50),
    step("linger", argsinfo={"flag": {"description": "a file to wait for", "required": False}}),
    step("break_down", argsinfo={"words": {"description": "what it says", "required": False}}),
    step("renew", reboot_requested=True),
    step("paint", interface="raid", argsinfo={"colour": {"description": "any", "required": False}}),
]

CREATE = step("create_configuration", interface="raid")
DELETE = step("delete_configuration", interface="raid")
APPLY = step(
    "apply_configuration",
    interface="raid",
    argsinfo=hardware.RAID_APPLY_CONFIGURATION_ARGSINFO,
)


class FileMachine(hardware.GenericHardwareManager):
    HARDWARE_MANAGER_NAME = "FileMachine"
    HARDWARE_MANAGER_VERSION = os.environ.get("MACHINE_VERSION", "1")

    def evaluate_hardware_support(self):
        return hardware.HardwareSupport.SERVICE_PROVIDER

    def initialize(self):
        pass

    def generate_tls_certificate(self, ip_address):
        """Keep the certificate in our folder: /run is not for everybody."""
        cert, key = str(FOLDER / "agent.crt"), str(FOLDER / "agent.key")
        if "MACHINE_KEEPS_TLS" in os.environ and os.path.exists(cert):
            text = pathlib.Path(cert).read_text(encoding="ascii")
        else:
            text = tls_utils._generate_tls_certificate(cert, key, "file-machine", ip_address)
        return tls_utils.TlsCertificate(text, cert, key)

    # -- what the machine is made of -----------------------------------------------------------

    def list_network_interfaces(self):
        return [
            hardware.NetworkInterface(
                name=f"eth{index}",
                mac_addr=mac,
                ipv4_address=os.environ.get("MACHINE_IP", "127.0.0.1"),
                has_carrier=True,
                vendor="0x1af4",
                product="0x0001",
            )
            for index, mac in enumerate(MACS)
        ]

    def list_block_devices(self, include_partitions=False, **_kwargs):
        return [
            hardware.BlockDevice(
                name=one["name"],
                model="file",
                size=_size(one["name"]),
                rotational=False,
                serial=one["serial"],
            )
            for one in DISKS
        ]

    def list_block_devices_check_skip_list(self, _node, include_partitions=False, **_kwargs):
        return self.list_block_devices()

    def get_os_install_device(self, permit_refresh=False):
        """Choose as the real one does, which without hints wants one of at least 4 GiB."""
        node = hardware.get_cached_node() or {}
        hinted = any((node.get(place) or {}).get("root_device") for place in HINTED)
        if hinted or any(_size(disk["name"]) >= LEAST for disk in DISKS):
            return super().get_os_install_device(permit_refresh)
        return DISK

    def wait_for_disks(self):
        pass

    def get_cpus(self):
        return hardware.CPU(
            model_name="file", frequency="1000", count=2, architecture="x86_64", flags=[]
        )

    def get_memory(self):
        return hardware.Memory(total=2048 * MIB, physical_mb=2048)

    def get_bmc_address(self):
        return os.environ.get("MACHINE_BMC", "127.0.0.1")

    def get_bmc_mac(self):
        return None

    def get_bmc_v6address(self):
        return None

    def get_system_vendor_info(self):
        firmware = hardware.SystemFirmware("file", "1", "2026-01-01")
        return hardware.SystemVendorInfo("file", "F1", "file", firmware)

    def get_boot_info(self):
        return hardware.BootInfo(current_boot_mode=os.environ.get("MACHINE_BOOT_MODE", "bios"))

    def collect_system_logs(self, io_dict, file_list):
        journal = b"a line of the ramdisk's journal\n"
        if "MACHINE_SENDS_LOG" in os.environ:
            journal += (FOLDER / "agent.log").read_bytes()
        io_dict["journal"] = __import__("io").BytesIO(journal)

    def full_sync(self):
        pass

    # -- steps ---------------------------------------------------------------------------------

    def get_clean_steps(self, node, ports):
        return self._told("clean", [*LISTED, CREATE, DELETE, step("erase_devices_metadata", 99)])

    def get_deploy_steps(self, node, ports):
        return self._told("deploy", [*LISTED, APPLY])

    def get_service_steps(self, node, ports):
        return self._told("service", [*LISTED, APPLY, CREATE, DELETE])

    def _told(self, kind, listed):
        return json.loads(os.environ.get("MACHINE_STEPS", "{}")).get(kind, listed)

    def _note(self, name, **about):
        with open(FOLDER / "steps.jsonl", "a", encoding="utf-8") as lines:
            lines.write(json.dumps({"step": name, **about}) + "\n")

    def scrub(self, node, ports, seconds=0):
        time.sleep(seconds)
        self._note("scrub", node=node["uuid"], ports=[port["address"] for port in ports])
        return {"scrubbed": 1}

    def linger(self, node, ports, flag="go"):
        """Take until a test puts a file in place."""
        self._note("linger")
        while not (FOLDER / flag).exists():
            time.sleep(0.02)

    def break_down(self, node, ports, words="the disk is on fire"):
        self._note("break_down")
        if not (FOLDER / "repaired").exists():
            raise errors.CleaningError(words)

    def renew(self, node, ports):
        self._note("renew")

    def paint(self, node, ports, colour="red", seconds=0):
        time.sleep(seconds)
        self._note("paint", colour=colour)

    def create_configuration(self, node, ports):
        told = node["driver_internal_info"]["target_raid_config"]
        self._note("create_configuration", target=told)
        return super().create_configuration(node, ports)

    def _do_create_configuration(self, node, ports, raid_config):
        """Build as the real one does what that one would: volumes of files are none."""
        if not any(one.get("controller") == "software" for one in raid_config["logical_disks"]):
            return {}
        self.validate_configuration(raid_config, node)
        return raid_config

    def apply_configuration(self, node, ports, raid_config, delete_existing=True):
        self._note("apply_configuration", target=raid_config, delete_existing=delete_existing)
        return self._do_create_configuration(node, ports, raid_config)

    def delete_configuration(self, node, ports):
        self._note("delete_configuration")

    def _zero(self, start, end):
        with open(DISK, "r+b") as disk:
            disk.seek(start)
            disk.write(bytes(end - start))

    def erase_devices_metadata(self, node, ports):
        self._note("erase_devices_metadata")
        size = _size(DISK)
        self._zero(0, min(MIB, size))
        self._zero(max(0, size - MIB), size)

    def erase_devices(self, node, ports):
        self._note("erase_devices")
        if os.environ.get("MACHINE_ERASES") == "generic":
            return super().erase_devices(node, ports)
        self._zero(0, _size(DISK))
        return {DISK: None}

    def erase_devices_express(self, node, ports):
        return self.erase_devices(node, ports)

    def erase_pstore(self, node, ports):
        pass
