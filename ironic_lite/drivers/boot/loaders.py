"""The texts that boot loaders read, one function each. Pure.

The words of a command line come from `parameters.words`, which has refused what no loader can be
given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LABEL = "VMEDIA_BOOT_ISO"
"""The volume label of media made here; ramdisks know media of this service by it."""

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]*")
_PARAMETER = re.compile(r'(?:[^\s"]|"[^"]*"?)+')


def grub_quoted(word: str) -> str:
    """Return a word as GRUB's shell takes it for one (GRUB manual, Quoting)."""
    if _PLAIN.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def _parameters(words: Sequence[str]) -> list[str]:
    """Return kernel parameters as GRUB wants them: one word each, without quotes.

    GRUB puts those with spaces into quotes itself, and a backslash before quotes that are there,
    which no kernel understands.
    """
    return [found.replace('"', "") for found in _PARAMETER.findall(" ".join(words))]


def grub(kernel: str, ramdisk: str, words: Sequence[str], *, label: str | None = None) -> str:
    """Return a grub.cfg that starts a kernel at once.

    :param kernel: paths as GRUB knows them.
    :param label: of the medium they are on, None for the device GRUB itself came from.
    """
    line = " ".join(map(grub_quoted, _parameters(words)))
    search = f"search --no-floppy --set=root --label {label}\n" if label else ""
    return (
        "set default=0\nset timeout=0\n"
        f"{search}"
        'menuentry "ramdisk" {\n'
        f"    linux {kernel} {line}\n"
        f"    initrd {ramdisk}\n"
        "}\n"
    )


def syslinux(kernel: str, ramdisk: str, words: Sequence[str]) -> str:
    """Return an isolinux.cfg, or a file of pxelinux.cfg, that starts a kernel at once."""
    return (
        "DEFAULT ramdisk\nPROMPT 0\nTIMEOUT 1\n"
        "LABEL ramdisk\n"
        f"    KERNEL {kernel}\n"
        f"    INITRD {ramdisk}\n"
        f"    APPEND {' '.join(words)}\n"
    )


def ipxe(kernel: str, ramdisk: str, words: Sequence[str]) -> str:
    """Return an iPXE script that starts a kernel, and tries again for as long as it cannot.

    :param kernel: URLs.
    """
    return _insisting(
        # A kernel started by UEFI looks for its ramdisk by this name.
        f"kernel --name vmlinuz {kernel} initrd=initrd {' '.join(words)} || goto failed\n"
        f"initrd --name initrd {ramdisk} || goto failed\n"
        "boot || goto failed\n",
        "the ramdisk",
    )


def ipxe_iso(url: str) -> str:
    """Return an iPXE script that boots a whole image as a disk, and tries again as `ipxe` does.

    The firmware reads the image through iPXE, and so does the loader on it; what it starts must
    bring all it needs along, or fetch it.
    """
    return _insisting(f"sanboot {url} || goto failed\n", "the image")


def _insisting(lines: str, what: str) -> str:
    return (
        "#!ipxe\n"
        "set retries:int32 0\n"
        ":load\n"
        "imgfree ||\n"
        f"{lines}"
        ":failed\n"
        "inc retries\n"
        f"echo Loading {what} failed, try ${{retries}}\n"
        "sleep 5\n"
        "iseq ${retries} 10 || goto load\n"
        "reboot\n"
    )


def ipxe_local() -> str:
    """Return an iPXE script that leaves the machine to its disk."""
    return "#!ipxe\niseq ${platform} efi && exit || sanboot --no-describe --drive 0x80 || exit\n"


def ipxe_entry() -> str:
    """Return boot.ipxe: it leads each machine to the script of one of its cards."""
    return (
        "#!ipxe\n"
        "isset ${mac:hexhyp} && chain --autofree pxelinux.cfg/${mac:hexhyp} ||\n"
        ":next\n"
        "isset ${n} || set n:int32 0\n"
        "isset ${net${n}/mac} || goto none\n"
        "chain --autofree pxelinux.cfg/${net${n}/mac:hexhyp} ||\n"
        "inc n\n"
        "goto next\n"
        ":none\n"
        "echo No boot script for this machine; trying its disk.\n"
        "sleep 3\n"
        "iseq ${platform} efi && exit || sanboot --no-describe --drive 0x80 || exit\n"
    )


def grub_entry() -> str:
    """Return the grub.cfg of a TFTP server: it leads each machine to the file of its card."""
    return (
        "set default=0\nset timeout=3\n"
        'menuentry "by address" {\n'
        "    configfile /$net_default_mac.conf\n"
        "}\n"
    )
