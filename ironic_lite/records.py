"""Rows as objects for drivers and flows, which remember changed values."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, TypedDict

from ironic_lite.core.json_types import Json, JsonView, Row


class Record:
    """One database row with attributes.

    Assign whole values (``node.properties = {...}``): a change inside a dictionary is not noticed
    and would be lost. ``changes`` holds what the next save writes. ``objects`` names the JSON
    columns in which NULL reads as {}.

    Subclasses annotate every column. The type checker sees these annotations alone, and so finds a
    misspelt column.
    """

    objects: ClassVar[tuple[str, ...]] = ()
    _row: Row
    _changes: Row

    @classmethod
    def of(cls, row: JsonView) -> Self:
        """Return the record of a row with all columns."""
        return cls({**row, **{name: row[name] or {} for name in cls.objects}})

    def __init__(self, row: JsonView) -> None:
        object.__setattr__(self, "_row", dict(row))
        object.__setattr__(self, "_changes", {})

    if not TYPE_CHECKING:
        __slots__ = ("_changes", "_row")

        def __getattr__(self, name):
            try:
                return object.__getattribute__(self, "_row")[name]
            except KeyError:
                raise AttributeError(f"{type(self).__name__} has no column {name}") from None

        def __setattr__(self, name, value):
            if name not in self._row:
                raise AttributeError(f"{type(self).__name__} has no column {name}")
            if not _same(self._row[name], value):
                self._row[name] = value
                self._changes[name] = value

    @property
    def changes(self) -> Row:
        """Return column -> value of every assignment since the last ``settle``."""
        return dict(self._changes)

    def settle(self, **written: object) -> None:
        """Mark the changes as saved; ``written`` holds values that the save itself made."""
        self._changes.clear()
        self._row.update(written)

    def snapshot(self) -> tuple[Row, Row]:
        """Return the values and changes, for `restore`."""
        return dict(self._row), dict(self._changes)

    def restore(self, before: tuple[Row, Row], **learnt: object) -> None:
        """Take back the assignments since a snapshot; ``learnt`` was read from the database."""
        for kept, values in zip((self._row, self._changes), before, strict=True):
            kept.clear()
            kept.update(values)
        self._row.update(learnt)

    def as_dict(self) -> Row:
        """Return all columns with their current values."""
        return dict(self._row)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._row.get('uuid')}>"


def _same(one: object, other: object) -> bool:
    """Return whether two values are the same JSON.

    Python takes ``1`` for ``True``, also inside lists and dictionaries.
    """
    if one is other:
        return True
    if one != other:  # compared in C; only equal values need the closer look
        return False
    return _same_types(one, other)


def _same_types(one: object, other: object) -> bool:
    """Return whether equal values have booleans in the same places."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_same_types(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return all(map(_same_types, one, other))
    return isinstance(one, bool) is isinstance(other, bool)


VIF = "tenant_vif_port_id"
"""The key of ``internal_info`` under which a port or portgroup has its virtual interface."""


class StoredStep(TypedDict, total=False):
    """A step in a list, as on the wire and in the database.

    A step has ``interface`` and ``step``; the other keys depend on the list. In the step columns of
    a node an empty object stands for no step.
    """

    interface: str
    step: str
    args: Json | None
    priority: int | float | str | None
    """As text only in a request for a deployment; None, in a driver's step, is 0."""
    abortable: bool
    argsinfo: dict[str, Json] | None
    requires_ramdisk: bool
    reboot_requested: bool
    abort_after: bool
    """True if an abort waits for the end of this step."""
    execute_on_child_nodes: bool
    limit_child_node_execution: list[str]
    order: int
    """The place in a runbook."""


StepsByInterface = dict[str, list[StoredStep]]


class StoredTemplate(TypedDict):
    """A deploy template as a deployment uses it."""

    name: str
    steps: list[StoredStep]


class Node(Record):
    """A machine, with the columns of ``db.tables.models.nodes``."""

    __slots__ = ()
    objects = ("driver_info", "driver_internal_info", "properties", "extra", "instance_info")

    id: int
    uuid: str
    name: str | None
    driver: str
    driver_info: Json
    driver_internal_info: Json
    properties: Json
    extra: Json
    instance_info: Json
    instance_uuid: str | None
    instance_name: str | None
    chassis_uuid: str | None
    provision_state: str
    target_provision_state: str | None
    provision_updated_at: datetime.datetime | None
    power_state: str | None
    target_power_state: str | None
    last_error: str | None
    maintenance: bool
    maintenance_reason: str | None
    fault: str | None
    health: str | None
    boot_mode: str | None
    secure_boot: bool | None
    console_enabled: bool
    inspection_started_at: datetime.datetime | None
    inspection_finished_at: datetime.datetime | None
    clean_step: StoredStep | None
    deploy_step: StoredStep | None
    service_step: StoredStep | None
    raid_config: Json | None
    target_raid_config: Json | None
    run_uuid: str | None
    wake_at: datetime.datetime | None
    generation: int
    reservation: str | None
    lock_token: str | None
    lock_expires: datetime.datetime | None
    conductor_group: str
    resource_class: str | None
    automated_clean: bool | None
    protected: bool
    protected_reason: str | None
    retired: bool
    retired_reason: str | None
    owner: str | None
    lessee: str | None
    description: str | None
    network_data: Json | None
    shard: str | None
    parent_node: str | None
    disable_power_off: bool
    bios_interface: str | None
    boot_interface: str | None
    console_interface: str | None
    deploy_interface: str | None
    firmware_interface: str | None
    inspect_interface: str | None
    management_interface: str | None
    network_interface: str | None
    power_interface: str | None
    raid_interface: str | None
    rescue_interface: str | None
    storage_interface: str | None
    vendor_interface: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    allocation_uuid: str | None
    locked_at: datetime.datetime | None
    lock_note: str | None
    run_stop: str | None
    """A stop of the run, as ``domain.run_stops`` writes it."""
    data_state: str | None
    data_state_at: datetime.datetime | None
    data_state_by: str | None
    import_uuid: str | None
    agent_pin: str | None
    agent_pin_generation: int | None
    agent_heard_at: datetime.datetime | None


class Port(Record):
    """A network interface card of a node."""

    __slots__ = ()
    objects = ("extra", "internal_info", "local_link_connection")

    id: int
    uuid: str
    name: str | None
    address: str
    node_uuid: str
    portgroup_uuid: str | None
    extra: Json
    internal_info: Json
    local_link_connection: Json
    pxe_enabled: bool
    physical_network: str | None
    is_smartnic: bool
    description: str | None
    vendor: str | None
    category: str | None
    available_for_dynamic_portgroup: bool
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class Portgroup(Record):
    """Network interface cards of a node that work as one."""

    __slots__ = ()
    objects = ("extra", "internal_info", "properties")

    id: int
    uuid: str
    name: str | None
    address: str | None
    node_uuid: str
    mode: str | None
    properties: Json
    standalone_ports_supported: bool
    physical_network: str | None
    category: str | None
    dynamic_portgroup: bool
    extra: Json
    internal_info: Json
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class Run(TypedDict):
    """A row of ``db.tables.models.runs``."""

    id: int
    uuid: str
    node_uuid: str
    verb: str
    requester: str | None
    project: str | None
    request_id: str | None
    conductor: str | None
    state: str
    started_at: datetime.datetime
    ended_at: datetime.datetime | None
    error: Json | None
    code: str | None
    retry_of: str | None
    listed: Json | None
    owner: str | None
    lessee: str | None
    cause: str | None


class RunStep(TypedDict):
    """A row of ``db.tables.models.run_steps``."""

    id: int
    run_uuid: str
    ordinal: int
    kind: str
    interface: str
    step: str
    args: Json | None
    priority: float
    abortable: bool
    state: str
    attempt: int
    started_at: datetime.datetime | None
    ended_at: datetime.datetime | None
    error: Json | None
    done_in: str | None
    waiver: Json | None
    overdue_at: datetime.datetime | None


class Event(TypedDict):
    """A row of ``db.tables.models.events``."""

    id: int
    at: datetime.datetime
    node_uuid: str
    run_uuid: str | None
    kind: str
    event: str | None
    before: str | None
    after: str | None
    conductor: str | None
    requester: str | None
    request_id: str | None
    data: Json | None
    owner: str | None
    lessee: str | None
    project: str | None


class Lease(NamedTuple):
    """A lock as read from a node's row; equal leases mean no renewal in between."""

    token: str
    expires: datetime.datetime | None

    @classmethod
    def seen(cls, row: JsonView) -> Lease | None:
        """Return the lease in a node's row, None if the node is not locked."""
        token = row["lock_token"]
        return None if token is None else cls(token, row["lock_expires"])
