"""Whole-disk images with nothing but a loader that says a word on the serial line."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import subprocess

_MIB = 1024 * 1024
_SIZE = 12 * _MIB
_FIRST, _SECTORS = 2048, 18432
"""The EFI system partition, in sectors of 512 bytes: from 1 MiB on, 9 MiB."""
_HEADS, _TRACK = 16, 32
_MODULES = ("normal", "echo", "serial", "terminal", "sleep")

_CODE = 440
"""Bytes of a first sector that are code; a BIOS puts them at 0x7C00."""
_BY_PORT = bytes.fromhex(
    "fa 31c0 8ed8 fc"  # no interrupts; ds = 0; forwards
    "be 237c"  # si = the text, behind this
    "ac 84c0 7412 88c4"  # the next byte, or the end
    "bafd03 ec a820 74fb"  # until the serial line is ready
    "baf803 88e0 ee ebe9"  # out with it, and on
    "f4 ebfd"  # halt
)
"""Code for a BIOS's processor (16 bits): print what follows it, up to a 0."""

_SAY = """\
serial --unit=0 --speed=115200
terminal_output serial
echo {word}
sleep --verbose 100000
"""


def build(path: pathlib.Path, word: str, firmware: str) -> str:
    """Write the image and return its SHA-256.

    :param word: one plain word; it stands in no other file that a machine reads.
    :param firmware: ``uefi`` or ``bios``, which is to start it.
    """
    if firmware == "bios":
        _for_bios(path, word)
    else:
        _for_uefi(path, word)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_loader(path: pathlib.Path, word: str) -> None:
    """Write a loader for UEFI that says a word on the serial line, and then does nothing."""
    said = path.with_suffix(".cfg")
    said.write_text(_SAY.format(word=word))
    run("grub-mkimage", "-O", "x86_64-efi", "-p", "/nowhere", "-c", said, "-o", path, *_MODULES)
    said.unlink()


def copy(source: pathlib.Path, path: pathlib.Path) -> str:
    """Copy an image, and return its SHA-256."""
    shutil.copy(source, path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _for_bios(path: pathlib.Path, word: str) -> None:
    with path.open("wb") as file:
        file.truncate(_SIZE)
    # Agents take nothing for an image of a disk that has no table of partitions.
    table = f"label: dos\nstart={_FIRST}, size={_SECTORS}, type=83, bootable\n"
    run("sfdisk", "--quiet", path, said=table)
    with path.open("r+b") as file:
        file.write(boot_code(word))


def boot_code(word: str) -> bytes:
    """Return the beginning of a first sector, which ends before a disk's name and partitions.

    :raises ValueError: the word is too long.
    """
    code = _BY_PORT + f"{word}\r\n".encode() + b"\0"
    if len(code) > _CODE:
        raise ValueError(f"{word} is too long for a boot sector")
    return code


def _for_uefi(path: pathlib.Path, word: str) -> None:
    loader = path.with_suffix(".efi")
    build_loader(loader, word)
    with path.open("wb") as file:
        file.truncate(_SIZE)
    table = f"label: gpt\nstart={_FIRST}, size={_SECTORS}, type=uefi, name=boot\n"
    run("sfdisk", "--quiet", path, said=table)
    there = f"{path}@@{_FIRST * 512}"
    shape = ("-T", str(_SECTORS), "-h", str(_HEADS), "-s", str(_TRACK))
    run("mformat", "-i", there, *shape, "-v", "BOOT", "::")
    run("mmd", "-i", there, "::/EFI", "::/EFI/BOOT")
    run("mcopy", "-i", there, loader, "::/EFI/BOOT/BOOTX64.EFI")
    loader.unlink()


def run(*words: str | pathlib.Path, said: str | None = None) -> str:
    """Run a program, and return what it prints; a failure shows it."""
    done = subprocess.run(
        [str(word) for word in words],
        input=said,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.returncode}: {done.stdout.strip()}")
    return done.stdout
