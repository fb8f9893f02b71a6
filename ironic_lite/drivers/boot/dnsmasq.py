"""What dnsmasq is told of a node: one file per card, and one of options. Mostly pure.

dnsmasq reads files of its dhcp-hostsdir and dhcp-optsdir as soon as they are written, and nobody
has to tell it. Of a card whose file says ``ignore`` it takes no notice.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

from ironic_lite import config, errors
from ironic_lite.drivers import base
from ironic_lite.images import published

KNOWN = "ironic"
"""The tag of all cards of nodes that boot."""

BOOT_FILE = 67  # RFC 2132, 9.5
TFTP_NAME = 66  # RFC 2132, 9.4
TFTP_ADDRESS = 150  # RFC 5859
NEXT_SERVER = 255  # siaddr of RFC 2131, in dnsmasq's words


def host_line(address: str, tag: str) -> str:
    """Return the line of a card whose machine boots from the network."""
    return f"{address.lower()},set:{tag},set:{KNOWN}\n"


def ignored_line(address: str) -> str:
    """Return the line of a card whose machine does not."""
    return f"{address.lower()},ignore\n"


def option_lines(tag: str, files: Mapping[str, str], server: str) -> str:
    """Return the options of a node, a line each.

    :param files: condition -> boot file: a tag of dnsmasq, such as ``ipxe`` or ``!ipxe``, or "".
    :param server: the TFTP server's address.
    :raises errors.InvalidParameter: a name could be taken for two.
    """
    lines = []
    for condition, name in files.items():
        if "," in name or not name.isprintable():
            raise errors.InvalidParameter(path="boot file", reason=f"{name!r} has a comma")
        when = f"tag:{condition}," if condition else ""
        lines.append(f"tag:{tag},{when}{BOOT_FILE},{name}")
    lines += [f"tag:{tag},{option},{server}" for option in (TFTP_NAME, TFTP_ADDRESS, NEXT_SERVER)]
    return "".join(f"{line}\n" for line in lines)


def invite(node: base.Node, addresses: Sequence[str], files: Mapping[str, str]) -> None:
    """Have dnsmasq lead these cards to their boot files; nothing if it is not ours to tell.

    :raises errors.LocalFileError: a file cannot be written.
    """
    if config.CONF.dhcp.dhcp_provider != "dnsmasq":
        return
    # Options first: a card that is known and has none boots nothing.
    published.write(_options_file(node), option_lines(node.uuid, files, tftp_server()))
    for address in addresses:
        published.write(_host_file(address), host_line(address, node.uuid))


def turn_away(node: base.Node, addresses: Sequence[str]) -> None:
    """Have dnsmasq take no notice of these cards."""
    if config.CONF.dhcp.dhcp_provider != "dnsmasq":
        return
    for address in addresses:
        published.write(_host_file(address), ignored_line(address))
    published.remove(_options_file(node))


def tftp_server() -> str:
    """Return the address of the TFTP server.

    :raises errors.MissingParameter: no option says it.
    """
    given: str | None = config.CONF.pxe.tftp_server
    return given or published.host(published.base())


def _host_file(address: str) -> pathlib.Path:
    return pathlib.Path(config.CONF.dnsmasq.dhcp_hostsdir) / f"ironic-{address.lower()}.conf"


def _options_file(node: base.Node) -> pathlib.Path:
    return pathlib.Path(config.CONF.dnsmasq.dhcp_optsdir) / f"ironic-{node.uuid}.conf"
