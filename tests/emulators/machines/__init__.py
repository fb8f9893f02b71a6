"""Machines that boot: sushy-tools' BMCs, and what runs on each once it has been switched on.

    with machines.serve(count=2) as rack:
        rack.address                 # of the BMCs
        rack[0].system_id, rack[0].mac
        rack[0].agent.log()          # what its ramdisk's agent has printed

A machine that is switched on and set to boot from its virtual CD starts a real agent, as
`tests.emulators.agent` does, with the parameters that the boot loader on the inserted medium would
give its kernel: with a wrong medium nothing speaks. Switched off it loses it; the agent's own
poweroff switches the machine off.

A boot device is good for one boot, as that of most machines, whatever the emulator shows later: the
next one is from the disk, where nothing speaks, unless a device has been chosen again meanwhile.
"""

from __future__ import annotations

import configparser
import contextlib
import dataclasses
import http.server
import io
import json
import pathlib
import shlex
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pycdlib

from tests.emulators import redfish
from tests.emulators.agent import process

Json = dict[str, Any]
CONFIGS = {"/boot/grub/grub.cfg": "linux ", "/isolinux/isolinux.cfg": "append "}
"""Where boot loaders read, and how the line begins, in any case, with the kernel's parameters."""
RAMDISKS = frozenset({"Cd", "UsbCd", "Usb"})
"""Boot devices that are the virtual drive."""


def parameters(medium: pathlib.Path) -> dict[str, str]:
    """Return what the kernel is given that a medium starts: name -> value."""
    disc = pycdlib.PyCdlib()
    disc.open(str(medium))
    try:
        for name, first in CONFIGS.items():
            out = io.BytesIO()
            with contextlib.suppress(pycdlib.pycdlibexception.PyCdlibInvalidInput):
                disc.get_file_from_iso_fp(out, rr_path=name)
                lines = (line.strip() for line in out.getvalue().decode().splitlines())
                words = [shlex.split(line) for line in lines if line.lower().startswith(first)]
                pairs = (word.partition("=") for line in words for word in line)
                return {name: value for name, _, value in pairs}
    finally:
        disc.close()
    raise AssertionError(f"no boot loader finds its configuration on {medium}")


def brought(medium: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
    """Return the options that a medium brings for its agent: name -> value.

    An agent copies what lies below ``/etc`` there into its own. Here it is copied into a folder, to
    which options that name such a file lead.
    """
    disc = pycdlib.PyCdlib()
    disc.open(str(medium))
    found: dict[str, str] = {}
    try:
        for at, _, names in disc.walk(rr_path="/"):
            for name in names if at.startswith("/etc/") else ():
                path = folder / at.lstrip("/") / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as out:
                    disc.get_file_from_iso_fp(out, rr_path=f"{at}/{name}")
                if name.endswith(".conf"):
                    parser = configparser.ConfigParser()
                    parser.read(path)
                    found.update(parser.defaults())
    finally:
        disc.close()
    return {
        key: f"{folder}{value}" if value.startswith("/etc/") else value
        for key, value in found.items()
    }


def options(given: dict[str, str]) -> dict[str, str]:
    """Return the agent's options for its kernel parameters: ``ipa-x-y`` is ``x_y``."""
    return {
        name.removeprefix("ipa-").replace("-", "_"): value
        for name, value in given.items()
        if name.startswith("ipa-") and not name.startswith(("ipa-listen", "ipa-advertise"))
    }


@dataclasses.dataclass
class Machine:
    """One machine: what its BMC is called, and its ramdisk.

    ``boots`` are the kernel parameters of each boot from a medium, oldest first; ``faults`` why
    there was none; ``reset`` is where its BMC is told to switch it. ``chosen`` is the boot device
    of its next boot, None for its disk, and ``known`` what its BMC has said last.
    """

    system_id: str
    mac: str
    agent: process.Agent
    boots: list[dict[str, str]] = dataclasses.field(default_factory=list)
    faults: list[str] = dataclasses.field(default_factory=list)
    reset: str = ""
    on: bool = False
    chosen: str | None = None
    known: Json = dataclasses.field(default_factory=dict)
    turn: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def becomes(self, system: Json) -> None:
        """Follow what the BMC says of the machine."""
        with self.turn:
            self._choose(system)
            on = system.get("power_state") == "On"
            if on == self.on:
                return  # the boot device of a machine that runs is that of its next boot
            self.on = on
            self.agent.kill()
            if on:
                device, self.chosen = self.chosen, None
                if device in RAMDISKS:
                    self._boot(system)

    def _choose(self, system: Json) -> None:
        """Note a boot device; a change in which nothing is another is the same device once more."""
        before, self.known = self.known, dict(system)
        device = system.get("boot_device")
        if device != before.get("boot_device") or system == before:
            self.chosen = device

    def _boot(self, system: Json) -> None:
        medium = ((system.get("boot_image") or {}).get("Cd") or [None])[0]
        if not medium:
            self.faults.append("there is no medium in the drive")
            return
        try:
            given = parameters(pathlib.Path(medium))
        except (AssertionError, pycdlib.pycdlibexception.PyCdlibException) as why:
            self.faults.append(f"the medium does not boot: {why}")
            return
        self.boots.append(given)
        found = options(given) | brought(pathlib.Path(medium), self.agent.folder)
        self.agent.api = found.pop("api_url", None)
        self.agent.parameters = found
        self.agent.environment["MACHINE_RESET"] = self.reset
        self.agent.start()


class Rack:
    """The machines of one emulator."""

    def __init__(self, emulator: redfish.Emulator, found: list[Machine]) -> None:
        self._emulator = emulator
        self._found = found

    def __getitem__(self, number: int) -> Machine:
        return self._found[number]

    @property
    def address(self) -> str:
        """The value for driver_info/redfish_address."""
        return self._emulator.address

    def hang(self) -> None:
        """Let the BMCs take requests and not answer them."""
        self._emulator.send(signal.SIGSTOP)

    def wake(self) -> None:
        """End `hang`."""
        self._emulator.send(signal.SIGCONT)


class _Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    machines: dict[str, Machine]


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        assert isinstance(self.server, _Listener)
        self.server.machines[body["uuid"]].becomes(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serve(count: int = 1, *, loop: bool = False) -> Iterator[Rack]:
    """Give machines, all of them off; nothing of them is left afterwards.

    :param loop: whether their disks are loop devices; where there are none the test is skipped.
    """
    with contextlib.ExitStack() as stack:
        listener = _Listener(("127.0.0.1", 0), _Handler)
        stack.callback(listener.server_close)
        url = f"http://127.0.0.1:{listener.server_address[1]}/"
        emulator = redfish.Emulator(count=count, listener=url)
        listener.machines = {
            one.uuid: Machine(
                one.system_id,
                one.mac,
                stack.enter_context(process.agent(macs=[one.mac], loop=loop)),
            )
            for one in emulator.machines
        }
        thread = threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        stack.callback(listener.shutdown)
        stack.enter_context(emulator)
        for one in listener.machines.values():
            one.reset = f"{emulator.address}{one.system_id}/Actions/ComputerSystem.Reset"
        yield Rack(emulator, list(listener.machines.values()))
