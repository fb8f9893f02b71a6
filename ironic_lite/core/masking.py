"""Mask secrets in the free-form objects of a node before they leave the service.

Responses and notifications pass here. A GET does so for each of three objects, so an object is
copied only if it holds a secret.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from ironic_lite.core.json_types import Json

MASK = "******"

_NAMES = (
    ("kt", r"pass_?(word|wd|phrase|code)|pswd"),
    ("k", r"admin_?pass|(^|[_-])pass$"),
    ("t", r"[_-]pass"),
    ("kt", r"secret|token|credential"),
    ("k", r"authorization"),
    ("kt", r"(api|private|access|auth|priv|encryption|encrypted|kg)_?key|fernetkey|sslkey|sshkey"),
    ("k", r"rabbitcookie"),
    ("t", r"configdrive|cookie"),
    ("s", r"(^|[_-])(pwd?|passwd|login|pin)([_-]|$)|keys?$|community|cookie|license"),
)
"""Patterns of secret names, with the places where they are secret.

k: keys of JSON objects; s: further keys, for strangers, who have no login; t: names in texts. In a
text, `_HEADER` finds authorization, which has a form of its own there.
"""


def _names(place: str) -> str:
    return "|".join(pattern for places, pattern in _NAMES if place in places)


SECRET_PATTERN = _names("k")
"""Regular expression of the names of secret keys, for clients; case is ignored."""
_SECRET = re.compile(SECRET_PATTERN, re.IGNORECASE)
_SECRET_TO_STRANGERS = re.compile(f"{SECRET_PATTERN}|{_names('s')}", re.IGNORECASE)
# These are secret by their place, not by their name.
_SECRET_IN: Mapping[str, frozenset[str]] = {
    "instance_info": frozenset({"configdrive", "image_url"})
}
# JSON pointers and paths of inspection rules, which are not URLs.
_PATH = re.compile(r"/?[\w-]+([/.][\w-]+)+")
_WORD = re.compile(r"/?[\w-]+")
_ARGS = "args"
URL_LOGIN = re.compile(r"(?<=://)([^/\s:@]*):[^/\s?#]*(?=@)")
_MASKED_LOGIN = re.compile(rf"://[^/\s:@]*:{re.escape(MASK)}@")
_REMEMBERED = 64
"""Longest key, in characters, whose judgement is cached; clients choose keys."""
# The suffix that images.published.secret_name adds to the UUID of a node.
_UNGUESSABLE = re.compile(r"(?<=[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-)[\w-]{22}(?![\w-])")


def secret(key: str) -> bool:
    """Return whether a key of this name holds a password, token or other secret."""
    return _is_secret_key(key) if len(key) <= _REMEMBERED else _SECRET.search(key) is not None


@lru_cache(maxsize=4096)
def _is_secret_key(key: str) -> bool:
    return _SECRET.search(key) is not None


def mask(value: object) -> Any:
    """Return a JSON value with every secret in it replaced by ``******``.

    The value of a secret key is hidden whole, except null; the password of a URL is hidden in any
    string. The same object is returned if it holds no secret.
    """
    if isinstance(value, str):
        return URL_LOGIN.sub(rf"\1:{MASK}", value) if "://" in value and "@" in value else value
    if isinstance(value, dict):
        return _mask_object(value)
    return _mask_list("", value) if isinstance(value, list) else value


def _mask_list(key: str, value: list[Any]) -> list[Any]:
    """Mask a list that is the value of ``key``."""
    if seen := _before_secret(key, value):
        return [*value[:seen], *(item if item is None else MASK for item in value[seen:])]
    shown = [mask(item) for item in value]
    same = all(new is old for new, old in zip(shown, value, strict=True))
    return value if same else shown


def address(url: str) -> str:
    """Return a URL without its password and without its query, which may hold a key.

    For files made for one machine, the random part of the name is hidden, too.
    """
    place, question, _ = _UNGUESSABLE.sub(MASK, str(mask(url))).partition("?")
    return f"{place}?{MASK}" if question else place


def unguessable(text: str) -> str | None:
    """Return the random part of a file's name or URL, None without one."""
    found = _UNGUESSABLE.search(text)
    return found and found[0]


def masked_without_login(value: object) -> Any:
    """Return a masked JSON value for a client without a login.

    More names are hidden than Ironic hides from clients with a login; `address` is applied to
    addresses.
    """
    if isinstance(value, dict):
        return {
            name: held if held is None else MASK if _SECRET_TO_STRANGERS.search(name) else shown
            for name, held in value.items()
            for shown in (masked_without_login(held),)
        }
    if isinstance(value, list):
        return [masked_without_login(item) for item in value]
    return address(value) if isinstance(value, str) and "://" in value else value


def _mask_object(value: Json) -> Json:
    """Mask one object; it copies late because lists of nodes spend most time here."""
    shown: Json | None = None
    new: Any
    for key, held in value.items():
        if secret(key) or (key == "value" and _names_secret(value)):
            new = held if held is None else MASK
        elif isinstance(held, list):
            new = _mask_list(key, held)
        elif isinstance(held, dict) or (isinstance(held, str) and "://" in held):
            new = mask(held)
        else:
            continue
        if new is not held:
            shown = dict(value) if shown is None else shown
            shown[key] = new
    return value if shown is None else shown


def _names_secret(value: Json) -> bool:
    """Return whether an object sets a value under a secret name or path.

    It is a setting, ``{"name": ..., "value": ...}``, or a write, ``{"path": ..., "value": ...}``.
    """
    name, path = value.get("name"), value.get("path")
    return (isinstance(name, str) and secret(name)) or (isinstance(path, str) and secret(path))


def _deciding_names(value: Json) -> tuple[Any, Any]:
    """Return the name or path that decides whether a setting's value is secret."""
    return value.get("name"), value.get("path")


def _before_secret(key: str, value: list[Any]) -> int:
    """Return how many items precede the secret in a list that writes one, else 0.

    One in ``[path, value]``; two in the ``args`` of a rule about a port, ``[port, path, value]``.

    :param key: of the list: a path of ``args`` may also be a word.
    """
    own = key == _ARGS
    places = range(1, min(len(value), 3 if own else 2))
    return next((place for place in places if _leads_to_secret(value[place - 1], own)), 0)


def _leads_to_secret(path: object, word: bool) -> bool:
    if not isinstance(path, str) or not secret(path):
        return False
    return bool(_PATH.fullmatch(path) or (word and _WORD.fullmatch(path)))


def field(name: str, value: object) -> Any:
    """Return node field ``name`` for display; ``fields`` marks secret ones."""
    shown = mask(value)
    hidden = _SECRET_IN.get(name)
    if not hidden or not isinstance(shown, dict) or hidden.isdisjoint(shown):
        return shown
    return {
        key: MASK if key in hidden and held is not None else held for key, held in shown.items()
    }


def shape(name: str) -> Callable[[Any], Any]:
    """Return the function that does `field` for this name fastest."""
    return partial(field, name) if name in _SECRET_IN else mask


def restore(name: str, given: object, stored: object) -> Any:
    """Return the value a client means after it changed a masked value.

    A masked text in ``given`` keeps the stored secret; everything else is taken as it is. A secret
    that is identified by a name or path keeps its value only under this name or path, because
    another one would reveal it.

    :param name: the node's field; ``given`` and ``stored`` are its values.
    """
    if isinstance(given, dict) and isinstance(stored, dict):
        return {key: _restored_value(name, key, given, stored) for key in given}
    if isinstance(given, list) and isinstance(stored, list):
        return _restored_items(name, given, stored)
    return stored if isinstance(given, str) and given == mask(stored) else given


def _restored_value(name: str, key: str, around: Json, known: Json) -> Any:
    given, stored = around[key], known.get(key)
    if stored is None:
        return given
    if secret(key) or key in _SECRET_IN.get(name, ()):
        return stored if given == MASK else given
    if key == "value" and _names_secret(known):
        return (
            stored if given == MASK and _deciding_names(around) == _deciding_names(known) else given
        )
    return restore(key if key == _ARGS else "", given, stored)


def mask_path(value: object, path: str) -> str | None:
    """Return the path of the first text that answers show in place of a secret, else None.

    The text is the mask, or a URL whose password is the mask.

    :param value: a JSON value of limited depth at ``path``, words with a slash between them.
    """
    if isinstance(value, str):
        return path if value == MASK or _MASKED_LOGIN.search(value) else None
    if isinstance(value, dict):
        items: Iterable[tuple[object, object]] = value.items()
    else:
        items = enumerate(value) if isinstance(value, list) else ()
    found = (mask_path(held, f"{path}/{key}") for key, held in items)
    return next((place for place in found if place is not None), None)


def forget_renamed(key: str, now: Any, former: Any) -> None:
    """Mask secrets in ``now`` whose name or path differs from ``former``, in place.

    A client could otherwise reveal a secret by changing only its name; it has to send the secret
    again. Both are an object, or a list, before and after one operation of a PATCH.

    :param key: of both.
    """
    if isinstance(now, dict):
        if (
            _names_secret(former)
            and _deciding_names(now) != _deciding_names(former)
            and now.get("value") is not None
        ):
            now["value"] = MASK
    elif isinstance(now, list):
        seen = _before_secret(key, former)
        if seen and now[:seen] != former[:seen]:
            hidden = set(map(_comparable_value, former[seen:]))
            now[:] = [
                MASK if item is not None and _comparable_value(item) in hidden else item
                for item in now
            ]


def _restored_items(key: str, given: list[Any], stored: list[Any]) -> list[Any]:
    """Return the stored item of each given one; items may be added, removed or moved.

    A given item that equals the masked form of a stored one is this item. The remaining items are
    paired in their order, if both sides have equally many.
    """
    shown = _mask_list(key, stored)
    if shown is stored:
        return given
    looks, known = (
        [_comparable_text(item) for item in given],
        [_comparable_text(item) for item in shown],
    )
    pairs = enumerate(zip(looks, known, strict=False))
    places = {place: place for place, (now, then) in pairs if now == then}
    left: dict[str, list[int]] = {}
    for place in reversed(range(len(known))):
        if place not in places:
            left.setdefault(known[place], []).append(place)
    for place, look in enumerate(looks):
        if place not in places and left.get(look):
            places[place] = left[look].pop()
    changed = [place for place in range(len(given)) if place not in places]
    unseen = sorted(set(range(len(stored))) - set(places.values()))
    if len(changed) == len(unseen):
        places.update(zip(changed, unseen, strict=True))
    seen = _before_secret(key, stored)
    hidden = bool(seen) and given[:seen] == stored[:seen]
    return [
        _restored_item(item, stored[places[place]], hidden=hidden) if place in places else item
        for place, item in enumerate(given)
    ]


def _restored_item(given: object, stored: object, *, hidden: bool) -> Any:
    return stored if hidden and given == MASK else restore("", given, stored)


def _comparable_text(item: object) -> str:
    """Return an equal text for equal JSON; True is not 1."""
    return json.dumps(item, sort_keys=True)


def _comparable_value(item: object) -> Any:
    """Return an equal value for equal JSON, faster than `_comparable_text` for most."""
    return (type(item), item) if isinstance(item, str | int | float) else _comparable_text(item)


# Mask secrets in free text, such as log lines and the journal of a ramdisk.
#
# `mask` hides values by their keys; a text has no keys. So known secrets are hidden wherever
# they stand, and the words after names such as ``password=`` or ``X-Auth-Token:`` in any case.

_SHORTEST = 3
"""A shorter secret would hide parts of ordinary words."""
_LONGEST = 4096
"""A longer secret, such as a configuration drive, does not fit in a line."""
_WHOLE_WORDS = 8
"""Secrets below this length are only hidden as whole words."""
_SHORTEST_LINE = 16
"""Least length of a line of a secret that is hidden by itself, as texts show such secrets."""
_WORDS_OF_NOTES = frozenset({"deploy", "rescue", "instance", "cdrom", "disk", "usb"})
"""Values in notes of drivers beside secrets, which texts about steps and media need."""
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>]+", re.IGNORECASE)
_KEY = rf"(?:{_names('t')})[\w.-]{{0,64}}"
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
"""A necessary part of each name above; texts without one are read once, not six times."""


TEXT_FIELDS = ("driver_info", "instance_info", "driver_internal_info")
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
        text = _URL.sub(lambda found: address(found[0]), text)
        for pattern in (_HEADER, _NAMED, _OPTION, _SHORT_OPTION, _LOGIN):
            text = pattern.sub(self._hide, text)
        return text


def known_secrets(**fields: object) -> Iterator[str]:
    """Yield the secrets in fields of a node, such as ``driver_info``."""
    for name, value in fields.items():
        yield from _within(value, _SECRET_IN.get(name, ()))


def mask_of_node(node: object, *, prose: bool = False) -> TextMask:
    """Return the mask of texts about a node, which hides the secrets in its fields.

    :param node: a record, or the columns of `FIELDS`.
    """
    get = node.get if isinstance(node, Mapping) else partial(getattr, node)
    return _mask_of(tuple(known_secrets(**{name: get(name) for name in TEXT_FIELDS})), prose)


@lru_cache(maxsize=256)
def _mask_of(secrets: tuple[str, ...], prose: bool) -> TextMask:
    return TextMask(secrets, prose=prose)


def _within(value: object, places: Iterable[str] = ()) -> Iterator[str]:
    if isinstance(value, dict):
        for key, held in value.items():
            if secret(str(key)) or key in places:
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
    """Return a secret as texts show it: as it is, by lines, in JSON, in Python, and in URLs."""
    lines = (line for line in map(str.strip, secret.splitlines()) if len(line) >= _SHORTEST_LINE)
    in_json = (json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
    in_urls = (urllib.parse.quote(secret, safe=safe) for safe in ("", "/"))
    return {secret, repr(secret)[1:-1], *lines, *in_json, *in_urls} - {""}


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
