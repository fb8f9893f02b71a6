"""A whole-disk image with nothing but a loader that says a word on the serial line."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess

_MIB = 1024 * 1024
_SIZE = 12 * _MIB
_FIRST, _SECTORS = 2048, 18432
"""The EFI system partition, in sectors of 512 bytes: from 1 MiB on, 9 MiB."""
_HEADS, _TRACK = 16, 32
_MODULES = ("normal", "echo", "serial", "terminal", "sleep")

_SAY = """\
serial --unit=0 --speed=115200
terminal_output serial
echo {word}
sleep --verbose 100000
"""


def build(path: pathlib.Path, word: str) -> str:
    """Write the image and return its SHA-256.

    :param word: one plain word; it stands in no other file that a machine reads.
    """
    said, loader = path.with_suffix(".cfg"), path.with_suffix(".efi")
    said.write_text(_SAY.format(word=word))
    run("grub-mkimage", "-O", "x86_64-efi", "-p", "/nowhere", "-c", said, "-o", loader, *_MODULES)
    with path.open("wb") as file:
        file.truncate(_SIZE)
    table = f"label: gpt\nstart={_FIRST}, size={_SECTORS}, type=uefi, name=boot\n"
    run("sfdisk", "--quiet", path, said=table)
    there = f"{path}@@{_FIRST * 512}"
    shape = ("-T", str(_SECTORS), "-h", str(_HEADS), "-s", str(_TRACK))
    run("mformat", "-i", there, *shape, "-v", "BOOT", "::")
    run("mmd", "-i", there, "::/EFI", "::/EFI/BOOT")
    run("mcopy", "-i", there, loader, "::/EFI/BOOT/BOOTX64.EFI")
    said.unlink()
    loader.unlink()
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
