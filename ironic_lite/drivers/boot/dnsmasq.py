"""Files for dnsmasq: one host file per card, and one options file per node. Mostly pure.

dnsmasq reads new files in its dhcp-hostsdir and dhcp-optsdir by itself. It ignores a card whose
file says ``ignore``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.images import node_files, published

KNOWN = "ironic"
"""The tag of all cards of booting nodes."""

BOOT_FILE = 67  # RFC 2132, 9.5
TFTP_NAME = 66  # RFC 2132, 9.4
TFTP_ADDRESS = 150  # RFC 5859
NEXT_SERVER = 255  # siaddr of RFC 2131, in dnsmasq's words

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_HOST_FILE = re.compile(r"ironic-(?P<address>[0-9a-f]{2}(?::[0-9a-f]{2}){5})\.conf")
_OPTIONS_FILE = re.compile(rf"ironic-(?P<node>{_UUID})\.conf")
_LEADS = re.compile(rf"[0-9a-f:]+,set:(?P<node>{_UUID}),")
_LINE_BYTES = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """A dnsmasq file as it was found.

    ``address``: the card of the file, None for the options of a node. ``node``: the node of the
    options that the file has or refers to, None for an ignored card.
    """

    file: pathlib.Path
    address: str | None
    node: str | None
    stamp: tuple[int, int]


def told(before: float) -> Iterator[Told]:
    """Yield the existing dnsmasq files.

    :param before: seconds since the epoch; files written later are left out.
    """
    if config.CONF.dhcp.dhcp_provider != "dnsmasq":
        return
    conf = config.CONF.dnsmasq
    for folder, form in ((conf.dhcp_hostsdir, _HOST_FILE), (conf.dhcp_optsdir, _OPTIONS_FILE)):
        for file in pathlib.Path(folder).glob("ironic-*.conf"):
            about, stamp = form.fullmatch(file.name), node_files.seen(file, before)
            if about and stamp:
                yield Told(file, *_lease_facts(file, about), stamp)


def _lease_facts(file: pathlib.Path, about: re.Match[str]) -> tuple[str | None, str | None]:
    facts = about.groupdict()
    if "node" in facts:
        return None, facts["node"]
    text = ""
    with contextlib.suppress(OSError), file.open("rb") as opened:
        text = opened.read(_LINE_BYTES).decode("ascii", "replace")
    leads = _LEADS.match(text)
    return facts["address"], leads and leads["node"]


def forget(one: Told) -> bool:
    """Withdraw a dnsmasq file, unless its content has changed; return whether it was withdrawn.

    A card with a boot loader is set to ignored, because dnsmasq remembers deleted files until its
    restart. The file of an ignored card is deleted.

    :raises errors.LocalFileError: the file cannot be changed.
    """
    if node_files.seen(one.file, float("inf")) != one.stamp:
        return False
    if one.address is not None and one.node is not None:
        published.write(one.file, ignored_line(one.address))
    else:
        published.remove(one.file)
    return True


def host_line(address: str, tag: str) -> str:
    """Return the host line of a card that boots from the network."""
    return f"{address.lower()},set:{tag},set:{KNOWN}\n"


def ignored_line(address: str) -> str:
    """Return the host line of a card that does not boot from the network."""
    return f"{address.lower()},ignore\n"


def option_lines(tag: str, files: Mapping[str, str], server: str) -> str:
    """Return the options of a node, one per line.

    :param files: condition -> boot file: a tag of dnsmasq, such as ``ipxe`` or ``!ipxe``, or "".
    :param server: the TFTP server's address.
    :raises errors.InvalidParameter: a file name has a comma, which separates options, or a
        character that cannot be printed.
    """
    lines = []
    for condition, name in files.items():
        if "," in name or not name.isprintable():
            reason = f"{name!r} has a comma or a character that cannot be printed"
            raise errors.InvalidParameter(path="boot file", reason=reason)
        when = f"tag:{condition}," if condition else ""
        lines.append(f"tag:{tag},{when}{BOOT_FILE},{name}")
    lines += [f"tag:{tag},{option},{server}" for option in (TFTP_NAME, TFTP_ADDRESS, NEXT_SERVER)]
    return "".join(f"{line}\n" for line in lines)


def invite(node: base.Node, addresses: Sequence[str], files: Mapping[str, str]) -> None:
    """Make dnsmasq offer these cards their boot files; do nothing if dnsmasq is not managed.

    :raises errors.LocalFileError: a file cannot be written.
    """
    if config.CONF.dhcp.dhcp_provider != "dnsmasq":
        return
    # Options first, because a known card without options boots nothing.
    published.write(_options_file(node), option_lines(node.uuid, files, tftp_server()))
    for address in addresses:
        published.write(_host_file(address), host_line(address, node.uuid))


def ignore_cards(node: base.Node, addresses: Sequence[str]) -> None:
    """Make dnsmasq ignore these cards."""
    if config.CONF.dhcp.dhcp_provider != "dnsmasq":
        return
    for address in addresses:
        published.write(_host_file(address), ignored_line(address))
    published.remove(_options_file(node))


def tftp_server() -> str:
    """Return the address of the TFTP server.

    :raises errors.MissingParameter: no option names it.
    """
    given: str | None = config.CONF.pxe.tftp_server or config.CONF.my_ip
    return given or published.host(published.base())


def _host_file(address: str) -> pathlib.Path:
    return pathlib.Path(config.CONF.dnsmasq.dhcp_hostsdir) / f"ironic-{address.lower()}.conf"


def _options_file(node: base.Node) -> pathlib.Path:
    return pathlib.Path(config.CONF.dnsmasq.dhcp_optsdir) / f"ironic-{node.uuid}.conf"
