"""The kernel command line of a ramdisk: what this service says, and what operators add. Pure.

Loaders read it as a text of their own language, so a word that would mean something to one of them
is refused before it is written anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ironic_lite import errors

API_URL = "ipa-api-url"
TOKEN = "ipa-agent-token"
DEFAULT = "%default%"
"""In ``kernel_append_params``: what the configuration says stands here."""

LONGEST = 2047 - 96
"""Characters of a command line: the kernel's own bound on x86 (COMMAND_LINE_SIZE 2048, with the
zero at its end), and that of isolinux and pxelinux; less what a loader and the medium add."""

PLACES = ("instance_info", "driver_info")
"""Where a node may say ``kernel_append_params``, what counts first coming first."""

_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_SEPARATORS = frozenset({"||", "&&", ";"})


def appended(node: Any, default: str) -> str:
    """Return what is to follow the parameters of this service.

    :param node: a record with ``instance_info`` and ``driver_info``.
    :param default: of the configuration, for nodes that say nothing and in place of ``%default%``.
    :raises errors.InvalidParameter: naming ``<field>/kernel_append_params``.
    """
    for place in PLACES:
        given = (getattr(node, place) or {}).get("kernel_append_params")
        if given is not None:
            path = f"{place}/kernel_append_params"
            check(given, path)
            return str(given).replace(DEFAULT, default)
    return default


def check(text: object, path: str) -> None:
    """Refuse what is no part of a command line.

    :param path: where it stands.
    :raises errors.InvalidParameter: naming ``path``.
    """
    if not isinstance(text, str) or not _PRINTABLE.fullmatch(text):
        raise errors.InvalidParameter(
            path=path, reason="must be one line of printable ASCII characters"
        )
    if len(text) > LONGEST:
        reason = f"has {len(text)} characters; a kernel reads {LONGEST}, and some of ours"
        raise errors.InvalidParameter(path=path, reason=reason)
    for word in text.split():
        if word in _SEPARATORS or word.startswith("#"):
            raise errors.InvalidParameter(
                path=path, reason=f"{word!r} would end the line for a boot loader"
            )


def of_instance(node: Any) -> str:
    """Return the parameters of a ramdisk that is the instance: those its owner names, and no more.

    :raises errors.InvalidParameter: naming ``instance_info/<key>``.
    """
    told = node.instance_info or {}
    found = []
    for name in ("ramdisk_kernel_arguments", "kernel_append_params"):
        given = told.get(name)
        if given is not None:
            check(given, f"instance_info/{name}")
            found.append(str(given).replace(DEFAULT, ""))
    return " ".join(found)


def words(own: Mapping[str, str | None], append: str) -> list[str]:
    """Return the command line as words: ``name=value`` of our own, then what was added.

    :param own: parameters by name; those that are None are left out.
    :param append: as `appended` returns it.
    :raises errors.InvalidParameter: a value is not one printable word, or all are too long.
    """
    found = [_word(name, value) for name, value in own.items() if value is not None]
    found += append.split()
    check(" ".join(found), "kernel_append_params")
    return found


def _word(name: str, value: str) -> str:
    word = f"{name}={value}"
    if len(word.split()) != 1 or not _PRINTABLE.fullmatch(word):
        raise errors.InvalidParameter(path=name, reason="must be one printable word")
    return word


def bootif(addresses: Sequence[str]) -> str | None:
    """Return the value of BOOTIF, ``01-aa-bb-...``, if it is plain which card is meant.

    :param addresses: the MAC addresses of the cards that may boot.
    """
    return f"01-{dashed(addresses[0])}" if len(addresses) == 1 else None


def dashed(address: str) -> str:
    """Return a MAC address as loaders name files: ``aa-bb-cc-dd-ee-ff``."""
    return address.lower().replace(":", "-")
