"""Steps of the hardware manager that reports erasures, before a vendor's manager with odd manners.

Run by the agent's Python, ``-m erasing SCENARIO FOLDER``: prints a report for each step. The disks
are the files ``*.img`` in the folder.
"""

import json
import pathlib
import subprocess
import sys
import threading
from unittest import mock

from ironic_python_agent import config
from oslo_config import cfg

config.populate_config()  # the imports below read options

from ironic_python_agent import errors, hardware  # noqa: E402

from ironic_lite_evidence.manager import EvidenceManager  # noqa: E402

NODE = {"driver_internal_info": {"erasure_reports": True, "erase_method": "purge"}}


class Vendor(hardware.HardwareManager):
    """Finds files, and overwrites them with the real ``shred``."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def evaluate_hardware_support(self):
        return hardware.HardwareSupport.MAINLINE

    def list_block_devices(self, include_partitions=False):
        return [
            hardware.BlockDevice(
                name=str(path),
                model="file",
                size=path.stat().st_size,
                rotational=False,
                serial=path.stem,
            )
            for path in sorted(self.folder.glob("*.img"))
        ]

    def list_block_devices_check_skip_list(self, node, include_partitions=False):
        return self.list_block_devices()

    def erase_block_device(self, node, block_device):
        self.runs("shred", "--iterations", "0", "--zero", block_device.name)

    def runs(self, *command):
        subprocess.run(command, check=True)

    def appears(self, name):
        (self.folder / name).write_bytes(b"data" * 65536)


class Early(Vendor):
    """Has a disk that appears before the agent lists what it erases."""

    def erase_devices(self, node, ports):
        self.appears("NEW.img")
        return super().erase_devices(node, ports)


class Late(Vendor):
    """Has a disk that appears when all others are erased."""

    def erase_devices(self, node, ports):
        done = super().erase_devices(node, ports)
        self.appears("NEW.img")
        return done


class Express(Vendor):
    """Formats the disk `disk`, pretends to format LIAR, and erases the metadata of META."""

    def erase_devices_express(self, node, ports):
        for path in sorted(self.folder.glob("*.img")):
            if path.stem == "META":
                self.runs("wipefs", "--all", str(path))
                continue
            self.runs("nvme", "format", str(path), "-s", "1", "-f")
            if path.stem == "disk":
                path.write_bytes(bytes(path.stat().st_size))


class Alone(Vendor):
    """Erases in the step, without the agent's call for each disk."""

    def erase_devices(self, node, ports):
        for disk in self.list_block_devices():
            self.erase_block_device(node, disk)


class Leaving(Vendor):
    """Fails and leaves a thread that erases; it ends in the next step, which erases nothing."""

    def __init__(self, folder):
        super().__init__(folder)
        self.begun, self.released = threading.Event(), threading.Event()
        self.thread = None

    def erase_devices(self, node, ports):
        if self.thread is not None:
            self.released.set()
            self.thread.join()
            return {}
        (disk,) = self.list_block_devices()
        self.thread = threading.Thread(
            target=hardware.dispatch_to_managers, args=("erase_block_device", node, disk)
        )
        self.thread.start()
        self.begun.wait()
        raise errors.ProtectedDeviceError(device="/dev/sdz", what="a lock")

    def erase_block_device(self, node, block_device):
        self.begun.set()
        self.released.wait()
        super().erase_block_device(node, block_device)


class Unseen(Vendor):
    """Erases without a program."""

    def erase_block_device(self, node, block_device):
        path = pathlib.Path(block_device.name)
        path.write_bytes(bytes(path.stat().st_size))


SCENARIOS = {
    "early": (Early, "erase_devices"),
    "late": (Late, "erase_devices"),
    "express": (Express, "erase_devices_express"),
    "alone": (Alone, "erase_devices"),
    "leaving": (Leaving, "erase_devices", "erase_devices"),
    "unseen": (Unseen, "erase_devices"),
}


def main(scenario, folder):
    cfg.CONF(["--config-file", f"{folder}/agent.conf"])
    vendor, *steps = SCENARIOS[scenario]
    managers = [EvidenceManager(), vendor(pathlib.Path(folder))]
    detail = [{"name": type(one).__name__, "manager": one, "support": 1} for one in managers]
    with mock.patch.object(hardware, "get_managers_detail", lambda: detail):
        for step in steps:
            print(json.dumps(getattr(managers[0], step)(NODE, [])))


if __name__ == "__main__":
    main(*sys.argv[1:])
