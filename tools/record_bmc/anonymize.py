"""Replacement of private data in Redfish documents. Pure.

Each private text gets another text of the same shape, the same wherever it stands. Private are
values of properties that identify a machine, its place or a person, and whatever looks like an
address, a UUID or an e-mail address. Names of properties and facts about makes stay.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ironic_lite.core import masking
from ironic_lite.core.json_types import Json
from ironic_lite.drivers.redfish.bmc import quirks, resources

_PRIVATE = re.compile(
    r"Serial.?(Number|No)|Service.?Tag|ServiceCode|Asset.?(Tag|Number)|Host.?Name|DNSName|FQDN|UUID"
    r"|GUID|Unique_?Id|^SKU$|^(User|Domain|Server|Service|Admin|Owner|Account|Building|Group)Name$|E-?mail"
    r"|Phone|^(Admin|Service)Other$|Address(es)?$|^IPv[46]|Gateway$|NameServers?|NTPServer"
    r"|^WW[NP]N|WWName|WorldWide|DurableName|^NodeId$|Community|Engine_?Id|Discovered|iSCSI.*Name"
    r"|Initiator|^(Chassis|Switch|Port)Id$|SwitchConnection|Thumbprint|Fingerprint|Licen[cs]eKey"
    r"|EntitlementId|^(Contact|Rack|Row|Room|Street|City|Territory|Country|PostalAddress|Latitude)"
    r"|^(Longitude|Site|Tenant|Customer|Owner)|^Image(Name)?$"
    r"|UserLabel|ServerOtherInfo|CustomPostMessage|UserLcdStr|UserDefinedString|ComputerName"
    r"|Sys(Location|Contact|Name|Description)$|DNSDomain|DomainName|Banner|LoginMessage",
    re.IGNORECASE,
)
"""Names of properties whose values are private."""

_SHORT = re.compile(r"Host.?Name|^User(Name)?$|ComputerName|DNSName|FQDN|^SysName$", re.IGNORECASE)
"""Names of properties whose values are replaced everywhere even if they are short."""

_FACT = re.compile(
    r"@odata\.(type|context)|Version|Revision|Manufacturer$|^Vendor|^Model$|^Type$|ValueName"
    r"|^(Attribute|Message|Property|Value)Name$|SubnetMask|Mask$|PrefixLength|AddressOrigin"
    r"|AddressState|^MessageId$|^Language|^PartNumber$|SubsystemAddress",
    re.IGNORECASE,
)
"""Names of properties whose values are facts about a make, also where they look like addresses."""

_PUBLIC = re.compile(
    r"|n/?a|none|null|nil|unknown|(not|no|to be) .*|notspecified|default.*|\W+|[0:.\-/xXfF]+"
    r"|localhost\S*|static|dhcp\w*|slaac|linklocal|127\.0\.0\.1|::1?|true|false|(en|dis)abled?"
    r"|yes|off|on|auto\w*|(.)\2*|0?123456789\w*|admin(istrator)?|root|operator|user|guest|public"
    r"|read-?only\w*|anonymous|unlocked|locked|set|notset|setup|system|chassis|server|bmc|self"
    r"|slot|bay|\d{1,3}",
    re.IGNORECASE,
)
"""Values that identify nothing, even of a private property."""

_STATE = re.compile(
    r"|null|none|n/?a|true|false|(en|dis)abled?|(not ?)?set|(un)?locked|(not ?)?installed",
    re.IGNORECASE,
)
"""Values of a secret property that are a state."""

_OCTETS = re.compile(
    r"(?<![0-9A-Za-z])(?<![0-9A-Fa-f][:-])(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){4,18}[0-9A-Fa-f]{2}"
    r"(?![0-9A-Za-z:])"
)
"""MAC addresses, and longer names such as those of InfiniBand and Fibre Channel."""
_UUID = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_V4 = re.compile(r"(?<![\w.])(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})(?![\w]|\.\d)")
_V6 = re.compile(r"(?<![0-9A-Za-z:.])[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?![0-9A-Za-z:])")
_MAIL = re.compile(r"[\w.+-]+@(?!odata|Redfish|Message)[\w-]+(?:\.[\w-]+)+")
_IQN = re.compile(r"(?:iqn|nqn)\.\d{4}-\d{2}\.[\w.:-]+|(?:eui|naa)\.[0-9A-Fa-f]{16,32}")
_EFI_CARD = re.compile(r"(?<=MAC\()[0-9A-Fa-f]{12}")
_BARE = (_OCTETS, _UUID, _EFI_CARD)
_URL = re.compile(r"(?<=://)([^/\s?#]*)([/?#].*)?", re.DOTALL)
"""Host of a URL, and all that follows: a path may contain spaces."""
_REDFISH = re.compile(r"/redfish/[^\s?#]*")
_PUBLIC_HOST = re.compile(r"(.*\.)?(dmtf\.org|openbmc-project\.xyz|w3\.org)", re.IGNORECASE)
_HEX = re.compile(r"(0[xX])?[0-9A-Fa-f]+([:-]?[0-9A-Fa-f]+)*")
_NAMING = ("AttributeName", "Name", "name")
_NAMED = frozenset({"Value", "CurrentValue", "DefaultValue", "value"})
"""Properties that have the value of the property which one of `_NAMING` names."""
_CARD_DIGITS = 12
_LEAST, _LEAST_NAME = 4, 2
"""Characters of a private text, and of a host or user name, that is replaced also inside another
text."""
_SURE = 6
"""Characters from which on a private text with a digit is replaced also inside a word."""


class Mask:
    """Replaces private texts consistently within one recording.

    :param texts: further private texts, such as the name of the host and of the user.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._salt = secrets.token_bytes(16)
        self._known: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        for text in texts:
            self._learn_text(text, _LEAST_NAME)

    def learn(self, value: object, name: str = "") -> None:
        """Collect the private texts of a document; documents are hidden after all are learnt."""
        if isinstance(value, dict):
            for _, inner, deciding in _properties(value, name):
                self.learn(inner, deciding)
        elif isinstance(value, list):
            for inner in value:
                self.learn(inner, name)
        elif isinstance(value, str):
            if _is_private(name):
                self._learn_text(value, _LEAST_NAME if _SHORT.search(name) else _LEAST)
            if not _FACT.search(name):
                self._learn_bare(value)
        elif _is_number(value) and _is_private(name):
            self._learn_text(str(value).lstrip("-"))

    def hide(self, value: object, name: str = "") -> Any:
        """Return a value without private texts and numbers.

        :param name: of the property that decides whether the value is private.
        """
        if isinstance(value, dict):
            return {
                self._masked_key(key): self.hide(inner, deciding)
                for key, inner, deciding in _properties(_without_free_oem(value), name)
            }
        if isinstance(value, list):
            return [self.hide(inner, name) for inner in value]
        if isinstance(value, int | float) and _is_number(value) and _is_private(name):
            return self._masked_number(value)
        return self._masked_value(value, name) if isinstance(value, str) else value

    def _masked_value(self, value: str, name: str) -> str:
        """Return the text for the value of a property."""
        if _is_secret(name):
            return value if _STATE.fullmatch(value.strip()) else self._masked_secret(value)
        if _is_private(name) and telling(value):
            return self._masked_text(value)
        if _FACT.search(name):
            return self._masked_pattern(_URL.sub(self._masked_url, value))
        return self.text(value)

    def text(self, text: str) -> str:
        """Return a text, such as a path, without the private texts in it."""
        if random := masking.unguessable(text):
            text = text.replace(random, self._masked_spelling(random))
        for pattern, other in (
            (_MAIL, self._masked_mail),
            (_IQN, self._same_shape),
            (_URL, self._masked_url),
            (_UUID, self._same_shape),
            (_OCTETS, self._same_shape),
            (_V4, self._masked_v4),
            (_V6, self._masked_v6),
        ):
            text = pattern.sub(other, text)
        return self._masked_pattern(text)

    def _masked_key(self, name: str) -> str:
        """Return the name of a property, which stays unless an address is in it."""
        shown = self._masked_pattern(_OCTETS.sub(self._same_shape, name))
        # A short name of a host or user may by chance be that of a property, such as Id.
        return name if len(name) < _LEAST else shown

    # -- learning -------------------------------------------------------------------------------

    def _learn_text(self, text: str, least: int = _LEAST) -> None:
        text = text.strip()
        if len(text) >= least and telling(text):
            self._known.add(text.lower())
            self._pattern = None

    def _learn_bare(self, text: str) -> None:
        """Learn addresses also without their separators, as some paths have them."""
        for found in (found for one in _BARE for found in one.finditer(text)):
            bare = re.sub("[:-]", "", found[0])
            if set(bare) - set("0fF"):
                self._learn_text(bare)

    # -- replacing ------------------------------------------------------------------------------

    def _masked_text(self, text: str) -> str:
        """Return another text for the whole value of a private property."""
        patterns = (_MAIL, _IQN, _URL, _UUID, _OCTETS, _V4, _V6)
        if any(pattern.search(text) for pattern in patterns):
            found = self.text(text)
            if found != text:
                return found
        return self._masked_spelling(text)

    def _masked_secret(self, text: str) -> str:
        """Return another text for the whole value of a secret property."""
        shown = self._masked_spelling(text)
        return f"secret-{self._masked_digits(text)[:8]}" if shown == text else shown

    def _masked_number(self, number: float) -> float:
        """Return another number with as many digits; 0 stays because it tells nothing."""
        if not number or not math.isfinite(number):
            return number
        kind, sign = type(number), -1 if number < 0 else 1
        written = str(abs(number)) if isinstance(number, int) else f"{abs(number):f}"
        shown = sign * kind(self._masked_spelling(written))
        return number + sign if shown == number else shown

    def _masked_pattern(self, text: str) -> str:
        if self._pattern is None:
            words = sorted(self._known, key=len, reverse=True)
            sure = [one for one in words if len(one) >= _SURE and re.search(r"\d", one)]
            rest = [one for one in words if one not in set(sure)]
            bounded = rf"(?<![0-9A-Za-z])(?:{_alternatives(rest)})(?![0-9A-Za-z])"
            self._pattern = re.compile(rf"{_alternatives(sure)}|{bounded}", re.IGNORECASE)
        return self._pattern.sub(self._same_shape, text)

    def _masked_digits(self, text: str) -> str:
        """Return hexadecimal digits for a text, the same in upper case or with separators."""
        key = text.strip().lower()
        key = re.sub("[:-]", "", key) if _HEX.fullmatch(key) else key
        digits = hashlib.blake2b(key.encode(), key=self._salt).hexdigest()
        # A MAC address must be of one card, and not one that a maker has given.
        return f"{digits[0]}2{digits[2:]}" if len(key) == _CARD_DIGITS else digits

    def _masked_spelling(self, text: str) -> str:
        """Return another text with letters, digits and signs in the same places."""
        digits = iter(self._masked_digits(text) * (len(text) // 128 + 1))
        base = _HEX.fullmatch(text.strip()) and re.search("[A-Fa-f]", text)
        upper, shown = text.isupper(), []
        for letter in text:
            if not letter.isalnum():
                shown.append(letter)
                continue
            digit = next(digits)
            if not base:
                digit = (
                    str(int(digit, 16) % 10)
                    if letter.isdigit()
                    else "abcdefghijklmnop"[int(digit, 16)]
                )
            shown.append(digit.upper() if letter.isupper() or upper else digit)
        return "".join(shown)

    def _same_shape(self, found: re.Match[str]) -> str:
        text = found[0]
        if text.lower().startswith(("iqn.", "nqn.", "eui.", "naa.")):
            return text[:4] + self._masked_spelling(text[4:])
        constant = len(set(text.lower()) - set(":-")) == 1
        return text if constant else self._masked_spelling(text)

    def _masked_v4(self, found: re.Match[str]) -> str:
        try:
            address = ipaddress.IPv4Address(found[0])
        except ValueError:
            return found[0]
        if address.is_unspecified or address.is_loopback or str(address).startswith("255."):
            return found[0]
        number = int(self._masked_digits(found[0])[:6], 16)
        return f"198.{18 + number % 2}.{number // 2 % 256}.{number // 512 % 254 + 1}"

    def _masked_v6(self, found: re.Match[str]) -> str:
        try:
            address = ipaddress.IPv6Address(found[0])
        except ValueError:
            return found[0]
        if address.is_unspecified or address.is_loopback:
            return found[0]
        digits = self._masked_digits(str(address))
        lead = "fe80:" if address.is_link_local else "2001:db8"
        return ":".join([lead, *(digits[place : place + 4] for place in (0, 4, 8, 12))])

    def _masked_mail(self, found: re.Match[str]) -> str:
        return f"user-{self._masked_digits(found[0])[:8]}@example.org"

    def _masked_url(self, found: re.Match[str]) -> str:
        """Return another host, path and query; the path of a Redfish document stays."""
        place, rest = found[1].rpartition("@")[2], found[2] or ""
        host, colon, port = place.partition(":")
        if _PUBLIC_HOST.fullmatch(host):
            return place + rest
        kept = _REDFISH.match(rest)
        path = kept[0] if kept else ""
        rest = path + self._masked_spelling(rest[len(path) :])
        if place.startswith("[") or _V4.fullmatch(host) or not host:
            return place + rest
        tail = f":{port}" if colon and port.isdigit() else ""
        return f"host-{self._masked_digits(host)[:8]}.example.org{tail}{rest}"


def _properties(value: Json, outer: str) -> Iterator[tuple[str, Any, str]]:
    """Yield key and value of each property, and the name that decides whether it is private.

    :param outer: the deciding name of the whole object.
    """
    called = (value.get(key) for key in _NAMING)
    beside = next((name for name in called if isinstance(name, str) and _is_private(name)), "")
    for key, inner in value.items():
        name = str(key)
        own = beside if beside and name in _NAMED else name
        # Links and annotations are facts wherever they stand.
        passed = _is_secret(outer) or (_is_private(outer) and not _FACT.search(own))
        keeps = name.startswith("@") or "@odata" in name or _is_secret(own)
        yield name, inner, outer if passed and not keeps else own


def _without_free_oem(value: Json) -> Json:
    """Return an object whose ``Oem`` has only what the drivers read."""
    if "Oem" not in value:
        return value
    shown = {key: inner for key, inner in value.items() if key != "Oem"}
    found = resources.value(value, *quirks.FOREIGN_DISK.place)
    if found is not None:
        for key in reversed(quirks.FOREIGN_DISK.place):
            found = {key: found}
        shown |= found
    return shown


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_secret(name: str) -> bool:
    """Return whether a property is secret; actions and allowed values are facts of a make."""
    return masking.secret(name) and not name.startswith("#") and "@Redfish." not in name


def _is_private(name: str) -> bool:
    return (_PRIVATE.search(name) is not None and not _FACT.search(name)) or _is_secret(name)


def telling(text: str) -> bool:
    return _PUBLIC.fullmatch(text.strip()) is None


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, words)) or r"(?!)"


def anonymized(documents: Mapping[str, Json], texts: Iterable[str] = ()) -> dict[str, Json]:
    """Return documents by path without private data.

    :param texts: further private texts.
    """
    private = list(texts)
    while True:
        mask = Mask(private)
        for path, document in documents.items():
            mask.learn(path)
            mask.learn(document)
        found = {mask.text(path): mask.hide(document) for path, document in documents.items()}
        # Two short texts may by chance have got the same replacement.
        if len(found) == len(documents):
            return found
