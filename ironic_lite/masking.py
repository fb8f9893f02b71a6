"""Hide what is secret in the free-form objects of a node before they leave the service.

Answers and notifications pass here. A GET does so for each of three objects, so nothing is copied
unless something in it is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

MASK = "******"

_SECRET = re.compile(
    r"pass_?(word|wd|phrase|code)|pswd|admin_?pass|(^|[_-])pass$"
    r"|secret|token|credential|authorization"
    r"|(api|private|access|auth|priv|encryption)_?key",
    re.IGNORECASE,
)
# These are secret where they stand, not by how they are called.
_SECRET_IN: Mapping[str, frozenset[str]] = {
    "instance_info": frozenset({"configdrive", "image_url"})
}
_URL_LOGIN = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]*(?=@)")


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
    if isinstance(value, list):
        shown = [mask(item) for item in value]
        same = all(new is old for new, old in zip(shown, value, strict=True))
        return value if same else shown
    return value


def _mask_object(value: dict[str, Any]) -> dict[str, Any]:
    """Mask one object; a list of nodes spends most of its time here, so it copies late."""
    shown: dict[str, Any] | None = None
    for key, held in value.items():
        if secret(key) or (key == "value" and _names_secret(value)):
            new = held if held is None else MASK
        elif isinstance(held, (dict, list)) or (isinstance(held, str) and "://" in held):
            new = mask(held)
        else:
            continue
        if new is not held:
            shown = dict(value) if shown is None else shown
            shown[key] = new
    return value if shown is None else shown


def _names_secret(value: dict[str, Any]) -> bool:
    """Tell whether this is a setting, ``{"name": ..., "value": ...}``, of a secret name."""
    name = value.get("name")
    return isinstance(name, str) and secret(name)


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
    """Return what a client means by a field it read masked, changed and sent back.

    Wherever ``given`` holds just what was shown instead of a stored secret, the secret stays.

    :param name: the node's field; ``given`` and ``stored`` are its values.
    """
    if not isinstance(given, dict) or not isinstance(stored, dict):
        return given
    return {key: _restored(name, key, held, stored) for key, held in given.items()}


def _restored(name: str, key: str, given: Any, around: dict[str, Any]) -> Any:
    stored = around.get(key)
    if stored is None:
        return given
    if isinstance(given, dict):
        return restore("", given, stored)
    hidden = secret(key) or key in _SECRET_IN.get(name, ())
    hidden = hidden or (key == "value" and _names_secret(around))
    return stored if given == (MASK if hidden else mask(stored)) else given
