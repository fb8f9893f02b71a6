"""Capabilities in ``properties.capabilities``: ``"a:x,b:y"`` or ``{"a": "x"}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEPLOYED_MODE = "deploy_boot_mode"
"""Key of driver_internal_info with the boot mode of the instance, for the agent."""


def get(known: object, name: str) -> str | None:
    """Return a capability as text, None if missing."""
    if isinstance(known, str):
        pairs = (item.partition(":") for item in known.split(","))
        known = {key.strip(): value.strip() for key, _, value in pairs}
    value = known.get(name) if isinstance(known, Mapping) else None
    return None if value is None else str(value)


def put(known: object, name: str, value: str) -> Any:
    """Return capabilities in their own form, with one of them set."""
    if isinstance(known, Mapping):
        return {**known, name: value}
    words = known.split(",") if isinstance(known, str) else []
    kept = [word for word in words if word.strip() and word.split(":")[0].strip() != name]
    return ",".join([*kept, f"{name}:{value}"])
