"""``ironic-lite-netboot``: configuration files for DHCP, TFTP and web servers."""

from __future__ import annotations

from ironic_lite.core import threads
from ironic_lite.core.options import Configuration

threads.native()  # before anything imports an oslo library

import argparse  # noqa: E402
import ipaddress  # noqa: E402
import pathlib  # noqa: E402
import re  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

from oslo_config import cfg  # noqa: E402

from ironic_lite import errors  # noqa: E402
from ironic_lite.checks import machine  # noqa: E402
from ironic_lite.cmd import entry  # noqa: E402
from ironic_lite.core import config  # noqa: E402
from ironic_lite.drivers.boot import network as boot_network  # noqa: E402
from ironic_lite.drivers.boot import servers  # noqa: E402
from ironic_lite.images import published  # noqa: E402

PROG = "ironic-lite-netboot"
ABOUT = (
    "Print, or write, a working setup of the servers that network boot needs on Debian: dnsmasq "
    "for DHCP and TFTP; nginx, unless the conductor serves its files itself or [deploy]http_url is "
    "https; and a script that installs them."
)
_UNREADABLE = (
    "[deploy]http_root: {root} is in {state}, which other web servers cannot enter, because the "
    "service keeps its secrets there; set a folder of its own, such as /srv/ironic-lite/http, or "
    "set [deploy]http_port so that the conductor serves it"
)


def plan(conf: Configuration) -> servers.NetbootPlan:
    """Return the configured parameters of network boot.

    :raises config.ConfigError: network boot is not enabled, the paths of files are missing, or the
        files are where another web server could not read them.
    """
    enabled = set(conf.enabled_boot_interfaces)
    if not enabled & machine.NETWORK_BOOT:
        known = ", ".join(sorted(machine.NETWORK_BOOT))
        reason = f"[DEFAULT]enabled_boot_interfaces: has none of {known}"
        raise config.ConfigError(reason=reason)
    told = conf.dhcp.dhcp_provider == "dnsmasq"
    plain = {"bios": conf.pxe.pxe_bootfile_name, "uefi": conf.pxe.uefi_pxe_bootfile_name}
    names = {"bios": conf.pxe.ipxe_bootfile_name, "uefi": conf.pxe.uefi_ipxe_bootfile_name}
    by_tftp = names if "ipxe" in enabled else plain if "pxe" in enabled else {}
    by_http = {"http-ipxe": names["uefi"], "http": plain["uefi"]}
    try:
        url = published.base()
    except errors.MissingParameter as why:
        raise config.ConfigError(reason=why.message) from None
    state, given = pathlib.Path(conf.state_path), conf.deploy.http_root
    root, own_server = pathlib.Path(given or state / "http"), conf.deploy.http_port is not None
    if not own_server and state in root.parents:
        raise config.ConfigError(reason=_UNREADABLE.format(root=root, state=state))
    return servers.NetbootPlan(
        state=state,
        http_url=url,
        http_root=root,
        web_server=not own_server and not url.lower().startswith("https:"),
        tftp_root=pathlib.Path(conf.pxe.tftp_root),
        loaders=by_tftp,
        plain=list(plain.values()) if "pxe" in enabled and (told or by_tftp is plain) else [],
        by_http={name: loader for name, loader in by_http.items() if name in enabled},
        script=f"{url}/{boot_network.ENTRY}" if enabled & {"ipxe", "http-ipxe"} else None,
        fallback=conf.pxe.ipxe_fallback_script,
        told=told,
        hosts=pathlib.Path(conf.dnsmasq.dhcp_hostsdir),
        options=pathlib.Path(conf.dnsmasq.dhcp_optsdir),
    )


def _write_files(conf: cfg.ConfigOpts) -> int:
    asked = conf.command
    first, last = asked.range
    network = servers.MachineNetwork(asked.interface, first, last, asked.router)
    found = servers.files(plan(conf), network)
    if asked.name == "show":
        for name, text in found.items():
            print(f"### {name}\n{text}")
        return 0
    folder = pathlib.Path(asked.folder)
    for name, text in found.items():
        published.write(folder / name, text)
        print(folder / name)
    return 0


def _add_commands(commands: Any) -> None:
    for name, about in (("show", "print the files"), ("write", "write them into a folder")):
        parser = commands.add_parser(name, help=about, description=about)
        parser.add_argument(
            "--interface", required=True, type=_read_interface, help="to the machines, such as eth1"
        )
        parser.add_argument(
            "--range",
            required=True,
            type=_read_range,
            help="addresses for booting machines, as first,last",
        )
        parser.add_argument(
            "--router", type=_read_address, help="their gateway (default: no gateway)"
        )
        if name == "write":
            parser.add_argument("--folder", default=".", help="default: here")


def _read_interface(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,15}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an interface name")
    return text


def _read_address(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an IPv4 address") from None


def _read_range(text: str) -> tuple[str, str]:
    first, comma, last = text.partition(",")
    found = _read_address(first.strip()), _read_address(last.strip())
    if not comma or ipaddress.IPv4Address(found[0]) > ipaddress.IPv4Address(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form first,last")
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    command = cfg.SubCommandOpt(
        "command", title="Commands", help="The command to run.", handler=_add_commands
    )
    sys.exit(entry.run(PROG, ABOUT, _write_files, argv, cli_opts=[command]))


if __name__ == "__main__":
    main()
