"""Declarations of options: a class for each group, an annotated attribute for each option.

``port: int = number(6385, "TCP port the API listens on.", max=65535)`` says once what
oslo.config, the sample file and mypy need. `opts` makes oslo.config's options from a class. The
classes have no instances: ``conf.api`` is an object of oslo.config, and mypy takes it for one.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar, cast

from oslo_config import cfg, types

KINDS = (
    "bios",
    "boot",
    "console",
    "deploy",
    "firmware",
    "inspect",
    "management",
    "network",
    "power",
    "raid",
    "rescue",
    "storage",
    "vendor",
)
"""The thirteen interface kinds, each with one entry-point group and two options."""

_V = TypeVar("_V")
_Text = TypeVar("_Text", str, str | None)
_Number = TypeVar("_Number", int, int | None)
_Switch = TypeVar("_Switch", bool, bool | None)


class Group(Protocol):
    """Options of one group, or of [DEFAULT]."""

    def __getitem__(self, key: str) -> Any:
        """Return the value of an option whose name is put together."""

    def __contains__(self, key: str) -> bool:
        """Return whether there is an option, or a group, of this name."""


def opts(group: type) -> Sequence[cfg.Opt]:
    """Return the options that a class declares, in its order."""
    declared = vars(group).items()
    return tuple(make(name) for name, make in declared if isinstance(make, functools.partial))


# Each function below declares an option. ``how`` are further arguments of `cfg.Opt`; ``old`` are
# other names, as pairs of group and name. None as default is an option that may be unset.


def option(
    kind: Callable[..., cfg.Opt],
    default: _V,
    help: str,
    *,
    old: Sequence[tuple[str, str]] = (),
    **how: Any,
) -> _V:
    """Declare an option of one of oslo.config's kinds."""
    former = [cfg.DeprecatedOpt(name, group=group) for group, name in old]
    make = functools.partial(kind, default=default, help=help, deprecated_opts=former, **how)
    return cast(_V, make)  # `opts` adds the name


def text(default: _Text, help: str, **how: Any) -> _Text:
    return option(cfg.StrOpt, default, help, **how)


def number(default: _Number, help: str, **how: Any) -> _Number:
    return option(cfg.IntOpt, default, help, **how)


def switch(default: _Switch, help: str, **how: Any) -> _Switch:
    return option(cfg.BoolOpt, default, help, **how)


def items(default: list[_V], help: str, **how: Any) -> list[_V]:
    return option(cfg.ListOpt, default, help, **how)


def mapping(default: dict[str, str], help: str, **how: Any) -> dict[str, str]:
    return option(cfg.DictOpt, default, help, **how)


def url(help: str, **how: Any) -> str | None:
    return option(cfg.URIOpt, None, help, schemes=["http", "https"], **how)


def repeated(item: Callable[[Any], _V], help: str, **how: Any) -> list[_V] | None:
    return option(cfg.MultiOpt, None, help, item_type=item, **how)


def hook_names(default: str, help: str) -> list[str]:
    """Declare a list of inspection hooks; `drivers.registry` checks the names."""
    return cast(list[str], option(cfg.Opt, default, help, type=types.List()))


def boot_modes(help: str) -> list[str]:
    return items([], help, item_type=types.String(choices=["bios", "uefi"]))


def ciphers(whose: str) -> str | None:
    """Declare a list of ciphers for TLS with some servers."""
    help = f"Ciphers to offer {whose} up to TLS 1.2, separated by colons, in OpenSSL's names."
    return cast(str | None, option(cfg.Opt, None, help, type=Ciphers()))


def file_mode(default: str, help: str) -> int:
    return cast(int, option(cfg.Opt, default, help, type=FileMode()))


def seconds(default: int, help: str, *, least: int = 0, **how: Any) -> int:
    return number(default, help, min=least, **how)


def contacts(what: str) -> list[str]:
    """Declare the networks in which something may be contacted."""
    return items(
        [],
        f"Networks in which {what} may be contacted; these addresses come from others than "
        "the operator. Unset, all but loopback, link-local and multicast addresses, which "
        "must be named here if needed.",
        item_type=IPNetwork(),
        sample_default=["192.0.2.0/24", "2001:db8::/64"],
    )


# Types of values that oslo.config lacks.


class StepPriorities(types.ConfigType):
    """Priorities by step: ``interface.step:priority``, several separated by commas.

    Gives a dict ``{"interface.step": int | float}``; raises ValueError that shows the right form.
    """

    _what, _least = "priority", 0

    def __init__(self, *, whole: bool = False) -> None:
        super().__init__(type_name="step priorities")
        self._number: type[int] | type[float] = int if whole else float

    def __call__(self, value: str | Mapping[str, float]) -> dict[str, float]:
        """Parse one line of a file; return a dict (a default or an override) unchanged."""
        if isinstance(value, Mapping):
            return dict(value)
        return dict(self._read_pair(item.strip()) for item in value.split(",") if item.strip())

    def _read_pair(self, item: str) -> tuple[str, float]:
        step, colon, number = item.rpartition(":")
        interface, dot, name = step.strip().partition(".")
        if not (colon and dot and interface in KINDS and name):
            raise ValueError(f"{item!r} is not of the form interface.step:{self._what}")
        try:
            priority = self._number(number)
        except ValueError:
            priority = -1
        if not self._least <= priority < float("inf"):
            least = f"a number of {self._least} or more"
            raise ValueError(f"the {self._what} in {item!r} must be {least}")
        whole = int(priority)
        return step.strip(), whole if whole == priority else priority

    def __repr__(self) -> str:
        return type(self).__name__

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._number is self._number

    def __hash__(self) -> int:
        return hash(self._number)

    def format_defaults(self, default: Any, sample_default: Any = None) -> list[str]:
        """Return the default for the sample file: that of a repeatable option is empty."""
        return list(sample_default or [""])

    def _formatter(self, value: Mapping[str, float]) -> str:
        return ",".join(f"{step}:{priority:g}" for step, priority in value.items())


class StepSeconds(StepPriorities):
    """Whole seconds by step: ``interface.step:seconds``, several separated by commas."""

    _what, _least = "seconds", 1

    def __init__(self) -> None:
        super().__init__(whole=True)


class _OneValue(types.ConfigType):
    """A type without settings, so all of its objects are equal."""

    what: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(type_name=self.what)

    def __repr__(self) -> str:
        return type(self).__name__

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def _formatter(self, value: Any) -> str:
        return str(value)


class PciAlias(_OneValue):
    """A name for a kind of PCI device: JSON with ``vendor_id``, ``product_id`` and ``name``.

    Gives ``((vendor, product), name)``, the ids in lower case.
    """

    what = "PCI alias"

    def __call__(self, value: object) -> tuple[tuple[str, str], str]:
        """Parse one line of a file; return a parsed value unchanged."""
        if isinstance(value, tuple):
            return value
        try:
            given = json.loads(str(value))
            vendor, product, name = (given[key] for key in ("vendor_id", "product_id", "name"))
        except (ValueError, TypeError, KeyError) as why:
            form = '{"vendor_id": "1234", "product_id": "5678", "name": "gpu"}'
            raise ValueError(f"{value!r} is not of the form {form}") from why
        return (str(vendor).lower(), str(product).lower()), str(name)


class IPNetwork(_OneValue):
    """A network, as ``192.0.2.0/24`` or ``2001:db8::/32``, or a single address.

    Gives its usual text; raises ValueError that shows the right form.
    """

    what = "IP network"

    def __call__(self, value: object) -> str:
        """Parse one network; bits beyond its mask are left out."""
        try:
            return str(ipaddress.ip_network(str(value).strip(), strict=False))
        except ValueError:
            raise ValueError(f"{value!r} is not a network such as 192.0.2.0/24") from None


class PhysicalNetwork(_OneValue):
    """The physical network of a subnet, as ``192.0.2.0/24:net_a`` or ``2001:db8::/64:net_b``.

    Gives the subnet and the name.
    """

    what = "physical network"

    def __call__(self, value: object) -> tuple[Subnet, str]:
        """Parse one entry; return a parsed value unchanged."""
        if isinstance(value, tuple):
            return value
        subnet, _, name = str(value).strip().rpartition(":")
        try:
            found = ipaddress.ip_network(subnet)
        except ValueError:
            found = None
        if found is None or not 0 < len(name) <= _NETWORK_NAME:
            raise ValueError(
                f"{value!r} is not of the form 192.0.2.0/24:net_a, with a name of "
                f"{_NETWORK_NAME} characters at most"
            )
        return found, name


Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network
_NETWORK_NAME = 64  # characters of a port's physical_network


class PortRange(_OneValue):
    """TCP ports ``first:last``, both of them included.

    Gives a ``range``; raises ValueError that shows the right form.
    """

    what = "port range"

    def __call__(self, value: object) -> range:
        """Parse one line of a file; return a parsed value unchanged."""
        if isinstance(value, range):
            return value
        first, colon, last = str(value).partition(":")
        right = bool(colon) and first.strip().isdecimal() and last.strip().isdecimal()
        if not right or not 1 <= int(first) <= int(last) <= types.Port.PORT_MAX:
            raise ValueError(f"{value!r} is not of the form 10000:19999, from 1 to 65535")
        return range(int(first), int(last) + 1)

    def format_defaults(self, default: Any, sample_default: Any = None) -> list[str]:
        """Return the default for the sample file: that of a repeatable option is empty."""
        return list(sample_default or [""])


class Ciphers(types.String):
    """Ciphers of TLS in OpenSSL's form, such as ``ECDHE+AESGCM:!SHA1``."""

    def __call__(self, value: object) -> str:
        """Check that this machine's library knows one of them; none leaves the choice to it."""
        text = str(super().__call__(value))
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(text or "DEFAULT")
        except ssl.SSLError:
            raise ValueError("names no cipher that this machine's TLS library supports") from None
        return text


class FileMode(_OneValue):
    """The mode of a file in octal digits, such as ``0660``; gives a number."""

    what = "file mode"

    def __call__(self, value: object) -> int:
        """Parse digits; return a parsed value unchanged."""
        if isinstance(value, int):
            return value
        digits = str(value).strip().removeprefix("0o")
        if not re.fullmatch("0?[0-7]{3}", digits):
            raise ValueError(f"{value!r} is not a mode such as 0660")
        return int(digits, 8)

    def _formatter(self, value: int) -> str:
        return f"0{value:o}"
