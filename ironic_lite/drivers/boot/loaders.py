"""Kernel command lines of ramdisks, and the configuration texts of boot loaders. Pure.

Loaders parse the line in their own language, so a word with a meaning for one of them is rejected
before it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import settings

API_URL = "ipa-api-url"
DEFAULT_MARK = "%default%"
"""Placeholder in ``kernel_append_params`` for the configured parameters."""

LONGEST_LINE = 2047 - 96
"""Length limit of a command line: that of the kernel on x86 (COMMAND_LINE_SIZE 2048, with the final
zero), of isolinux and of pxelinux, less the part that loader and medium add."""

PARAMETER_PLACES = ("instance_info", "driver_info")
"""Fields that may hold ``kernel_append_params``, in order of precedence."""

_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_SEPARATORS = frozenset({"||", "&&", ";"})


def operator_parameters(node: object, default: str) -> str:
    """Return the parameters to append to those of this service.

    :param node: a record with ``instance_info`` and ``driver_info``.
    :param default: the configured parameters, the default and the value of ``%default%``.
    :raises errors.InvalidParameter: naming ``<field>/kernel_append_params``.
    """
    for place in PARAMETER_PLACES:
        given = (getattr(node, place) or {}).get("kernel_append_params")
        if given is not None:
            path = f"{place}/kernel_append_params"
            check_parameters(given, path)
            return str(given).replace(DEFAULT_MARK, default)
    return default


def check_parameters(given: object, path: str) -> None:
    """Reject text that cannot be part of a command line.

    :param given: the text, or a number as `settings.text` reads it.
    :param path: the place of the text.
    :raises errors.InvalidParameter: naming ``path``.
    """
    try:
        text = settings.text(given)
    except ValueError as why:
        raise errors.InvalidParameter(path=path, reason=str(why)) from None
    if not _PRINTABLE.fullmatch(text):
        raise errors.InvalidParameter(
            path=path, reason="must be one line of printable ASCII characters"
        )
    if len(text) > LONGEST_LINE:
        reason = f"has {len(text)} characters; a kernel reads {LONGEST_LINE} including ours"
        raise errors.InvalidParameter(path=path, reason=reason)
    for word in text.split():
        if word in _SEPARATORS or word.startswith("#"):
            raise errors.InvalidParameter(
                path=path, reason=f"{word!r} would end the line for a boot loader"
            )


def instance_parameters(node: Any) -> str:
    """Return the parameters of a ramdisk instance: only those that its owner gave.

    :raises errors.InvalidParameter: naming ``instance_info/<key>``.
    """
    told = node.instance_info or {}
    found = []
    for name in ("ramdisk_kernel_arguments", "kernel_append_params"):
        given = told.get(name)
        if given is not None:
            check_parameters(given, f"instance_info/{name}")
            found.append(str(given).replace(DEFAULT_MARK, ""))
    return " ".join(found)


def kernel_words(own: Mapping[str, str | None], append: str) -> list[str]:
    """Return the command line as words: own ``name=value`` words, then the appended text.

    :param own: parameters by name; a value of None is left out.
    :param append: from `appended`.
    :raises errors.InvalidParameter: a value is not one printable word, or the line is too long.
    """
    found = [_kernel_word(name, value) for name, value in own.items() if value is not None]
    found += append.split()
    check_parameters(" ".join(found), "kernel_append_params")
    return found


def _kernel_word(name: str, value: str) -> str:
    word = f"{name}={value}"
    if len(word.split()) != 1 or not _PRINTABLE.fullmatch(word):
        raise errors.InvalidParameter(path=name, reason="must be one printable word")
    return word


def bootif(addresses: Sequence[str]) -> str | None:
    """Return the value of BOOTIF, ``01-aa-bb-...``, or None if the card is ambiguous.

    :param addresses: the MAC addresses of the cards that may boot.
    """
    return f"01-{dashed_address(addresses[0])}" if len(addresses) == 1 else None


def dashed_address(address: str) -> str:
    """Return a MAC address as in loaders' file names: ``aa-bb-cc-dd-ee-ff``."""
    return address.lower().replace(":", "-")


# Configuration texts for boot loaders, one function each. Pure.
#
# The words of a command line come from `kernel_words`, which rejects words that a loader would
# misread.

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


# ``authority`` is another ramdisk, see `iso.authority_archive`. It comes first, because its size is
# such that another one can follow.


def grub(
    kernel: str,
    ramdisk: str,
    words: Sequence[str],
    *,
    authority: str | None = None,
    label: str | None = None,
) -> str:
    """Return a grub.cfg that starts a kernel at once.

    :param kernel: path as GRUB sees it, like ``ramdisk`` and ``authority``.
    :param label: of the medium with the files, None for the device of GRUB itself.
    """
    line = " ".join(map(grub_quoted, _grub_parameters(words)))
    search = f"search --no-floppy --set=root --label {label}\n" if label else ""
    return (
        "set default=0\nset timeout=0\n"
        f"{search}"
        'menuentry "ramdisk" {\n'
        f"    linux {kernel} {line}\n"
        f"    initrd {' '.join(filter(None, (authority, ramdisk)))}\n"
        "}\n"
    )


def syslinux(
    kernel: str, ramdisk: str, words: Sequence[str], *, authority: str | None = None
) -> str:
    """Return an isolinux.cfg, or a file of pxelinux.cfg, that starts a kernel at once."""
    return (
        "DEFAULT ramdisk\nPROMPT 0\nTIMEOUT 1\n"
        "LABEL ramdisk\n"
        f"    KERNEL {kernel}\n"
        f"    INITRD {','.join(filter(None, (authority, ramdisk)))}\n"
        f"    APPEND {' '.join(words)}\n"
    )


def ipxe(
    kernel: str,
    ramdisk: str,
    words: Sequence[str],
    *,
    authority: str | None = None,
    timeout: int = 0,
) -> str:
    """Return an iPXE script that starts a kernel, and retries on failure.

    :param kernel: URL, like ``ramdisk`` and ``authority``.
    :param timeout: seconds without data; 0 is iPXE's own limit.
    """
    limit = f"--timeout {timeout * 1000} " if timeout else ""
    # A kernel started by UEFI looks for its ramdisks under these names.
    ramdisks = {**({"authority": authority} if authority else {}), "initrd": ramdisk}
    named = " ".join(f"initrd={name}" for name in ramdisks)
    loads = [f"kernel {limit}--name vmlinuz {kernel} {named} {' '.join(words)}"]
    loads += [f"initrd {limit}--name {name} {url}" for name, url in ramdisks.items()]
    return _retrying_script(
        "".join(f"{line} || goto failed\n" for line in (*loads, "boot")),
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


def ipxe_entry(fallback: str | None = None) -> str:
    """Return boot.ipxe, which chains to the script of one of the machine's cards.

    :param fallback: path or URL of the script of other machines; None boots their disk.
    """
    other = f"chain --autofree {fallback} && goto disk ||\n" if fallback else ""
    return (
        "#!ipxe\n"
        # A script that ends has left the machine to its disk.
        "isset ${mac:hexhyp} && chain --autofree pxelinux.cfg/${mac:hexhyp} && goto disk ||\n"
        ":next\n"
        "isset ${n} || set n:int32 0\n"
        "isset ${net${n}/mac} || goto none\n"
        "chain --autofree pxelinux.cfg/${net${n}/mac:hexhyp} && goto disk ||\n"
        "inc n\n"
        "goto next\n"
        ":none\n"
        f"{other}"
        "echo No boot script for this machine; trying its disk.\n"
        "sleep 3\n"
        ":disk\n"
        # UEFI goes on with the next device only after an error; else it shows its menu.
        "iseq ${platform} efi && exit 1 || sanboot --no-describe --drive 0x80 || exit 1\n"
    )


def ipxe_disk(node: str) -> str:
    """Return an iPXE script after which boot.ipxe boots the disk.

    :param node: the UUID; all these texts have it as the owner of their file.
    """
    return f"#!ipxe\n# /{node}/\nexit\n"


def grub_disk(node: str) -> str:
    """Return a grub.cfg that boots the loader at the usual place of a disk.

    Without one it shows the menu of the firmware, because GRUB cannot exit with an error.
    """
    return (
        f"# /{node}/\n"
        "for file in /EFI/BOOT/BOOTX64.EFI /EFI/BOOT/BOOTAA64.EFI; do\n"
        "    if search --no-floppy --set=root --file $file; then\n"
        "        chainloader $file\n"
        "        boot\n"
        "    fi\n"
        "done\n"
        "exit\n"
    )


def syslinux_disk(node: str) -> str:
    """Return a file of pxelinux.cfg that boots the next device of a BIOS."""
    return f"# /{node}/\nDEFAULT disk\nPROMPT 0\nLABEL disk\n    LOCALBOOT 0\n"


def grub_entry() -> str:
    """Return the entry grub.cfg of a TFTP server, which loads the file of the machine's card."""
    return (
        "set default=0\nset timeout=3\n"
        'menuentry "by address" {\n'
        "    configfile /$net_default_mac.conf\n"
        "}\n"
    )
