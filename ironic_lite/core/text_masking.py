"""Mask secrets in free text, such as log lines and the journal of a ramdisk.

`masking` hides values by their keys; a text has no keys. So known secrets are hidden wherever they
stand, and the words after names such as ``password=`` or ``X-Auth-Token:`` in any case.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from ironic_lite.core import masking
from ironic_lite.core.masking import MASK

_SHORTEST = 3
"""A shorter secret would hide parts of ordinary words."""
_LONGEST = 4096
"""A longer secret, such as a configuration drive, does not fit in a line."""
_WHOLE_WORDS = 8
"""Secrets below this length are only hidden as whole words."""
_WORDS_OF_NOTES = frozenset({"deploy", "rescue", "instance", "cdrom", "disk", "usb"})
"""Values in notes of drivers beside secrets, which texts about steps and media need."""
_IN_PLACES = {"instance_info": ("configdrive", "image_url")}
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>]+", re.IGNORECASE)
_KEY = (
    r"(?:pass_?(?:word|wd|phrase|code)|pswd|secret|token|credential|configdrive"
    r"|(?:api|private|access|auth|priv|encryption|encrypted|kg)_?key|fernetkey|sslkey|sshkey"
    r"|cookie|[_-]pass)[\w.-]{0,64}"
)
_VALUE = (
    r"(?P<value>\\\"(?:[^\"\\]|\\[^\"])*|b?\"(?:[^\"\\]|\\.)*\"?|b?'(?:[^'\\]|\\.)*'?"
    r"|[^\s,;&})\]\"'\\]+)"
)
_NAMED = re.compile(rf"(?P<name>{_KEY}(?:\\?[\"'])?\s*(?:=>|[=:])\s*){_VALUE}", re.IGNORECASE)
_OPTION = re.compile(rf"(?P<name>(?<!\S)--?[\w-]{{0,64}}{_KEY}\s+){_VALUE}", re.IGNORECASE)
_HEADER = re.compile(
    r"(?P<name>authorization\\?[\"']?\s*[=:]\s*(?:b?\\?[\"'])?)"
    r"(?P<value>(?:(?:basic|bearer|digest)\s+)?[^\s\"',}\\]+)",
    re.IGNORECASE,
)
_BETWEEN = r"(?:\\?[\"'],)?\s+(?=\S)"
"""Between an option and its value, in a command line or in a list of words."""
_SHORT_OPTION = re.compile(rf"(?P<name>(?<![\w-])-P{_BETWEEN}){_VALUE}")
_LOGIN = re.compile(
    rf"(?P<name>(?<![\w-])(?:-u|--user)(?:=|{_BETWEEN})[\"']?[^\s:\"']{{1,64}}:(?!//))"
    r"(?P<value>[^\s\"']+)"
)
_OPENED = re.compile(r"b?\\?[\"']")
"""The begin of a value in quotes."""
_HARMLESS = frozenset({"none", "null", "true", "false", MASK})
_EXPLAINS = re.compile(
    r"a|an|are|argument|be|but|can|cannot|contains|contradicts|could|did|does|expected|for"
    r"|given|had|has|have|holds|if|in|invalid|is|it|its|malformed|may|missing|must|names|needs"
    r"|neither|never|no|not|of|only|or|other|password|refused|required|secret|set|should|still"
    r"|the|there|they|this|to|token|too|unexpected|unknown|value|was|were|which|will|with|would"
    r"|wrong|you|your",
    re.IGNORECASE,
)
"""Words that begin an explanation of a setting."""
_HINT = re.compile(
    r"pass|pswd|secret|token|credential|configdrive|key|cookie|authorization|://|-[pu]\b|--user",
    re.IGNORECASE,
)


FIELDS = ("driver_info", "instance_info", "driver_internal_info")
"""Columns of a node that hold its secrets."""


class TextMask:
    """Masks texts that may contain these secrets.

    :param secrets: as `known_secrets` returns them.
    :param prose: texts are sentences, in which a colon after a name may begin an explanation
        ("ipmi_password: must be a text"). A word that begins one stays.
    """

    def __init__(self, secrets: Iterable[str] = (), *, prose: bool = False) -> None:
        self._hide = _hide_in_prose if prose else _hide
        words = sorted({form for one in secrets for form in _forms(one)}, key=len, reverse=True)
        self._known = re.compile("|".join(map(_word, words))) if words else None

    def __call__(self, text: str) -> str:
        """Return the text with ``******`` in the place of each secret."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        if _HINT.search(text) is None:
            return text
        text = _URL.sub(lambda found: masking.address(found[0]), text)
        for pattern in (_HEADER, _NAMED, _OPTION, _SHORT_OPTION, _LOGIN):
            text = pattern.sub(self._hide, text)
        return text


def known_secrets(**fields: object) -> Iterator[str]:
    """Yield the secrets in fields of a node, such as ``driver_info``."""
    for name, value in fields.items():
        yield from _within(value, _IN_PLACES.get(name, ()))


def of_node(node: object, *, prose: bool = False) -> TextMask:
    """Return the mask of texts about a node, which hides the secrets in its fields.

    :param node: a record, or the columns of `FIELDS`.
    """
    get = node.get if isinstance(node, Mapping) else partial(getattr, node)
    return TextMask(known_secrets(**{name: get(name) for name in FIELDS}), prose=prose)


def _within(value: object, places: Iterable[str] = ()) -> Iterator[str]:
    if isinstance(value, dict):
        for key, held in value.items():
            if masking.secret(str(key)) or key in places:
                yield from _texts(held)
            else:
                yield from _within(held)
    elif isinstance(value, list):
        for held in value:
            yield from _within(held)
    elif isinstance(value, str) and "://" in value and "@" in value:
        password = _password_of(value)
        if password:
            yield password


def _texts(value: object) -> Iterator[str]:
    """Yield all texts of a secret value."""
    if isinstance(value, str):
        if _SHORTEST <= len(value) <= _LONGEST:
            yield value
    elif isinstance(value, dict | list):
        for held in value.values() if isinstance(value, dict) else value:
            if not isinstance(held, str) or held not in _WORDS_OF_NOTES:
                yield from _texts(held)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _texts(str(value))


def _password_of(url: str) -> str | None:
    try:
        return urllib.parse.urlsplit(url).password
    except ValueError:
        return None


def _forms(secret: str) -> set[str]:
    """Return a secret as texts show it: as it is, in JSON, in Python, and in URLs."""
    in_json = (json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
    in_urls = (urllib.parse.quote(secret, safe=safe) for safe in ("", "/"))
    return {secret, repr(secret)[1:-1], *in_json, *in_urls} - {""}


def _word(text: str) -> str:
    escaped = re.escape(text)
    return rf"(?<!\w){escaped}(?!\w)" if len(text) < _WHOLE_WORDS else escaped


def _hide(found: re.Match[str]) -> str:
    """Return the match with its value hidden; quotes stay, so that JSON stays JSON."""
    value = found["value"]
    if value.lower() in _HARMLESS:
        return found[0]
    opened = _OPENED.match(value)
    before = opened[0] if opened else ""
    after = before[-1:] if len(value) > len(before) and value.endswith(before[-1:]) else ""
    return f"{found['name']}{before}{MASK}{after}"


def _hide_in_prose(found: re.Match[str]) -> str:
    explains = found["name"].endswith(": ") and _EXPLAINS.fullmatch(found["value"])
    return found[0] if explains else _hide(found)


PROSE = TextMask(prose=True)
"""Masks sentences that are not about one node, or whose node is not known."""
