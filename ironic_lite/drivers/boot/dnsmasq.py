"""What dnsmasq is told of a node: one file per card, and one of options. Mostly pure.

dnsmasq reads files of its dhcp-hostsdir and dhcp-optsdir as soon as they are written, and nobody
has to tell it. Of a card whose file says ``ignore`` it takes no notice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence

from ironic_lite import config, errors
from ironic_lite.drivers import base
from ironic_lite.images import leftovers, published

KNOWN = "ironic"
"""The tag of all cards of nodes that boot."""

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
    """A file for dnsmasq, as it was when it was found.

    ``address``: the card that it is about, None for the options of a node; ``node``: the node whose
    options it has or leads to, None if its card is ignored.
    """

    file: pathlib.Path
    address: str | None
    node: str | None
    stamp: tuple[int, int]


def told(before: float) -> Iterator[Told]:
    """Yield the files that dnsmasq was given.

    :param before: seconds since the epoch; what was written later is left out.
    """
    if config.CONF.dhcp.dhcp_provider != "dnsmasq":
        return
    conf = config.CONF.dnsmasq
    for folder, form in ((conf.dhcp_hostsdir, _HOST_FILE), (conf.dhcp_optsdir, _OPTIONS_FILE)):
        for file in pathlib.Path(folder).glob("ironic-*.conf"):
            about, stamp = form.fullmatch(file.name), leftovers.seen(file, before)
            if about and stamp:
                yield Told(file, *_said(file, about), stamp)


def _said(file: pathlib.Path, about: re.Match[str]) -> tuple[str | None, str | None]:
    facts = about.groupdict()
    if "node" in facts:
        return None, facts["node"]
    text = ""
    with contextlib.suppress(OSError), file.open("rb") as opened:
        text = opened.read(_LINE_BYTES).decode("ascii", "replace")
    leads = _LEADS.match(text)
    return facts["address"], leads and leads["node"]


def forget(one: Told) -> bool:
    """Take back what dnsmasq was told, unless it is told another thing by now; tell whether.

    A card that is led to a loader is ignored from now on: of a file that is gone dnsmasq remembers
    what it said until it is restarted. The file of one that is ignored goes.

    :raises errors.LocalFileError: it cannot be changed.
    """
    if leftovers.seen(one.file, float("inf")) != one.stamp:
        return False
    if one.address is not None and one.node is not None:
        published.write(one.file, ignored_line(one.address))
    else:
        published.remove(one.file)
    return True


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
