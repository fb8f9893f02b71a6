"""The boot interface ``pxe``: everything by TFTP, for machines that cannot run iPXE."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence

from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import dnsmasq, loaders, modes, network, parameters

GRUB_ENTRY = "grub/grub.cfg"
"""The first file that GRUB reads; it loads the file of the machine's card."""


class PXEBoot(network.NetworkBoot):
    """Files by card address below ``[pxe]tftp_root``, for pxelinux and GRUB."""

    def root(self) -> pathlib.Path:
        """Return ``[pxe]tftp_root``."""
        return pathlib.Path(config.CONF.pxe.tftp_root)

    def texts(
        self, node: base.Node, addresses: Sequence[str], words: Sequence[str]
    ) -> Mapping[str, str]:
        """Return a file for each card, for the loader of the node's boot mode."""
        kernel, ramdisk = (f"/{node.uuid}/{part}" for part in network.PARTS)
        lines = {address: network.with_card(words, address) for address in addresses}
        if modes.wanted(node) == "bios":
            return {
                _pxelinux_file(address): loaders.syslinux(kernel, ramdisk, line)
                for address, line in lines.items()
            }
        files = {
            _grub_file(address): loaders.grub(kernel, ramdisk, line)
            for address, line in lines.items()
        }
        return {GRUB_ENTRY: loaders.grub_entry(), **files}

    def names(self, node: base.Node, addresses: Iterable[str]) -> Sequence[str]:
        """Return the files of both loaders."""
        return [name(address) for address in addresses for name in (_pxelinux_file, _grub_file)]

    def boot_files(self, node: base.Node) -> Mapping[str, str]:
        """Return the loader of the node's boot mode and architecture."""
        conf = config.CONF.pxe
        names = {"bios": conf.pxe_bootfile_name, "uefi": conf.uefi_pxe_bootfile_name}
        return {"": network.loader(node, names, conf.pxe_bootfile_name_by_arch)}

    def check_settings(self) -> None:
        """Check that an option names the TFTP server."""
        if config.CONF.dhcp.dhcp_provider == "dnsmasq":
            dnsmasq.tftp_server()


def _pxelinux_file(address: str) -> str:
    return f"pxelinux.cfg/01-{parameters.dashed(address)}"


def _grub_file(address: str) -> str:
    return f"{address.lower()}.conf"
