"""Fast track: reuse of a running ramdisk by the next verb. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ironic_lite.core.json_types import JsonView

KEY = "fast_track"
"""Key in driver_info that decides for a node."""

_WORDS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


def wanted(driver_info: JsonView, default: bool) -> bool:
    """Return whether a node uses fast track.

    :param default: ``[deploy]fast_track``.
    """
    return default if (found := _read_flag(driver_info.get(KEY))) is None else found


def read(value: object) -> bool:
    """Read a boolean or a word for one.

    :raises ValueError: it is neither.
    """
    if (found := _read_flag(value)) is None:
        raise ValueError(f"{value!r} is neither true nor false")
    return found


def _read_flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else _WORDS.get(str(value).strip().lower())
