"""The machine, its BMC and its network, all within the namespaces of ``scripts/vm.sh``.

libvirt and dnsmasq are the system's programs with folders of their own: /run, /etc/libvirt and the
like are empty here, and what happens to them nobody else sees.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import requests

from tests.emulators import redfish
from tests.support.ports import free_port
from tests.vm import disk, http_uri
from tests.vm.image import run

ADDRESS = "192.0.2.1"
"""Of the service, on the machine's network."""
RANGE = "192.0.2.100,192.0.2.200"
STATIC = "192.0.2.50"
"""An address of the machine that no DHCP server gives."""
BRIDGE = "machines"
MAC = "52:54:00:76:6d:01"
UUID = "76760001-0000-4000-8000-000000000001"
NAME = "machine"
USER, PASSWORD = "admin", "of-the-bmc"
_PRIVATE = ("/run", "/etc/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/var/cache/libvirt")
_PATIENCE = 90.0

_QEMU = """\
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
remember_owner = 0
"""

_FIRMWARE = {
    "uefi": """\
  <os firmware="efi">
    <type arch="x86_64" machine="q35">hvm</type>
    <firmware><feature name="secure-boot" enabled="no"/></firmware>
    <boot dev="hd"/>
  </os>
""",
    "bios": """\
  <os>
    <type arch="x86_64" machine="q35">hvm</type>
    <boot dev="hd"/>
  </os>
""",
}
_ROM = {"uefi": '<rom enabled="no"/>', "bios": ""}
"""A BIOS boots from a network by the iPXE that QEMU puts on its cards."""
_MORE = {
    "uefi": (),
    # Without a screen, all that a BIOS and its loaders show goes to the serial line.
    "bios": ("-machine", "graphics=off"),
}
_READ_ONLY = """\
    <disk type="file" device="disk">
      <driver name="qemu" type="raw"/>
      <source file="{disk}"/>
      <target dev="vdb" bus="virtio"/>
      <readonly/>
      <serial>READ-ONLY</serial>
    </disk>
"""
_BROKEN = (
    *(
        "-drive",
        "if=none,id=broken,format=raw,file.driver=blkdebug,file.image.filename={disk},"
        "file.inject-error.0.event=pwritev,file.inject-error.0.errno=5",
    ),
    *("-device", "virtio-blk-pci,drive=broken,serial=BROKEN,addr=0x1c"),
)
"""A disk that answers each write with an error, which libvirt has no words for."""

_DOMAIN = """\
<domain type="{accelerator}" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">
  <name>{name}</name>
  <uuid>{uuid}</uuid>
  <memory unit="MiB">{memory}</memory>
  <vcpu>1</vcpu>
{firmware}  <features><acpi/></features>
  <cpu mode="maximum"/>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <controller type="sata" index="0"/>
    <disk type="file" device="disk">
      <driver name="qemu" type="raw" cache="unsafe" discard="unmap" detect_zeroes="unmap"/>
      <source file="{disk}"/>
      <target dev="vda" bus="virtio"/>
      <serial>PLAIN</serial>
    </disk>
{disks}    <interface type="bridge">
      <source bridge="{bridge}"/>
      <mac address="{mac}"/>
      <model type="virtio"/>
      {rom}
    </interface>
    <serial type="file"><source path="{serial}" append="on"/></serial>
    <rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
    <memballoon model="none"/>
  </devices>
{more}</domain>
"""

_SUSHY = """\
SUSHY_EMULATOR_LISTEN_IP = "127.0.0.1"
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_STATE_DIR = {state!r}
SUSHY_EMULATOR_AUTH_FILE = {users!r}
SUSHY_EMULATOR_LIBVIRT_URI = "qemu:///system"
SUSHY_EMULATOR_STORAGE_POOL = "media"
"""

_VIRTUALBMC = """\
[default]
config_dir = {state}/config
pid_file = {state}/pid
server_port = {port}
[log]
logfile = {state}/log
"""
_IPMI_PORT = 6230
_REQUEST = re.compile(r" ironic_lite\.conductor\.fileserver .*(?:GET|HEAD) (\S+ by .+): \d{3}\b")
_TFTP = 69


@dataclasses.dataclass
class Rack:
    """One machine.

    :param folder: of this run: disk, serial line, logs.
    :param programs: the environment with sushy-tools, whose Python knows libvirt.
    :param accelerator: ``qemu``, or ``kvm`` where the processor allows it.
    :param memory: of the machine, MiB.
    :param firmware: ``uefi`` or ``bios``.
    :param driver: ``redfish`` or ``ipmi``, which its BMC speaks.
    :param more_disks: it has a read-only disk, and one whose writes fail, too.
    :param takes_url: its BMC takes a URL for the firmware, which `http_uri` adds.
    """

    folder: pathlib.Path
    programs: pathlib.Path
    accelerator: str = "qemu"
    memory: int = 1536
    firmware: str = "uefi"
    driver: str = "redfish"
    more_disks: bool = False
    takes_url: bool = False
    driver_info: dict[str, Any] = dataclasses.field(default_factory=dict)
    _started: list[subprocess.Popen[bytes]] = dataclasses.field(default_factory=list)

    @property
    def disk(self) -> pathlib.Path:
        return self.folder / "disk.raw"

    @property
    def serial(self) -> str:
        """All that the machine has printed so far."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "serial.log").read_text("utf-8", "replace")
        return ""

    @property
    def address(self) -> str:
        """What DHCP has given the machine last; "" before that."""
        with contextlib.suppress(FileNotFoundError):
            for line in reversed((self.folder / "leases").read_text().splitlines()):
                if line.split()[1] == MAC:
                    return line.split()[2]
        return ""

    def description(self) -> str:
        """Return the machine as libvirt is told of it."""
        return _DOMAIN.format(
            accelerator=self.accelerator,
            name=NAME,
            uuid=UUID,
            memory=self.memory,
            disk=self.disk,
            bridge=BRIDGE,
            mac=MAC,
            serial=self.folder / "serial.log",
            firmware=_FIRMWARE[self.firmware],
            rom=_ROM[self.firmware],
            disks=_READ_ONLY.format(disk=self.folder / "read-only.raw") if self.more_disks else "",
            more=self._arguments(),
        )

    def _arguments(self) -> str:
        words = [*_MORE[self.firmware]]
        if self.more_disks:
            words += [word.format(disk=self.folder / "broken.raw") for word in _BROKEN]
        lines = "".join(f'    <qemu:arg value="{word}"/>\n' for word in words)
        return f"  <qemu:commandline>\n{lines}  </qemu:commandline>\n" if words else ""

    @property
    def requests(self) -> list[str]:
        """Path and user agent of each request to the file server, by the log of that."""
        lines = (self.folder / "ironic-lite-0.log").read_text("utf-8", "replace").splitlines()
        return [found[1] for line in lines if (found := _REQUEST.search(line))]

    @property
    def by_tftp(self) -> list[str]:
        """What the machine has asked for by TFTP, also if nobody serves it."""
        return (self.folder / "tftp.log").read_text("utf-8", "replace").splitlines()

    def start(self, dnsmasq: pathlib.Path) -> None:
        """Build all of it; the machine is off.

        :param dnsmasq: the configuration of its DHCP and TFTP server.
        """
        leases = f"--dhcp-leasefile={self.folder / 'leases'}"
        said = ("--log-facility=-", "--log-dhcp", "--keep-in-foreground", "--user=root")
        (self.folder / "tftp.log").touch()
        heard = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
        heard.bind((ADDRESS, 0))
        threading.Thread(target=self._listen, args=(heard,), daemon=True).start()
        self._start("dnsmasq", *said, leases, f"--conf-file={dnsmasq}")
        self._libvirt()
        disk.make(self.disk)
        for name in ("read-only.raw", "broken.raw") if self.more_disks else ():
            disk.make_small(self.folder / name)
        description = self.folder / "machine.xml"
        description.write_text(self.description())
        run("virsh", "--quiet", "define", description)
        if self.driver == "redfish":
            self._sushy()
        else:
            self._virtualbmc()

    def stop(self) -> None:
        """Switch the machine off and end what was started; the disk is removed."""
        with contextlib.suppress(RuntimeError, OSError, subprocess.TimeoutExpired):
            run("virsh", "--quiet", "destroy", NAME)
        for program in reversed(self._started):
            program.send_signal(signal.SIGTERM)
        for program in reversed(self._started):
            try:
                program.wait(10)
            except subprocess.TimeoutExpired:
                program.kill()
        self.disk.unlink(missing_ok=True)

    def _libvirt(self) -> None:
        pathlib.Path("/etc/libvirt/qemu.conf").write_text(_QEMU)
        daemon = self._start("libvirtd")
        _until(lambda: run("virsh", "--quiet", "version"), "libvirtd", daemon)
        pool = self.folder / "media"
        pool.mkdir()
        run("virsh", "--quiet", "pool-define-as", "media", "dir", "--target", pool)
        run("virsh", "--quiet", "pool-start", "media")

    def _sushy(self) -> None:
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        state = self.folder / "bmc"
        state.mkdir()
        users = redfish.users(state, **{USER: PASSWORD})
        settings = state / "emulator.conf"
        settings.write_text(_SUSHY.format(port=port, state=str(state), users=str(users)))
        daemon = self._start(str(self._script("sushy-emulator")), "--config", str(settings))
        ask = requests.Session()
        ask.trust_env = False
        _until(lambda: ask.get(f"{address}/redfish/v1/", timeout=10).ok, "sushy-emulator", daemon)
        if self.takes_url:
            port = free_port()
            http_uri.serve(address, port, self.programs)
            address = f"http://127.0.0.1:{port}"
        self.driver_info = {
            "redfish_address": address,
            "redfish_system_id": f"/redfish/v1/Systems/{UUID}",
            "redfish_username": USER,
            "redfish_password": PASSWORD,
        }

    def _listen(self, heard: socket.socket) -> None:
        """Write down what comes for the port of TFTP, whether or not a server has it."""
        while True:
            packet = heard.recv(65536)
            datagram = packet[(packet[0] & 15) * 4 :]
            if int.from_bytes(datagram[2:4]) == _TFTP:
                with (self.folder / "tftp.log").open("ab") as file:
                    file.write(datagram[10:].replace(b"\0", b" ").strip() + b"\n")

    def _virtualbmc(self) -> None:
        state = self.folder / "bmc"
        (state / "config").mkdir(parents=True)
        settings = state / "virtualbmc.conf"
        settings.write_text(_VIRTUALBMC.format(state=state, port=free_port()))
        os.environ["VIRTUALBMC_CONFIG"] = str(settings)
        daemon = self._start(str(self._script("vbmcd")), "--foreground")
        script = self._script("vbmc")
        _until(lambda: run(script, "list"), "vbmcd", daemon)
        known = ("--username", USER, "--password", PASSWORD, "--libvirt-uri", "qemu:///system")
        run(script, "add", NAME, "--address", "127.0.0.1", "--port", str(_IPMI_PORT), *known)
        run(script, "start", NAME)
        self.driver_info = {
            "ipmi_address": "127.0.0.1",
            "ipmi_port": _IPMI_PORT,
            "ipmi_username": USER,
            "ipmi_password": PASSWORD,
            "ipmi_cipher_suite": "3",
        }

    def _script(self, name: str) -> pathlib.Path:
        return self.programs / "bin" / name

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"{pathlib.Path(words[0]).name}.log"
        with log.open("ab") as output:
            started = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._started.append(started)
        return started


@contextlib.contextmanager
def running(rack: Rack, dnsmasq: pathlib.Path) -> Iterator[Rack]:
    """Start a rack, and stop it at the end, however that comes."""
    try:
        rack.start(dnsmasq)
        yield rack
    finally:
        rack.stop()


def isolate() -> None:
    """Make this namespace's network, and hide the system's state of libvirt.

    :raises RuntimeError: this is the machine's own network.
    """
    there = [line.split()[1].rstrip(":") for line in run("ip", "-o", "link").splitlines()]
    if there != ["lo"]:
        raise RuntimeError(f"not in a network namespace of its own, see scripts/vm.sh: {there}")
    for folder in _PRIVATE:
        pathlib.Path(folder).mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "private", folder)
    _account()
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{ADDRESS}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")


def _account() -> None:
    """Let the user be known that libvirt looks for, and that only its set of units would bring."""
    for name, rest in (("passwd", "x:64055:64055::/:/bin/false"), ("group", "x:64055:")):
        told = pathlib.Path("/etc", name).read_text()
        if not re.search("^libvirt-qemu:", told, re.MULTILINE):
            own = pathlib.Path("/run", name)
            own.write_text(f"{told}libvirt-qemu:{rest}\n")
            run("mount", "--bind", own, f"/etc/{name}")


def _until(ask: Callable[[], object], about: str, daemon: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and daemon.poll() is None:
        with contextlib.suppress(RuntimeError, requests.RequestException):
            if ask():
                return
        time.sleep(0.2)
    how = "does not answer" if daemon.poll() is None else "has ended; see its log"
    raise RuntimeError(f"{about} {how}")
