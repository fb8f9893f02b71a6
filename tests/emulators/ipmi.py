"""A BMC that nobody here wrote: ipmi_sim of the package openipmi, with the power of a machine.

What it does not have: it stores of a boot device only which it is (not for how long, nor the mode),
refuses the diagnostic interrupt, and does not say which cipher suites it takes (3, not 17).
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import types
from typing import Any

NEEDED = ("ipmi_sim", "ipmitool")
USER, PASSWORD = "admin", "pass-of-the-bmc"
ADDRESS = "127.0.0.1"
_START_SECONDS = 20.0
_PORTS = 3

_LAN = """\
name "bmc"
startlan 1
  addr {address} {port}
  priv_limit admin
  allowed_auths_callback md5
  allowed_auths_user md5
  allowed_auths_operator md5
  allowed_auths_admin md5
  guid a123456789abcdefa123456789abcdef
  {key}
endlan
{sol}
chassis_control "{folder}/chassis 0x20"
user 1 false "" "" user 1
user 2 true "{user}" "{password}" admin 10
user 3 true "guest" "{password}" user 10
"""

# One controller, and a thermometer: where it is, and the record that describes it.
_MACHINE = """\
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
sensor_add 0x20 0 1 1 1
sensor_set_value 0x20 0 1 0x24 0
main_sdr_add 0x20 {record}
mc_enable 0x20
"""
_RECORD = (
    "000051012f200001030167880101c07fc07f3f3f0001000001000000000000"
    "306010ff00504846080c100202000000c454656d70"
)

# Called as: chassis 0x20 get NAME..., or: chassis 0x20 set NAME VALUE...
_CHASSIS = """\
#!/bin/sh
cd "{folder}" || exit 1
shift
verb=$1
shift
if [ "$verb" = get ]; then
    for name in "$@"; do
        echo "$name:$(cat "$name")"
    done
    exit 0
fi
echo "$*" >> actions
while [ $# -gt 1 ]; do
    case "$1" in
        power | boot) [ -e stuck ] || echo "$2" > "$1" ;;
        shutdown) [ -e stuck ] || echo 0 > power ;;
    esac
    shift 2
done
"""

# RMCP, no session, Get Channel Authentication Capabilities.
_PROBE = bytes.fromhex("0600ff07 00 00000000 00000000 09 2018c8810038 0e0435")


@dataclasses.dataclass
class Bmc:
    """A running BMC, as a context manager; the machine behind it is off.

    :param key: the BMC key (Kg), ASCII.
    :param serial: the TCP port of what is behind the machine's serial port, or None.
    """

    folder: pathlib.Path
    key: str = ""
    serial: int | None = None
    port: int = 0
    _process: subprocess.Popen[bytes] | None = dataclasses.field(default=None, repr=False)

    def driver_info(self, **values: Any) -> dict[str, Any]:
        """Return what a node's driver_info says of it."""
        return {
            "ipmi_address": ADDRESS,
            "ipmi_port": self.port,
            "ipmi_username": USER,
            "ipmi_password": PASSWORD,
            "ipmi_cipher_suite": 3,
            **values,
        }

    # -- the machine ----------------------------------------------------------------------

    @property
    def power(self) -> bool:
        """Return whether the machine is on."""
        return (self.folder / "power").read_text().strip() == "1"

    @power.setter
    def power(self, on: bool) -> None:
        (self.folder / "power").write_text(f"{int(on)}\n")

    @property
    def boot(self) -> str:
        """The boot device: none, pxe, default, cdrom, bios."""
        return (self.folder / "boot").read_text().strip()

    @property
    def actions(self) -> list[str]:
        """The commands that the machine got, such as ``"power 1"`` or ``"boot pxe"``."""
        path = self.folder / "actions"
        return path.read_text().splitlines() if path.exists() else []

    def jam(self) -> None:
        """Let the machine ignore what it is told from now on."""
        (self.folder / "stuck").touch()

    # -- the BMC --------------------------------------------------------------------------

    def __enter__(self) -> Bmc:
        (self.folder / "power").write_text("0\n")
        (self.folder / "boot").write_text("none\n")
        script = self.folder / "chassis"
        script.write_text(_CHASSIS.format(folder=self.folder))
        script.chmod(0o755)
        record = bytes.fromhex(_RECORD)
        text = _MACHINE.format(record=" ".join(f"0x{byte:02x}" for byte in record))
        (self.folder / "machine").write_text(text)
        for _ in range(_PORTS):
            self.port = _free_port()
            if self.start():
                return self
        raise RuntimeError(f"ipmi_sim does not start: {(self.folder / 'log').read_text()}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> bool:
        """Start it at its port; False if it ends at once or stays silent."""
        lan = _LAN.format(
            address=ADDRESS,
            port=self.port,
            folder=self.folder,
            user=USER,
            password=PASSWORD,
            key=f'bmc_key "{self.key}"' if self.key else "",
            sol=f'sol "tcp:{ADDRESS}:{self.serial}" 115200' if self.serial else "",
        )
        (self.folder / "lan").write_text(lan)
        (self.folder / "state").mkdir(exist_ok=True)
        command = ["ipmi_sim", "-n", "-c", "lan", "-f", "machine", "-s", "state"]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                # It ends with this process, however that ends.
                ["setpriv", "--pdeathsig", "KILL", *command],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            if _answers(self.port):
                return True
        self.stop()
        return False

    def stop(self) -> None:
        """Stop it for good, or until `start`; the machine goes on."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def hang(self) -> None:
        """Let it keep its port and not answer any more."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGSTOP)


def missing() -> list[str]:
    """Return the programs that are needed and not installed."""
    return [program for program in NEEDED if shutil.which(program) is None]


def _free_port() -> int:
    with socket.socket(type=socket.SOCK_DGRAM) as free:
        free.bind((ADDRESS, 0))
        return int(free.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket(type=socket.SOCK_DGRAM) as asker:
        asker.settimeout(0.1)
        try:
            asker.connect((ADDRESS, port))
            asker.send(_PROBE)
            return bool(asker.recv(1024))
        except OSError:
            time.sleep(0.02)
            return False
