"""Configuration texts for boot loaders, one function each. Pure.

The words of a command line come from `parameters.words`, which rejects words that a loader would
misread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LABEL = "VMEDIA_BOOT_ISO"
"""The volume label of media made here, by which ramdisks recognize them."""

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]*")
_PARAMETER = re.compile(r'(?:[^\s"]|"[^"]*"?)+')


def grub_quoted(word: str) -> str:
    """Return a word quoted for GRUB's shell (GRUB manual, Quoting)."""
    if _PLAIN.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def _grub_parameters(words: Sequence[str]) -> list[str]:
    """Return kernel parameters for GRUB: one word each, without quotes.

    GRUB quotes parameters with spaces itself. It puts a backslash before existing quotes, which no
    kernel understands.
    """
    return [found.replace('"', "") for found in _PARAMETER.findall(" ".join(words))]


def grub(kernel: str, ramdisk: str, words: Sequence[str], *, label: str | None = None) -> str:
    """Return a grub.cfg that starts a kernel at once.

    :param kernel: path as GRUB sees it, like ``ramdisk``.
    :param label: of the medium with the files, None for the device of GRUB itself.
    """
    line = " ".join(map(grub_quoted, _grub_parameters(words)))
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
    """Return an iPXE script that starts a kernel, and retries on failure.

    :param kernel: URL, like ``ramdisk``.
    """
    return _retrying_script(
        # A kernel started by UEFI looks for its ramdisk under this name.
        f"kernel --name vmlinuz {kernel} initrd=initrd {' '.join(words)} || goto failed\n"
        f"initrd --name initrd {ramdisk} || goto failed\n"
        "boot || goto failed\n",
        "the ramdisk",
    )


def ipxe_iso(url: str) -> str:
    """Return an iPXE script that boots an ISO image as a disk, and retries as `ipxe` does.

    The firmware reads the image through iPXE, and so does the loader on it. The started system must
    bring everything it needs, or fetch it.
    """
    return _retrying_script(f"sanboot {url} || goto failed\n", "the image")


def _retrying_script(lines: str, what: str) -> str:
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


def ipxe_entry() -> str:
    """Return boot.ipxe, which chains to the script of one of the machine's cards."""
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
    """Return the entry grub.cfg of a TFTP server, which loads the file of the machine's card."""
    return (
        "set default=0\nset timeout=3\n"
        'menuentry "by address" {\n'
        "    configfile /$net_default_mac.conf\n"
        "}\n"
    )
