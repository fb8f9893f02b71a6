"""Mask secrets in the free-form objects of a node before they leave the service.

Responses and notifications pass here. A GET does so for each of three objects, so an object is
copied only if it holds a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

from ironic_lite.core.json_types import Json

MASK = "******"

_SECRET = re.compile(
    r"pass_?(word|wd|phrase|code)|pswd|admin_?pass|(^|[_-])pass$"
    r"|secret|token|credential|authorization"
    r"|(api|private|access|auth|priv|encryption|encrypted|kg)_?key|fernetkey|sslkey|sshkey"
    r"|rabbitcookie",
    re.IGNORECASE,
)
_SECRET_TO_STRANGERS = re.compile(
    r"(^|[_-])(pwd?|passwd|login|pin)([_-]|$)|keys?$|community|cookie|license", re.IGNORECASE
)
SECRET_PATTERN = _SECRET.pattern
"""Regular expression of the names of secret keys, for clients; case is ignored."""
# These are secret by their place, not by their name.
_SECRET_IN: Mapping[str, frozenset[str]] = {
    "instance_info": frozenset({"configdrive", "image_url"})
}
# JSON pointers and paths of inspection rules, which are not URLs.
_PATH = re.compile(r"/?[\w-]+([/.][\w-]+)+")
_WORD = re.compile(r"/?[\w-]+")
_ARGS = "args"
_URL_LOGIN = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]*(?=@)")
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
        return _URL_LOGIN.sub(rf"\1:{MASK}", value) if "://" in value and "@" in value else value
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
            name: held if held is None else MASK if _secret_without_login(name) else shown
            for name, held in value.items()
            for shown in (masked_without_login(held),)
        }
    if isinstance(value, list):
        return [masked_without_login(item) for item in value]
    return address(value) if isinstance(value, str) and "://" in value else value


def _secret_without_login(name: str) -> bool:
    return secret(name) or _SECRET_TO_STRANGERS.search(name) is not None


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
