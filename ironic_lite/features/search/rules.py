"""Terms by which nodes are found, and the form of queries. Pure.

A term is the end of a value, from the value's begin or from one of its words on, in lower case. So
a query that starts a value or a word is the begin of a term, which an index finds.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.core.json_types import JsonView, RowView
from ironic_lite.domain import inspection

SHORTEST, LONGEST = 2, 64
"""Characters of a query. A term, and the value that it belongs to, has as many at most."""
COLUMNS = frozenset(
    {
        *("name", "instance_name", "owner", "lessee", "description"),
        *("driver_info", "extra", "properties"),
    }
)
"""Columns of nodes that have terms."""
SOURCES = COLUMNS | {"inventory"}
MOST: Mapping[str, int] = {"driver_info": 2, "extra": 14, "properties": 9, "inventory": 20}
"""Values of each source at most, 50 of a node; columns that are texts have one."""
_VENDOR = ("manufacturer", "product_name", "serial_number")
SERIAL = "inventory.system_vendor.serial_number"
"""The field of the serial number of a machine."""
_LONGEST_FIELD = 128
_WORD = re.compile(r"(?<![^\W_])[^\W_]")
_HALF = len("52:54:00:")
_MAC = re.compile(r"[0-9a-f]{2}([-.:]?[0-9a-f]{2}){5}|([0-9a-f]{4}\.){2}[0-9a-f]{4}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IDENT = re.compile(r"[0-9a-f][0-9a-f:-]*")
_URL = re.compile(r"://\S*")
_ARGUMENTS = re.compile(r"[?#]")


class Term(NamedTuple):
    """A term of a field, and its whole value."""

    field: str
    term: str
    value: str


def terms(source: str, content: object) -> list[Term]:
    """Return the terms of a source: a column of a node, or its inventory.

    :param content: of the source, as it is stored.
    """
    found: dict[tuple[str, str], Term] = {}
    for path, text in islice(_texts(source, content), MOST.get(source, 1)):
        field = _cut(_plain(path), _LONGEST_FIELD)
        for term in _ends(text):
            found.setdefault((field, term), Term(field, term, text))
    return list(found.values())


def all_terms(node: RowView, inventory: JsonView | None) -> list[Term]:
    """Return all terms of a node.

    :param node: with `COLUMNS`.
    """
    contents = {**{name: node[name] for name in COLUMNS}, "inventory": inventory}
    return [term for name in sorted(contents) for term in terms(name, contents[name])]


def _texts(source: str, content: object) -> Iterator[tuple[str, str]]:
    """Yield the path and the stored form of each value of a source."""
    if source == "driver_info":
        found = _bmc_hosts(content)
    elif source == "inventory":
        found = _of_machine(content)
    else:
        found = _leaves(source, masking.mask(content))
    for path, text in found:
        if len(value := _value(text)) >= SHORTEST:
            yield path, value


def _leaves(path: str, content: object) -> Iterator[tuple[str, str]]:
    if isinstance(content, dict):
        for key, held in content.items():
            yield from _leaves(f"{path}.{key}", held)
    elif isinstance(content, list):
        for held in content:
            yield from _leaves(path, held)
    elif isinstance(content, str) and content != masking.MASK:
        yield path, content


def _bmc_hosts(content: object) -> Iterator[tuple[str, str]]:
    """Yield the hosts of BMC addresses, and nothing else of driver_info."""
    held = content if isinstance(content, dict) else {}
    for name in inspection.BMC_ADDRESSES:
        address = held.get(name)
        if isinstance(address, str) and (host := inspection.bmc_host(address)):
            yield f"driver_info.{name}", host


def _of_machine(content: object) -> Iterator[tuple[str, str]]:
    """Yield names and serial numbers of a machine and its disks, and its MAC addresses.

    Agents and drivers of other projects may report anything.
    """
    inventory = content if isinstance(content, dict) else {}
    parts = (("system_vendor", _VENDOR), ("disks", ("serial",)), ("interfaces", ("mac_address",)))
    for part, names in parts:
        held = inventory.get(part)
        for each in held if isinstance(held, list) else [held]:
            known = each if isinstance(each, dict) else {}
            texts = ((name, known.get(name)) for name in names)
            yield from (
                (f"inventory.{part}.{name}", text) for name, text in texts if isinstance(text, str)
            )


def _value(text: str) -> str:
    """Return the stored form of a value: without logins and arguments of URLs, and not long."""
    if "://" in text:
        text = _URL.sub(lambda found: _without_login(found[0]), text)
    return _cut(_plain(text))


def _without_login(url: str) -> str:
    place, *arguments = _ARGUMENTS.split(url[3:], maxsplit=1)
    if "@" in "".join(arguments):  # a login with such a character, or an argument with an address
        return "://"
    return f"://{place.rpartition('@')[2]}"


def _plain(text: str) -> str:
    """Return a text that every database can store, with single blanks."""
    if not text.isprintable():
        text = "".join(one if one.isprintable() else " " for one in text)
    return " ".join(text.split())


def _cut(text: str, most: int = LONGEST) -> str:
    """Return the begin of a text, without blanks at its end, which MariaDB does not compare."""
    return text[:most].rstrip()


def _ends(value: str) -> Iterator[str]:
    """Yield a value, and what remains of it from each word on, in lower case."""
    text = _cut(value.lower())  # "İ" becomes two characters
    yield text
    if text.count(":") == 5 and _MAC.fullmatch(text):  # noqa: PLR2004
        yield text[_HALF:]
        return
    if not _is_ip(text):
        starts = (found.start() for found in _WORD.finditer(text))
        yield from (text[start:] for start in starts if 0 < start <= len(text) - SHORTEST)


def _is_ip(text: str) -> bool:
    if not text[:1].isdigit() and ":" not in text:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def query(text: str | None) -> tuple[str, ...]:
    """Return the forms of a query that terms are compared with.

    Twelve digits may be a MAC address or a serial number, so they have two forms.

    :raises errors.InvalidParameter: it is missing, too short, or too long.
    """
    typed = _plain(text or "")
    if not SHORTEST <= len(typed) <= LONGEST:
        reason = f"must have {SHORTEST} to {LONGEST} characters"
        raise errors.InvalidParameter(path="q", reason=reason)
    plain = _cut(typed.lower())
    if not _MAC.fullmatch(plain):
        return (plain,)
    digits = re.sub(r"[-.:]", "", plain)
    mac = ":".join(digits[start : start + 2] for start in range(0, len(digits), 2))
    return tuple(dict.fromkeys((mac, plain)))


def may_start_ident(text: str) -> bool:
    """Return whether a query can start a UUID or a MAC address."""
    return _IDENT.fullmatch(text) is not None


def is_ident(text: str) -> bool:
    """Return whether a query is a whole UUID or MAC address."""
    return bool(_UUID.fullmatch(text) or _MAC.fullmatch(text))
