"""Run all of it: ``python -m tests.vm --folder FOLDER``, in the namespaces of ``scripts/vm.sh``."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import pathlib
import re
import shutil
import sys
import time
from collections.abc import Sequence

from ironic_lite.drivers.boot import servers
from tests.support import certificates
from tests.support.ports import free_port
from tests.support.service import SCRIPTS, Service
from tests.vm import journey, rack
from tests.vm.image import run
from tests.vm.story import Story

_BOOTS = ("redfish-virtual-media", "ipxe", "pxe", "http-ipxe", "http", "redfish-https")
_BY_DHCP = frozenset({"ipxe", "pxe", "http-ipxe", "http"})
_BY_DNSMASQ = _BY_DHCP - {"pxe"}
_LOADERS = {
    ("ipxe", "uefi"): ("snponly.efi",),
    ("ipxe", "bios"): ("undionly.kpxe",),
    ("pxe", "uefi"): ("bootx64.efi",),
    ("pxe", "bios"): ("pxelinux.0", "ldlinux.c32"),
}
"""What firmware is led to by TFTP."""
_HTTP_LOADERS = {
    "http-ipxe": {"snponly.efi": servers.SOURCES["snponly.efi"].path},
    "http": {"bootx64.efi": "{ramdisk}/grubhttp.efi"},
}
"""What the service itself copies for firmware that boots by HTTP."""
_SETTINGS = """\
clean_callback_timeout = {patience}
deploy_callback_timeout = {patience}
rescue_callback_timeout = {patience}
automated_clean_enable = {cleans}
deploy_kernel = file://{ramdisk}/agent.kernel
deploy_ramdisk = file://{ramdisk}/agent.initramfs
rescue_kernel = file://{ramdisk}/agent.kernel
rescue_ramdisk = file://{ramdisk}/agent.initramfs
bootloader = file://{ramdisk}/esp.img
file_url_allowed_paths = {folder}/images
[DEFAULT]
debug = {debug}
default_log_levels = sqlalchemy=WARNING,ironic_lite.conductor.fileserver=DEBUG
enabled_hardware_types = redfish,ipmi
enabled_boot_interfaces = redfish-virtual-media,redfish-https,{network_boot}
enabled_rescue_interfaces = agent,no-rescue
enabled_deploy_interfaces = direct
enabled_network_interfaces = noop
[api]
host = 0.0.0.0
allow_unauthenticated_bind = true
[service_catalog]
endpoint_override = http://{address}:{api}
[deploy]
http_host = {address}
http_port = {http}
shred_random_overwrite_iterations = 0
erase_skip_read_only = true
[ipmi]
allowed_networks = 0.0.0.0/0
[redfish]
allowed_networks = 0.0.0.0/0
kernel_append_params = console=ttyS0
[pxe]
kernel_append_params = console=ttyS0
tftp_root = {folder}/tftp
loader_file_paths = {loaders}
{retries}[dhcp]
dhcp_provider = {dhcp}
[dnsmasq]
dhcp_hostsdir = {folder}/dhcp-hosts
dhcp_optsdir = {folder}/dhcp-options
[agent]
api_ca_file = {folder}/authority.pem
allowed_networks = 0.0.0.0/0
image_download_source = local
enable_bios_bootloader_install = true
deploy_logs_local_path = {folder}/agent-logs
deploy_logs_collect = always
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run it, print the story, and return 0 if all went well."""
    asked = _asked(words)
    folder: pathlib.Path = asked.folder / "run"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("images", "tftp", "dhcp-hosts", "dhcp-options"):
        (folder / name).mkdir(parents=True)
    start = time.monotonic()
    story = Story(lambda: time.monotonic() - start, functools.partial(print, flush=True))
    rack.isolate()
    up = _service(folder, asked)
    machine = rack.Rack(folder, asked.folder / "venv", asked.accelerator, asked.memory)
    machine.more_disks = asked.life == journey.ERASURE
    machine.driver, machine.firmware = asked.bmc, asked.firmware
    machine.takes_url = asked.boot == "redfish-https"
    try:
        with rack.running(machine, _dnsmasq(folder, up, asked)):
            fault = _lead(up, machine, story, asked)
    finally:
        up.clear()
    told = [*_head(asked), *story.lines, *fault]
    (folder / "story.txt").write_text("\n".join(told) + "\n")
    print(f"\nkept in {folder}: story.txt, serial.log, ironic-lite-0.log")
    return 1 if fault else 0


def _lead(up: Service, machine: rack.Rack, story: Story, asked: argparse.Namespace) -> list[str]:
    """Return what went wrong, as lines."""
    up.start()
    up.up()
    story.say(f"service, BMC and network are up, load {os.getloadavg()[0]:.1f}")
    image = asked.folder / "system/system.raw" if asked.image == "partition" else asked.image
    chosen = journey.Way(asked.boot, asked.life, image, asked.patience)
    way = journey.Journey(up, machine, story, up.folder / "images", chosen)
    fault = []
    try:
        way.lead()
        story.say("all as it should be")
    except (journey.Failed, RuntimeError, OSError) as why:
        story.say(f"FAILED: {why}")
        fault = ["", "the end of the serial line:", *_plain(machine.serial)[-25:]]
    recorded = ["", "What the service has recorded:", ""]
    with contextlib.suppress(journey.Failed, OSError):
        recorded += way.record()
    print("\n".join([*recorded, *fault]))
    story.lines += recorded
    return fault


def _service(folder: pathlib.Path, asked: argparse.Namespace) -> Service:
    up = Service(folder)
    certificates.write(folder, 100, "authority")
    found = _HTTP_LOADERS.get(asked.boot, {})
    loaders = {name: path.format(ramdisk=asked.folder / "ramdisk") for name, path in found.items()}
    more = _SETTINGS.format(
        folder=folder,
        ramdisk=asked.folder / "ramdisk",
        address=rack.ADDRESS,
        api=up.port,
        http=free_port(),
        patience=int(asked.patience),
        debug=asked.debug,
        dhcp=asked.dhcp,
        cleans=asked.life in journey.CLEANED,
        network_boot=asked.boot if asked.boot in _BY_DHCP else "ipxe",
        loaders=",".join(f"{name}:{path}" for name, path in loaders.items()),
        retries=_retries(asked),
    )
    with up.settings.open("a") as file:
        file.write(more)
    return up


def _retries(asked: argparse.Namespace) -> str:
    """Return the options that start a machine again; an emulated one boots for minutes."""
    if asked.life != journey.BOOT_RETRY:
        return ""
    seconds = 60 if asked.accelerator == "kvm" else int(asked.patience / 2)
    return f"boot_retry_timeout = {seconds}\nboot_retry_check_interval = 5\n"


def _dnsmasq(folder: pathlib.Path, up: Service, asked: argparse.Namespace) -> pathlib.Path:
    """Have our own program write the configuration, and put loaders where it says."""
    for name in _LOADERS.get((asked.boot, asked.firmware), ()):
        shutil.copy(servers.SOURCES[name].path, folder / "tftp" / name)
    where = ("--folder", folder / "netboot", "--interface", rack.BRIDGE, "--range", rack.RANGE)
    run(SCRIPTS / "ironic-lite-netboot", "--config-file", up.settings, "write", *where)
    return folder / "netboot" / "dnsmasq.conf"


def _asked(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make vm-test ARGS=", description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--boot", choices=_BOOTS, help=f"boot interface, {_BOOTS[0]}")
    parser.add_argument("--bmc", choices=("redfish", "ipmi"), default="redfish")
    parser.add_argument("--firmware", choices=("uefi", "bios"), default="uefi")
    parser.add_argument("--life", choices=list(journey.LIVES), default="whole")
    parser.add_argument("--image", choices=("whole-disk", "partition"), default="whole-disk")
    parser.add_argument("--dhcp", choices=("none", "dnsmasq"), help="[dhcp]dhcp_provider")
    parser.add_argument("--accelerator", choices=("qemu", "kvm"), default="qemu")
    parser.add_argument("--memory", type=int, default=1536, help="MiB of the machine")
    parser.add_argument("--patience", type=float, default=1200, help="seconds a verb may take")
    parser.add_argument("--debug", action="store_true", help="log all that the service does")
    asked = parser.parse_args(words)
    own = journey.BOOTED_BY.get(asked.life)
    if own and (asked.boot not in (None, own) or asked.firmware != "uefi"):
        parser.error(f"--life {asked.life} needs UEFI and --boot {own}")
    asked.boot = asked.boot or own or _BOOTS[0]
    asked.dhcp = asked.dhcp or ("dnsmasq" if asked.boot in _BY_DNSMASQ else "none")
    return asked


def _head(asked: argparse.Namespace) -> list[str]:
    qemu = run("qemu-system-x86_64", "--version").splitlines()[0]
    kind = "emulated processor" if asked.accelerator == "qemu" else "KVM"
    return [
        f"BMC: {asked.bmc}; firmware: {asked.firmware}; boot: {asked.boot}; image: {asked.image}; "
        f"{qemu}, {kind}, {asked.memory} MiB; host with {os.cpu_count()} processors",
        "",
    ]


def _plain(text: str) -> list[str]:
    """Return lines without the colours and moves of a terminal."""
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text).splitlines()
    return [line for line in lines if line.strip()]


if __name__ == "__main__":
    sys.exit(main())
