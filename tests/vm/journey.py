"""The life of a node on a machine that boots: cleaned, deployed, rescued, deleted, cleaned."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.service import Service
from tests.vm import disk, image, login, rack
from tests.vm.story import Story, of_runs

NODE = "m1"
LEFT = b"LEFT-BY-A-FORMER-USER"
WORD = "THE-INSTANCE-HAS-STARTED"
PASSWORD = "let $me 'in"
OF_CONFIGURATION = "told-by-a-config-drive"
Json = dict[str, Any]

ERASURE = "erasure"
"""The life of a machine with a read-only disk and a disk that cannot be erased."""
BOOT_RETRY = "boot-retry"
"""The life of a machine whose loader hangs once."""
NETWORK_DATA = "network-data"
"""The life of a machine whose ramdisk has a static address."""
BOOTED_BY = {BOOT_RETRY: "ipxe", NETWORK_DATA: "redfish-virtual-media"}
"""The one boot interface of a life."""
_LOADER = "snponly.efi"
_HANGS = "THE-LOADER-HANGS"
_NETWORKS: Json = {
    "links": [{"id": "card", "type": "phy", "ethernet_mac_address": rack.MAC}],
    "networks": [
        {
            "id": "static",
            "network_id": "machines",
            "type": "ipv4",
            "link": "card",
            "ip_address": rack.STATIC,
            "netmask": "255.255.255.0",
            "routes": [],
        }
    ],
    "services": [],
}
CLEANED = frozenset({"whole", "clean"})
"""Lives with cleanings; the others have none."""
_LOOK_SECONDS = 0.5
_BY_HTTP = frozenset({"http-ipxe", "http", "redfish-https"})
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_VALID = ("power", "management", "boot", "network", "rescue")
_SHOWN = "lsblk --noheadings --output LABEL /dev/vda"
_READ = "sudo sh -c 'mount -r LABEL=config-2 /mnt && cat /mnt/openstack/latest/meta_data.json'"
_SEEN = {
    "whole-disk": f"sudo head -c 12M /dev/vda | grep --text --count {WORD}",
    "partition": f"sudo sh -c 'mount -r LABEL=system /media; grep --count {WORD} /media/sbin/init'",
}
"""What tells, for a type of image, that it is on the disk."""
_AGENT = "systemctl is-active ironic-agent || true"
_TRUSTED = "cat /etc/ironic-python-agent/authority.pem"


class Failed(Exception):
    """Something is not as it has to be."""


@dataclasses.dataclass(frozen=True)
class Way:
    """What is chosen.

    :param boot: the boot interface.
    :param life: a key of `LIVES`.
    :param image: ``whole-disk``, or the path of the image of a partition.
    :param patience: seconds that one verb may take.
    """

    boot: str
    life: str
    image: str | pathlib.Path
    patience: float

    @property
    def cleans(self) -> bool:
        return self.life in CLEANED

    @property
    def image_type(self) -> str:
        return self.image if isinstance(self.image, str) else "partition"


@dataclasses.dataclass
class Journey:
    """Everything that takes part."""

    up: Service
    machine: rack.Rack
    story: Story
    images: pathlib.Path
    way: Way
    starts: int = 0

    def lead(self) -> None:
        """Lead the node through its life.

        :raises Failed: it went another way, or the machine is not as it should be.
        """
        self._enrol()
        self._verb("manage", "manageable")
        for part in LIVES[self.way.life]:
            part(self)
        if self.way.life != ERASURE:  # which ends with a failed step, and its machine on
            self._nothing_left()

    def record(self) -> list[str]:
        """Return what the service tells of its runs afterwards."""
        runs = self._get(f"/v1/nodes/{NODE}/runs?sort_dir=asc")["runs"]
        return of_runs([self._get(f"/v1/nodes/{NODE}/runs/{run['uuid']}") for run in runs])

    # -- parts of a life ---------------------------------------------------------------------

    def _clean(self) -> None:
        disk.mark(self.machine.disk, LEFT)
        self.story.say(f"the disk holds the marks of a former user: {self._used()}")
        self._verb("provide", "available")
        self._erased()

    def _report(self) -> None:
        """Check what the ramdisk's hardware manager reports of three disks, of which one fails."""
        disk.mark(self.machine.disk, LEFT)
        self._begin_clean("erase_devices")
        self._wait(lambda: self._shown() == "clean failed", "clean failed")
        told = self._get(f"/v1/nodes/{NODE}")["last_error"]
        self.story.say(f"clean failed: {told}")
        found = {one["serial"]: one for one in self._disks()}
        for one in found.values():
            self.story.say(f"    {json.dumps(one)}")
        wanted = {"PLAIN": "erased", "READ-ONLY": "skipped", "BROKEN": "failed"}
        results = {serial: one["result"] for serial, one in found.items()}
        self._check(results == wanted, f"{wanted}, not {results}")
        plain = found["PLAIN"]
        self._check(plain["level"] == "clear", f"the level clear: {plain}")
        self._check(plain["verification"]["changed"] > 0, f"samples that have changed: {plain}")
        self._check(found["READ-ONLY"]["why"] == "read-only", "the reason read-only")
        self._erased()

    def _hang_once(self) -> None:
        """Let the first loader hang: one restart, and then the agent reports."""
        loader = self.machine.folder / "tftp" / _LOADER
        good = loader.read_bytes()
        image.build_loader(loader, _HANGS)
        self._begin_clean("erase_devices_metadata")
        self._wait(lambda: _HANGS in self.machine.serial, f"{_HANGS} on the serial line")
        self.story.say(f"the machine says {_HANGS}; its next loader is a good one")
        loader.write_bytes(good)
        self._wait(lambda: self._stands("manageable"), "manageable after a restart")
        found = self._get(f"/v1/events?node={NODE}&kind=boot_retry&since=0")["events"]
        self._check([one["data"]["restarts"] for one in found] == [1], f"one boot_retry: {found}")
        self._check(self.machine.serial.count(_HANGS) == 1, "one start of the loader that hangs")
        self.story.say(f"boot_retry: {found[0]['data']['reason']}")

    def _configure_network(self) -> None:
        """Boot a ramdisk that has its address from the medium, and has asked no DHCP server."""
        patch = [{"op": "add", "path": "/network_data", "value": _NETWORKS}]
        self._ask("PATCH", f"/v1/nodes/{NODE}", patch)
        self._begin_clean("erase_devices_metadata")
        urls = set[str]()

        def ends() -> bool:
            known = self._get(f"/v1/nodes/{NODE}")["driver_internal_info"]
            urls.update(filter(None, [known.get("agent_url")]))
            return self._stands("manageable")

        self._wait(ends, "manageable after the clean")
        ours = bool(urls) and all(f"//{rack.STATIC}:" in url for url in urls)
        self._check(ours, f"an agent at {rack.STATIC}: {urls}")
        self._check(not self.machine.address, f"no lease of DHCP: {self.machine.address}")
        self.story.say(f"its agent was at {rack.STATIC}, and no lease was given")

    def _begin_clean(self, step: str) -> None:
        self.story.say("--- clean")
        body = {"target": "clean", "clean_steps": [{"interface": "deploy", "step": step}]}
        self._ask("PUT", f"/v1/nodes/{NODE}/states/provision", body)

    def _shown(self) -> str:
        node = self._get(f"/v1/nodes/{NODE}")
        self.story.node(node)
        return str(node["provision_state"])

    def _disks(self) -> list[Json]:
        """Return the disks of the last report that the agent has printed."""
        found = re.findall(r"Disks after erase_devices: (\{.*\})", self.machine.serial)
        self._check(found, "a report of the hardware manager on the serial line")
        disks: list[Json] = json.loads(found[-1])["disks"]
        return disks

    def _provide(self) -> None:
        self._verb("provide", "available")

    def _adopt(self) -> None:
        """Have an instance that somebody else has put there."""
        disk.write(self.machine.disk, self._choose())
        self._verb("adopt", "active")

    def _deploy(self) -> None:
        self._choose()
        self._verb("active", "active", configdrive={"meta_data": {"told": OF_CONFIGURATION}})
        self._started()
        self._check(disk.used(self.machine.disk) > 0, "an image on the disk")

    def _rescue(self) -> None:
        self._verb("rescue", "rescue", rescue_password=PASSWORD)
        self._rescued()
        self._verb("unrescue", "active")
        self._started()

    def _delete(self) -> None:
        self._verb("deleted", "available")
        if self.way.cleans:
            self._erased()

    # -- what is asked -----------------------------------------------------------------------

    def _enrol(self) -> None:
        node = self._ask(
            "POST",
            "/v1/nodes",
            {
                "name": NODE,
                "driver": self.machine.driver,
                "boot_interface": self.way.boot,
                "deploy_interface": "direct",
                "network_interface": "noop",
                "rescue_interface": "agent",
                "driver_info": self.machine.driver_info,
                "properties": {
                    "cpu_arch": "x86_64",
                    "capabilities": f"boot_mode:{self.machine.firmware}",
                },
            },
        )
        self._ask("POST", "/v1/ports", {"node_uuid": node["uuid"], "address": rack.MAC})
        told = self._get(f"/v1/nodes/{NODE}/validate")
        wrong = {kind: told[kind] for kind in _VALID if not told[kind]["result"]}
        self._check(not wrong, f"a valid node: {wrong}")

    def _choose(self) -> pathlib.Path:
        path = self.images / "instance.raw"
        if isinstance(self.way.image, str):
            digest = image.build(path, WORD, self.machine.firmware)
        else:
            digest = image.copy(self.way.image, path)
        info = {
            "image_source": f"file://{path}",
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": digest,
            "image_disk_format": "raw",
            "image_type": self.way.image_type,
            "root_gb": 1,
        }
        patch = [{"op": "add", "path": "/instance_info", "value": info}]
        self._ask("PATCH", f"/v1/nodes/{NODE}", patch)
        return path

    def _verb(self, target: str, wanted: str, **more: Any) -> None:
        self.story.say(f"--- {target}")
        self._ask("PUT", f"/v1/nodes/{NODE}/states/provision", {"target": target, **more})
        # A state that is the goal, too, is left first: the answer comes after that.
        self._wait(lambda: self._stands(wanted), f"{wanted} after {target}")

    def _stands(self, wanted: str) -> bool:
        node = self._get(f"/v1/nodes/{NODE}")
        self.story.node(node)
        state, fault = node["provision_state"], node["last_error"]
        if "fail" in state or state == "error" or (state in {"enroll", "available"} and fault):
            raise Failed(f"{state}: {fault}")
        return bool(state == wanted)

    # -- what is checked ---------------------------------------------------------------------

    def _started(self) -> None:
        self.starts += 1
        about = f"{WORD} on the serial line, {self.starts} times"
        self._wait(lambda: self.machine.serial.count(WORD) == self.starts, about)
        self.story.say(f"the machine says {WORD}; its disk: {self._used()}")

    def _rescued(self) -> None:
        about = f"a login as {login.USER} with the password"
        self._wait(lambda: self._stands("rescue") and self._lets_in(PASSWORD), about)
        address = self.machine.address
        self.story.say(f"{login.USER} is logged in at {address} by its password")
        self._check(not self._lets_in(PASSWORD[:-1]), "that another password is refused")
        right = login.Login(self.up.folder, address, PASSWORD)
        asked = [_SHOWN, _SEEN[self.way.image_type], _AGENT, _TRUSTED]
        asked += [_READ] if self.way.life != "rescue" else []
        try:
            labels, found, agent, trusted, *told = map(right.run, asked)
        except login.Refused as why:
            raise Failed(f"rescued, {why}") from None
        self._check(int(found) > 0, "the image on the disk")
        self._check(agent.strip() == "inactive", f"an agent that has ended for good: {agent}")
        authority = (self.up.folder / "authority.pem").read_text()
        self._check(trusted.strip() == authority.strip(), f"the authority, not {trusted!r}")
        self._check(all(OF_CONFIGURATION in one for one in told), f"a config drive, not {told}")
        self.story.say(f"it sees the image on the disk, and what is told there: {labels.split()}")

    def _lets_in(self, password: str) -> bool:
        with contextlib.suppress(login.Refused):
            return bool(login.Login(self.up.folder, self.machine.address, password).run("id"))
        return False

    def _erased(self) -> None:
        self._check(not disk.holds(self.machine.disk, LEFT), "no mark of a former user")
        used = disk.used(self.machine.disk)
        self._check(used == 0, f"a disk of zeros, not {used} bytes of others")
        self.story.say(f"the disk holds zeros only: {self._used()}")

    def _nothing_left(self) -> None:
        if self.way.boot in _BY_HTTP:
            self._check_http()
        node = self._get(f"/v1/nodes/{NODE}")
        known = [key for key in node["driver_internal_info"] if key.startswith("agent_")]
        self._check(not known, f"nothing known of an agent: {known}")
        self._check(node["power_state"] == "power off", "a machine that is off")
        root = self.up.folder / "state" / "http"
        media = [*root.glob("media/*"), *root.glob("images/*"), *root.glob("pxelinux.cfg/*")]
        self._check(not media, f"no boot files or images: {media}")
        self.story.say("the machine is off, no media, images or agents are left")

    def _check_http(self) -> None:
        """Check that firmware itself has read by HTTP, and nothing by TFTP.

        The emulator's firmware tries PXE first, and asks for the URL as for a file's name.
        """
        found = [line for line in self.machine.requests if "UefiHttpBoot" in line]
        self._check(found, f"requests of firmware: {self.machine.requests}")
        names = [line for line in self.machine.by_tftp if not line.startswith("http://")]
        self._check(not names, f"no names of files for TFTP: {names}")
        paths = sorted({re.sub(f"{_UUID}-.*?[.]iso", "NODE-***.iso", line) for line in found})
        self.story.say(f"firmware has read by HTTP, and nothing by TFTP: {', '.join(paths)}")

    def _check(self, well: object, about: str) -> None:
        if not well:
            raise Failed(f"expected {about}")

    def _used(self) -> str:
        return f"{disk.used(self.machine.disk) >> 20} MiB used"

    # -- how ---------------------------------------------------------------------------------

    def _wait(self, ask: Callable[[], bool], about: str) -> None:
        end = time.monotonic() + self.way.patience
        while time.monotonic() < end:
            self.story.serial(self.machine.serial)
            if ask():
                self.story.serial(self.machine.serial)
                return
            time.sleep(_LOOK_SECONDS)
        raise Failed(f"{about}: not within {self.way.patience:g} s")

    def _ask(self, method: str, path: str, body: Any) -> Json:
        answer = self.up.ask(method, path, body)
        if not answer.ok:
            raise Failed(f"{method} {path}: {answer.status_code} {answer.text}")
        found: Json = {}
        with contextlib.suppress(ValueError):
            found = answer.json()
        return found

    def _get(self, path: str) -> Json:
        return self._ask("GET", path, None)


LIVES: Mapping[str, Sequence[Callable[[Journey], None]]] = {
    "whole": (Journey._clean, Journey._deploy, Journey._rescue, Journey._delete),
    "clean": (Journey._clean,),
    ERASURE: (Journey._report,),
    "uncleaned": (Journey._provide, Journey._deploy, Journey._rescue, Journey._delete),
    "deploy": (Journey._provide, Journey._deploy, Journey._delete),
    "rescue": (Journey._adopt, Journey._rescue, Journey._delete),
    BOOT_RETRY: (Journey._hang_once,),
    NETWORK_DATA: (Journey._configure_network,),
}
"""The parts of a life, in their order."""
