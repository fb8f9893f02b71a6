"""Hide what is secret in the free-form objects of a node before they leave the service.

A GET passes here for each of three objects, so nothing is copied unless something in it is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
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
        return _replace(value, {key: _under(key, held) for key, held in value.items()})
    if isinstance(value, list):
        shown = [mask(item) for item in value]
        same = all(new is old for new, old in zip(shown, value, strict=True))
        return value if same else shown
    return value


def field(name: str, value: Any) -> Any:
    """Return the value of node field ``name``, which ``fields`` marks secret, fit to be shown."""
    shown = mask(value)
    hidden = _SECRET_IN.get(name)
    if not hidden or not isinstance(shown, dict) or hidden.isdisjoint(shown):
        return shown
    return {
        key: MASK if key in hidden and held is not None else held for key, held in shown.items()
    }


def _under(key: str, value: Any) -> Any:
    if secret(key):
        return value if value is None else MASK
    if isinstance(value, (dict, list, str)):
        return mask(value)
    return value


def _replace(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    same = all(after[key] is value for key, value in before.items())
    return before if same else after
