"""Configuration of the servers that network boot needs, on Debian. Pure.

The files follow from this service's configuration, so both sides agree: dnsmasq for DHCP and TFTP,
a web server unless the conductor serves its files itself, and commands that install boot loaders.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ironic_lite.drivers.boot import loaders
from ironic_lite.drivers.boot import network as boot_network

DNSMASQ, NGINX, SETUP = "dnsmasq.conf", "nginx.conf", "setup.sh"
_MARK = "# Written by ironic-lite-netboot from the configuration of ironic-lite.\n"
_ARCHES: Mapping[str, Sequence[int]] = {"bios": (0,), "uefi": (7, 9)}
"""Client architectures of RFC 4578, 2.1: x86 with a BIOS; x86-64 with UEFI, as two numbers."""


class LoaderSource(NamedTuple):
    """Place of a boot loader in Debian."""

    package: str
    path: str


_MODULE = "ldlinux.c32"
"""A module without which pxelinux boots nothing."""
SOURCES: Mapping[str, LoaderSource] = {
    "undionly.kpxe": LoaderSource("ipxe", "/usr/lib/ipxe/undionly.kpxe"),
    "snponly.efi": LoaderSource("ipxe", "/usr/lib/ipxe/snponly.efi"),
    "ipxe.efi": LoaderSource("ipxe", "/usr/lib/ipxe/ipxe.efi"),
    "pxelinux.0": LoaderSource("pxelinux", "/usr/lib/PXELINUX/pxelinux.0"),
    _MODULE: LoaderSource("syslinux-common", "/usr/lib/syslinux/modules/bios/ldlinux.c32"),
    "bootx64.efi": LoaderSource(
        "grub-efi-amd64-signed", "/usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed"
    ),
}
"""Loaders by the default names of the options."""
GRUB = "http"
"""The boot interface whose loader is made, because the signed GRUB of Debian cannot read HTTP."""
_GRUB_PACKAGES = ("grub-common", "grub-efi-amd64-bin")
GRUB_FIRST = "configfile $prefix/grub.cfg"
"""The text in this GRUB."""
_MAKE_GRUB = (
    "grub-mkimage -O x86_64-efi -p /grub -c {first} -o {file} "
    "normal configfile linux echo test net efinet http tftp "
    "part_gpt part_msdos fat search search_fs_file chain minicmd"
)


@dataclasses.dataclass(frozen=True, slots=True)
class MachineNetwork:
    """The network of the machines.

    :param interface: of this machine, towards them.
    :param first: and ``last``: the address range for booting machines.
    :param router: their default gateway, None for none.
    """

    interface: str
    first: str
    last: str
    router: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class NetbootPlan:
    """The configuration of network boot.

    ``web_server`` is true if nginx is to serve ``http_root``: the conductor does not, and neither
    does another server with a certificate. ``loaders`` maps a boot mode to a file of ``tftp_root``,
    ``by_http`` a boot interface to a file of ``http_root``, the preferred one first. With iPXE,
    ``script`` is the URL of its first script, else None, and ``fallback`` the script of machines
    that no node has. ``plain`` loaders are files of ``tftp_root``, too; beside iPXE only if
    ``told``: dnsmasq reads files of each node. Only the conductor's user can enter ``state``.
    """

    state: pathlib.Path
    http_url: str
    http_root: pathlib.Path
    web_server: bool
    tftp_root: pathlib.Path
    loaders: Mapping[str, str]
    plain: Sequence[str]
    by_http: Mapping[str, str]
    script: str | None
    fallback: str | None
    told: bool
    hosts: pathlib.Path
    options: pathlib.Path


def files(plan: NetbootPlan, network: MachineNetwork) -> dict[str, str]:
    """Return the files to write: name -> text."""
    found = {DNSMASQ: dnsmasq_conf(plan, network), SETUP: setup(plan)}
    if plan.web_server:
        found[NGINX] = nginx_conf(plan)
    return found


def dnsmasq_conf(plan: NetbootPlan, network: MachineNetwork) -> str:
    """Return a configuration of dnsmasq for DHCP and TFTP."""
    lines = [
        "port=0",
        f"interface={network.interface}",
        "bind-interfaces",
        f"dhcp-range={network.first},{network.last},10m",
        f"dhcp-option=option:router{',' + network.router if network.router else ''}",
        *(("enable-tftp", f"tftp-root={plan.tftp_root}") if _needed_loaders(plan) else ()),
        "dhcp-match=set:ipxe,175",
        *(_by_node(plan) if plan.told else _for_all(plan)),
    ]
    return _MARK + "".join(f"{line}\n" for line in lines)


def _by_node(plan: NetbootPlan) -> list[str]:
    return [
        "# Machines that ironic-lite does not boot get no answer.",
        f"dhcp-ignore=tag:!{boot_network.KNOWN_TAG}",
        f"dhcp-hostsdir={plan.hosts}",
        f"dhcp-optsdir={plan.options}",
    ]


def _for_all(plan: NetbootPlan) -> list[str]:
    lines = [
        f"dhcp-match=set:{mode},option:client-arch,{arch}"
        for mode, numbers in _ARCHES.items()
        for arch in numbers
    ]
    other = "tag:!ipxe," if plan.script else ""
    lines += [f"dhcp-boot={other}tag:{mode},{name}" for mode, name in plan.loaders.items()]
    for name in list(plan.by_http.values())[:1]:
        lines += [
            f"dhcp-vendorclass=set:http,{boot_network.HTTP_CLIENT}",
            f"dhcp-option-force=tag:http,{boot_network.VENDOR_CLASS},{boot_network.HTTP_CLIENT}",
            f"dhcp-boot={other}tag:http,{plan.http_url}/{name}",
        ]
    return [*lines, f"dhcp-boot=tag:ipxe,{plan.script}"] if plan.script else lines


def nginx_conf(plan: NetbootPlan) -> str:
    """Return a server block of nginx for ``[deploy]http_root``."""
    parts = urllib.parse.urlsplit(plan.http_url)
    host = parts.netloc.rpartition(":")[0] if parts.port else parts.netloc
    prefix = parts.path.rstrip("/")
    place = f'alias "{plan.http_root}/";' if prefix else f'root "{plan.http_root}";'
    return (
        f"{_MARK}server {{\n"
        f"    listen {host}:{parts.port or 80};\n"
        f"    location {prefix}/ {{\n"
        f"        {place}\n"
        "        autoindex off;\n"
        "        # Links are not followed, except to the folder itself.\n"
        f'        disable_symlinks on "from={plan.http_root}";\n'
        "    }\n"
        "    # A client that knows the name of a medium can read it.\n"
        "    access_log off;\n"
        "    location ~ /\\. { deny all; }\n"
        "}\n"
    )


def setup(plan: NetbootPlan) -> str:
    """Return a shell script, run by root, that installs the packages and makes the folders."""
    http, tftp, state = (
        shlex.quote(str(path)) for path in (plan.http_root, plan.tftp_root, plan.state)
    )
    lines = [
        "#!/bin/sh",
        "# Run by root. OWNER is the user of the conductor.",
        "set -eu",
        "umask 022",
        'cd "$(dirname "$0")"',
        'owner="${OWNER:-ironic-lite}"',
        f"apt-get install -y --no-install-recommends {' '.join(_needed_packages(plan))}",
        f"[ -d {state} ] || install -d -m 700 {state}",
        f'chown "$owner" {state}',
        *(f'install -d -o "$owner" -m 755 {folder}' for folder in _quoted_folders(plan)),
        *_copy_commands(plan),
        f'chown -R "$owner" {http} {tftp}',
        f"cp {DNSMASQ} /etc/dnsmasq.d/ironic-lite.conf",
        "dnsmasq --test --conf-file=/etc/dnsmasq.d/ironic-lite.conf",
        "service dnsmasq restart",
    ]
    if plan.web_server:
        lines += [f"cp {NGINX} /etc/nginx/sites-enabled/ironic-lite.conf", "nginx -t"]
        lines += ["service nginx restart"]
    return "\n".join(lines) + "\n"


def _needed_loaders(plan: NetbootPlan) -> list[str]:
    """Return the files that ``tftp_root`` needs."""
    names = [*plan.loaders.values(), *plan.plain]
    return list(dict.fromkeys([*names, *([_MODULE] if "pxelinux.0" in names else [])]))


def _needed_packages(plan: NetbootPlan) -> list[str]:
    web = ["nginx-light"] if plan.web_server else []
    copied = [name for interface, name in plan.by_http.items() if interface != GRUB]
    found = [SOURCES[name].package for name in (*_needed_loaders(plan), *copied) if name in SOURCES]
    found += _GRUB_PACKAGES if GRUB in plan.by_http else ()
    return ["dnsmasq", *web, *dict.fromkeys(found)]


def _quoted_folders(plan: NetbootPlan) -> list[str]:
    folders = [plan.http_root, plan.tftp_root, plan.tftp_root / "pxelinux.cfg"]
    folders += [plan.tftp_root / "grub"] + ([plan.hosts, plan.options] if plan.told else [])
    folders += [plan.http_root / "grub"] if GRUB in plan.by_http else []
    return [shlex.quote(str(folder)) for folder in folders]


def _copy_commands(plan: NetbootPlan) -> list[str]:
    """Return the commands that install loaders and their first configuration files."""
    lines = [_copy_command(plan.tftp_root, name) for name in _needed_loaders(plan)]
    texts = {}
    if plan.script:
        texts[plan.http_root / boot_network.ENTRY] = loaders.ipxe_entry(plan.fallback)
    if plan.plain:
        texts[plan.tftp_root / boot_network.GRUB_ENTRY] = loaders.grub_entry()
    for interface, name in plan.by_http.items():
        if interface == GRUB:
            file = shlex.quote(str(plan.http_root / name))
            lines.append(f"echo {shlex.quote(GRUB_FIRST)} > grub-http.cfg")
            lines.append(_MAKE_GRUB.format(first="grub-http.cfg", file=file))
            texts[plan.http_root / boot_network.GRUB_ENTRY] = loaders.grub_entry()
        else:
            lines.append(_copy_command(plan.http_root, name))
    return lines + [
        f"cat > {shlex.quote(str(file))} <<'END'\n{text}END" for file, text in texts.items()
    ]


def _copy_command(folder: pathlib.Path, name: str) -> str:
    if name in SOURCES:
        return f"cp {SOURCES[name].path} {shlex.quote(str(folder / name))}"
    return "echo " + shlex.quote(f"Put the loader {name} into {folder} yourself.")
