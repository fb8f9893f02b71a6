"""Hide what is secret in the free-form objects of a node before they leave the service.

Answers and notifications pass here. A GET does so for each of three objects, so nothing is copied
unless something in it is hidden.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

MASK = "******"

_SECRET = re.compile(
    r"pass_?(word|wd|phrase|code)|pswd|admin_?pass|(^|[_-])pass$"
    r"|secret|token|credential|authorization"
    r"|(api|private|access|auth|priv|encryption|kg)_?key",
    re.IGNORECASE,
)
# These are secret where they stand, not by how they are called.
_SECRET_IN: Mapping[str, frozenset[str]] = {
    "instance_info": frozenset({"configdrive", "image_url"})
}
# Where a JSON pointer, or an inspection rule, leads to: not a URL.
_PATH = re.compile(r"/?[\w-]+([/.][\w-]+)+")
_WORD = re.compile(r"/?[\w-]+")
_ARGS = "args"
_URL_LOGIN = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]*(?=@)")
# What images.published.secret_name adds to the UUID of a node.
_UNGUESSABLE = re.compile(r"(?<=[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-)[\w-]{22}(?![\w-])")


@lru_cache(maxsize=4096)
def secret(key: str) -> bool:
    """Tell whether a key of this name holds a password, token or other secret."""
    return _SECRET.search(key) is not None


def mask(value: Any) -> Any:
    """Return a JSON value with every secret in it replaced by ``******``.

    What stands under a secret key is hidden whole, null excepted; the password of a URL is
    hidden in any string. The same object comes back if there was nothing to hide.
    """
    if isinstance(value, str):
        return _URL_LOGIN.sub(rf"\1:{MASK}", value) if "://" in value and "@" in value else value
    if isinstance(value, dict):
        return _mask_object(value)
    return _mask_list("", value) if isinstance(value, list) else value


def _mask_list(key: str, value: list[Any]) -> list[Any]:
    """Mask a list that stands under ``key``."""
    if seen := _before_secret(key, value):
        return [*value[:seen], *(item if item is None else MASK for item in value[seen:])]
    shown = [mask(item) for item in value]
    same = all(new is old for new, old in zip(shown, value, strict=True))
    return value if same else shown


def address(url: str) -> str:
    """Return a URL without its password and what follows ``?``: there signed ones have a key.

    Of files made for one machine, the part of the name that nobody can guess is hidden, too.
    """
    place, question, _ = _UNGUESSABLE.sub(MASK, str(mask(url))).partition("?")
    return f"{place}?{MASK}" if question else place


def unguessable(text: str) -> str | None:
    """Return the part of a file's name or URL that keeps others from reading it, None without."""
    found = _UNGUESSABLE.search(text)
    return found and found[0]


def _mask_object(value: dict[str, Any]) -> dict[str, Any]:
    """Mask one object; a list of nodes spends most of its time here, so it copies late."""
    shown: dict[str, Any] | None = None
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


def _names_secret(value: dict[str, Any]) -> bool:
    """Tell whether this is a setting, ``{"name": ..., "value": ...}``, of a secret name, or what is
    to be written, ``{"path": ..., "value": ...}``, to a secret place.
    """
    name, path = value.get("name"), value.get("path")
    return (isinstance(name, str) and secret(name)) or (isinstance(path, str) and secret(path))


def _names(value: dict[str, Any]) -> tuple[Any, Any]:
    """Return what says whether the value of a setting is secret."""
    return value.get("name"), value.get("path")


def _before_secret(key: str, value: list[Any]) -> int:
    """Return how many items stand before what is to be written to a secret place; 0: there is none.

    One, ``[path, value]``; or two in the ``args`` of a rule about a port, ``[port, path, value]``.

    :param key: under which the list stands: a path of ``args`` may also be a word.
    """
    own = key == _ARGS
    places = range(1, min(len(value), 3 if own else 2))
    return next((place for place in places if _leads_to_secret(value[place - 1], own)), 0)


def _leads_to_secret(path: Any, word: bool) -> bool:
    if not isinstance(path, str) or not secret(path):
        return False
    return bool(_PATH.fullmatch(path) or (word and _WORD.fullmatch(path)))


def field(name: str, value: Any) -> Any:
    """Return the value of node field ``name``, which ``fields`` marks secret, fit to be shown."""
    shown = mask(value)
    hidden = _SECRET_IN.get(name)
    if not hidden or not isinstance(shown, dict) or hidden.isdisjoint(shown):
        return shown
    return {
        key: MASK if key in hidden and held is not None else held for key, held in shown.items()
    }


def shape(name: str) -> Callable[[Any], Any]:
    """Return what `field` does for this name, by the shortest way."""
    return partial(field, name) if name in _SECRET_IN else mask


def restore(name: str, given: Any, stored: Any) -> Any:
    """Return what a client means by a value it read masked, changed and sent back.

    Wherever ``given`` holds just what was shown instead of a stored secret, the secret stays; all
    else is taken as it is. What is secret by the name or path beside it stays only with these:
    under others it would be shown.

    :param name: the node's field; ``given`` and ``stored`` are its values.
    """
    if isinstance(given, dict) and isinstance(stored, dict):
        return {key: _restored(name, key, given, stored) for key in given}
    if isinstance(given, list) and isinstance(stored, list):
        return _restored_items(name, given, stored)
    return stored if isinstance(given, str) and given == mask(stored) else given


def _restored(name: str, key: str, around: dict[str, Any], known: dict[str, Any]) -> Any:
    given, stored = around[key], known.get(key)
    if stored is None:
        return given
    if secret(key) or key in _SECRET_IN.get(name, ()):
        return stored if given == MASK else given
    if key == "value" and _names_secret(known):
        return stored if given == MASK and _names(around) == _names(known) else given
    return restore(key if key == _ARGS else "", given, stored)


def forget_renamed(key: str, now: Any, former: Any) -> None:
    """Replace in ``now`` what ``former`` hides by a name or path that is another now, in place.

    Who changes only the name would be shown the secret. Both are an object, or a list, before and
    after one operation of a PATCH on it; the secret has to be sent again.

    :param key: under which it stands.
    """
    if isinstance(now, dict):
        if _names_secret(former) and _names(now) != _names(former) and now.get("value") is not None:
            now["value"] = MASK
    elif isinstance(now, list):
        seen = _before_secret(key, former)
        if seen and now[:seen] != former[:seen]:
            now[:] = [MASK if item is not None and item in former[seen:] else item for item in now]


def _restored_items(key: str, given: list[Any], stored: list[Any]) -> list[Any]:
    """Find for each item the stored one that it was: items may have come, gone or moved.

    An item that still looks as it was shown is that one. Items that were changed are taken for
    those that nothing looks like any more, in their order, if there are as many of both.
    """
    shown = _mask_list(key, stored)
    if shown is stored:
        return given
    looks, known = [_look(item) for item in given], [_look(item) for item in shown]
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


def _restored_item(given: Any, stored: Any, *, hidden: bool) -> Any:
    return stored if hidden and given == MASK else restore("", given, stored)


def _look(item: Any) -> str:
    """Return a text that is the same for the same JSON; True is not 1."""
    return json.dumps(item, sort_keys=True)
