"""The life of a node on a machine that boots: cleaned, deployed, deleted, cleaned again."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any

from tests.acceptance.service import Service
from tests.vm import disk, image, rack
from tests.vm.story import Story, of_runs

NODE = "m1"
LEFT = b"LEFT-BY-A-FORMER-USER"
WORD = "THE-INSTANCE-HAS-STARTED"
Json = dict[str, Any]

_LOOK_SECONDS = 0.5
_VALID = ("power", "management", "boot", "network")


class Failed(Exception):
    """Something is not as it has to be."""


@dataclasses.dataclass
class Journey:
    """Everything that takes part.

    :param patience: seconds that one verb may take.
    """

    up: Service
    machine: rack.Rack
    story: Story
    images: pathlib.Path
    patience: float

    def lead(self, boot_interface: str) -> None:
        """Lead the node through its life.

        :raises Failed: it went another way, or the machine is not as it should be.
        """
        disk.mark(self.machine.disk, LEFT)
        self.story.say(f"the disk holds the marks of a former user: {self._used()}")
        self._enrol(boot_interface)
        self._verb("manage", "manageable")
        self._verb("provide", "available")
        self._erased()
        self._choose()
        self._verb("active", "active")
        self._wait(lambda: WORD in self.machine.serial, f"{WORD} on the serial line")
        self.story.say(f"the machine says {WORD}; its disk: {self._used()}")
        self._check(disk.used(self.machine.disk) > 0, "an image on the disk")
        self._verb("deleted", "available")
        self._erased()
        self._nothing_left()

    def record(self) -> list[str]:
        """Return what the service tells of its runs afterwards."""
        runs = self._get(f"/v1/nodes/{NODE}/runs?sort_dir=asc")["runs"]
        return of_runs([self._get(f"/v1/nodes/{NODE}/runs/{run['uuid']}") for run in runs])

    # -- what is asked -----------------------------------------------------------------------

    def _enrol(self, boot_interface: str) -> None:
        node = self._ask(
            "POST",
            "/v1/nodes",
            {
                "name": NODE,
                "driver": self.machine.driver,
                "boot_interface": boot_interface,
                "deploy_interface": "direct",
                "network_interface": "noop",
                "driver_info": self.machine.driver_info,
                "properties": {"cpu_arch": "x86_64", "capabilities": "boot_mode:uefi"},
            },
        )
        self._ask("POST", "/v1/ports", {"node_uuid": node["uuid"], "address": rack.MAC})
        told = self._get(f"/v1/nodes/{NODE}/validate")
        wrong = {kind: told[kind] for kind in _VALID if not told[kind]["result"]}
        self._check(not wrong, f"a valid node: {wrong}")

    def _choose(self) -> None:
        path = self.images / "instance.raw"
        info = {
            "image_source": f"file://{path}",
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": image.build(path, WORD),
            "image_disk_format": "raw",
            "image_type": "whole-disk",
        }
        patch = [{"op": "add", "path": "/instance_info", "value": info}]
        self._ask("PATCH", f"/v1/nodes/{NODE}", patch)

    def _verb(self, target: str, wanted: str) -> None:
        self.story.say(f"--- {target}")
        self._ask("PUT", f"/v1/nodes/{NODE}/states/provision", {"target": target})
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

    def _erased(self) -> None:
        self._check(not disk.holds(self.machine.disk, LEFT), "no mark of a former user")
        used = disk.used(self.machine.disk)
        self._check(used == 0, f"a disk of zeros, not {used} bytes of others")
        self.story.say(f"the disk holds zeros only: {self._used()}")

    def _nothing_left(self) -> None:
        node = self._get(f"/v1/nodes/{NODE}")
        known = [key for key in node["driver_internal_info"] if key.startswith("agent_")]
        self._check(not known, f"nothing known of an agent: {known}")
        self._check(node["power_state"] == "power off", "a machine that is off")
        root = self.up.folder / "state" / "http"
        media = [*root.glob("media/*"), *root.glob("images/*"), *root.glob("pxelinux.cfg/*")]
        self._check(not media, f"no boot files or images: {media}")
        self.story.say("the machine is off, no media, images or agents are left")

    def _check(self, well: object, about: str) -> None:
        if not well:
            raise Failed(f"expected {about}")

    def _used(self) -> str:
        return f"{disk.used(self.machine.disk) >> 20} MiB used"

    # -- how ---------------------------------------------------------------------------------

    def _wait(self, ask: Callable[[], bool], about: str) -> None:
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            self.story.serial(self.machine.serial)
            if ask():
                self.story.serial(self.machine.serial)
                return
            time.sleep(_LOOK_SECONDS)
        raise Failed(f"{about}: not within {self.patience:g} s")

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
