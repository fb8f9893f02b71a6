"""Kernel command line of a ramdisk: own parameters and those of operators. Pure.

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
DEFAULT = "%default%"
"""Placeholder in ``kernel_append_params`` for the configured parameters."""

LONGEST = 2047 - 96
"""Length limit of a command line: that of the kernel on x86 (COMMAND_LINE_SIZE 2048, with the final
zero), of isolinux and of pxelinux, less the part that loader and medium add."""

PLACES = ("instance_info", "driver_info")
"""Fields that may hold ``kernel_append_params``, in order of precedence."""

_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_SEPARATORS = frozenset({"||", "&&", ";"})


def appended(node: object, default: str) -> str:
    """Return the parameters to append to those of this service.

    :param node: a record with ``instance_info`` and ``driver_info``.
    :param default: the configured parameters, the default and the value of ``%default%``.
    :raises errors.InvalidParameter: naming ``<field>/kernel_append_params``.
    """
    for place in PLACES:
        given = (getattr(node, place) or {}).get("kernel_append_params")
        if given is not None:
            path = f"{place}/kernel_append_params"
            check(given, path)
            return str(given).replace(DEFAULT, default)
    return default


def check(given: object, path: str) -> None:
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
    if len(text) > LONGEST:
        reason = f"has {len(text)} characters; a kernel reads {LONGEST} including ours"
        raise errors.InvalidParameter(path=path, reason=reason)
    for word in text.split():
        if word in _SEPARATORS or word.startswith("#"):
            raise errors.InvalidParameter(
                path=path, reason=f"{word!r} would end the line for a boot loader"
            )


def of_instance(node: Any) -> str:
    """Return the parameters of a ramdisk instance: only those that its owner gave.

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
    """Return the command line as words: own ``name=value`` words, then the appended text.

    :param own: parameters by name; a value of None is left out.
    :param append: from `appended`.
    :raises errors.InvalidParameter: a value is not one printable word, or the line is too long.
    """
    found = [_kernel_word(name, value) for name, value in own.items() if value is not None]
    found += append.split()
    check(" ".join(found), "kernel_append_params")
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
    return f"01-{dashed(addresses[0])}" if len(addresses) == 1 else None


def dashed(address: str) -> str:
    """Return a MAC address as in loaders' file names: ``aa-bb-cc-dd-ee-ff``."""
    return address.lower().replace(":", "-")
