"""The boot interface ``ipxe``: iPXE itself by TFTP, everything else by HTTP."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import dnsmasq, loaders, network, parameters
from ironic_lite.images import published

ENTRY = "boot.ipxe"
"""The script that a DHCP server names; it chains to the machine's own script."""


class IPXEBoot(network.NetworkBoot):
    """Boot scripts by card address, below ``[deploy]http_root``."""

    boots_iso: ClassVar[bool] = True

    def root(self) -> pathlib.Path:
        """Return ``[deploy]http_root``."""
        return published.root()

    def texts(
        self, node: base.Node, addresses: Sequence[str], words: Sequence[str]
    ) -> Mapping[str, str]:
        """Return a script for each card, and the entry script."""
        kernel, ramdisk = (published.url(f"{node.uuid}/{part}") for part in network.PARTS)
        scripts = {
            _script_name(address): loaders.ipxe(kernel, ramdisk, network.with_card(words, address))
            for address in addresses
        }
        return {ENTRY: loaders.ipxe_entry(), **scripts}

    def texts_of_iso(self, node: base.Node, addresses: Sequence[str]) -> Mapping[str, str]:
        """Return the same script for each card, and the entry script."""
        script = loaders.ipxe_iso(published.url(f"{node.uuid}/{network.ISO}"))
        return {
            ENTRY: loaders.ipxe_entry(),
            **{_script_name(address): script for address in addresses},
        }

    def names(self, node: base.Node, addresses: Iterable[str]) -> Sequence[str]:
        """Return the scripts of the cards."""
        return [_script_name(address) for address in addresses]

    def boot_files(self, node: base.Node) -> Mapping[str, str]:
        """Return iPXE for other loaders, and the entry script for iPXE."""
        conf = config.CONF.pxe
        names = {"bios": conf.ipxe_bootfile_name, "uefi": conf.uefi_ipxe_bootfile_name}
        loader = network.loader(node, names, conf.ipxe_bootfile_name_by_arch)
        return {"!ipxe": loader, "ipxe": published.url(ENTRY)}

    def check_settings(self) -> None:
        """Check that the options name the HTTP and TFTP servers."""
        published.base()
        dnsmasq.tftp_server()


def _script_name(address: str) -> str:
    return f"pxelinux.cfg/{parameters.dashed(address)}"
