"""Programs that erase disks: which ones ran, and what they achieve.

The generic hardware manager runs programs and returns nothing about them. Python announces each
started program to audit hooks (``sys.addaudithook``, event ``subprocess.Popen``), in the thread
that starts it, so a thread that erases one disk observes the programs of this disk only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

CLEAR, PURGE, NONE = "clear", "purge", "none"
"""Levels of NIST SP 800-88; ``none`` for anything that does not reach all addressable blocks."""
_MOST = 200  # programs kept for a disk
_local = threading.local()
_installing = threading.Lock()
_installed: list[bool] = []


@dataclasses.dataclass(frozen=True)
class Method:
    """An erasing command: its name for people, its level, and its arguments."""

    text: str
    level: str
    command: tuple[str, ...]


@contextlib.contextmanager
def watching() -> Iterator[list[tuple[str, ...]]]:
    """Collect the command lines that this thread starts inside the block, oldest first."""
    with _installing:
        if not _installed:
            sys.addaudithook(_hook)
            _installed.append(True)
    outer = getattr(_local, "seen", None)
    seen: list[tuple[str, ...]] = []
    _local.seen = seen
    try:
        yield seen
    finally:
        _local.seen = outer
        if outer is not None:
            outer.extend(seen)


def _hook(event: str, facts: tuple[Any, ...]) -> None:
    if event != "subprocess.Popen":
        return
    seen = getattr(_local, "seen", None)
    if seen is None or len(seen) >= _MOST or not isinstance(facts[1], (list, tuple)):
        return
    seen.append(tuple(os.fsdecode(word) for word in facts[1]))


def erasing(device: str, commands: Sequence[Sequence[str]]) -> list[Method]:
    """Return the erasing commands for one device, oldest first."""
    found = (_method(tuple(command)) for command in commands if device in command)
    return [method for method in found if method is not None]


def _method(command: tuple[str, ...]) -> Method | None:
    program = os.path.basename(command[0])
    known = {"shred": _shred, "nvme": _nvme, "hdparm": _hdparm}.get(program)
    if known is not None:
        return known(command)
    # A disk may keep discarded blocks, so discarding is below clear.
    text = {"blkdiscard": "discard", "wipefs": "metadata", "sgdisk": "metadata", "dd": "metadata"}
    return Method(text[program], NONE, command) if program in text else None


def _nvme(command: tuple[str, ...]) -> Method | None:
    if command[1:2] == ("format",):
        kind = {"1": "user data", "2": "cryptographic"}.get(_after(command, "-s"))
        level = CLEAR if kind else NONE
        return Method(f"nvme format, {kind or 'without secure erase'}", level, command)
    actions = {"2": "block erase", "3": "overwrite", "4": "cryptographic"}
    kind = actions.get(_after(command, "-a")) if command[1:2] == ("sanitize",) else None
    return Method(f"nvme sanitize, {kind}", PURGE, command) if kind else None


def _hdparm(command: tuple[str, ...]) -> Method | None:
    for option, text, level in (
        ("--security-erase-enhanced", "ATA security erase, enhanced", CLEAR),
        ("--security-erase", "ATA security erase", CLEAR),
        ("--sanitize-block-erase", "ATA sanitize, block erase", PURGE),
        ("--sanitize-crypto-scramble", "ATA sanitize, cryptographic", PURGE),
    ):
        if option in command:
            return Method(text, level, command)
    return None


def _shred(command: tuple[str, ...]) -> Method:
    random = int(_after(command, "--iterations") or 3)
    zeros = "--zero" in command
    passes = [f"{random} random passes"] if random else []
    passes += ["zeros"] if zeros else []
    return Method(
        f"overwrite, {' and '.join(passes) or 'no pass'}", CLEAR if passes else NONE, command
    )


def _after(words: Sequence[str], option: str) -> str:
    """Return the word behind an option; "" without it."""
    at = words.index(option) + 1 if option in words else len(words)
    return words[at] if at < len(words) else ""
