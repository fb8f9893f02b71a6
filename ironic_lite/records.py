"""Rows as objects for drivers and flows, which remember changed values."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self


class Record:
    """One database row with attributes.

    Assign whole values (``node.properties = {...}``): a change inside a dictionary is not noticed
    and would be lost. ``changes`` holds what the next save writes. ``objects`` names the JSON
    columns in which NULL reads as {}.
    """

    __slots__ = ("_changes", "_row")
    objects: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Return the record of a row with all columns."""
        return cls({**row, **{name: row[name] or {} for name in cls.objects}})

    def __init__(self, row: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_row", dict(row))
        object.__setattr__(self, "_changes", {})

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "_row")[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no column {name}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._row:
            raise AttributeError(f"{type(self).__name__} has no column {name}")
        if not _same(self._row[name], value):
            self._row[name] = value
            self._changes[name] = value

    @property
    def changes(self) -> dict[str, Any]:
        """Return column -> value of every assignment since the last ``settle``."""
        return dict(self._changes)

    def settle(self, **written: Any) -> None:
        """Mark the changes as saved; ``written`` holds values that the save itself made."""
        self._changes.clear()
        self._row.update(written)

    def as_dict(self) -> dict[str, Any]:
        """Return all columns with their current values."""
        return dict(self._row)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._row.get('uuid')}>"


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON.

    Python takes ``1`` for ``True``, also inside lists and dictionaries.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


VIF = "tenant_vif_port_id"
"""The key of ``internal_info`` under which a port or portgroup has its virtual interface."""


class Node(Record):
    """A machine. Annotations name the columns for drivers; ``db.tables.models`` has all columns."""

    __slots__ = ()
    objects = ("driver_info", "driver_internal_info", "properties", "extra", "instance_info")

    id: int
    uuid: str
    name: str | None
    driver: str
    driver_info: dict[str, Any]
    driver_internal_info: dict[str, Any]
    properties: dict[str, Any]
    instance_info: dict[str, Any]
    extra: dict[str, Any]
    power_state: str | None
    target_power_state: str | None
    provision_state: str
    target_provision_state: str | None
    provision_updated_at: datetime.datetime | None
    reservation: str | None
    lock_token: str | None
    lock_expires: datetime.datetime | None
    wake_at: datetime.datetime | None
    run_uuid: str | None
    generation: int
    last_error: str | None
    maintenance: bool
    maintenance_reason: str | None
    fault: str | None
    protected: bool
    retired: bool
    automated_clean: bool | None
    disable_power_off: bool
    parent_node: str | None
    raid_config: dict[str, Any] | None
    target_raid_config: dict[str, Any] | None
    boot_mode: str | None
    secure_boot: bool | None


class Port(Record):
    """A network interface card of a node."""

    __slots__ = ()
    objects = ("extra", "internal_info", "local_link_connection")

    id: int
    uuid: str
    address: str
    node_uuid: str
    portgroup_uuid: str | None
    physical_network: str | None
    pxe_enabled: bool
    extra: dict[str, Any]
    internal_info: dict[str, Any]


class Portgroup(Record):
    """Network interface cards of a node that work as one."""

    __slots__ = ()
    objects = ("extra", "internal_info", "properties")

    id: int
    uuid: str
    address: str | None
    node_uuid: str
    physical_network: str | None
    extra: dict[str, Any]
    internal_info: dict[str, Any]


class Lease(NamedTuple):
    """A lock as read from a node's row; equal leases mean no renewal in between."""

    token: str
    expires: datetime.datetime | None

    @classmethod
    def seen(cls, row: Mapping[str, Any]) -> Lease | None:
        """Return the lease in a node's row, None if the node is not locked."""
        token = row["lock_token"]
        return None if token is None else cls(token, row["lock_expires"])
