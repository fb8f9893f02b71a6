"""Firmware facts that drivers report, written with the node's next save.

No flow fails because a BMC reports nothing, or nonsense.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.conductor.engine.task import Task
from ironic_lite.core import clock, masking
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import reports
from ironic_lite.drivers import base
from ironic_lite.records import StoredStep

LOG = logging.getLogger(__name__)

_LONGEST = 255  # characters of a key or a word; values may be longer
_LARGEST = 2**63 - 1
_FLAGS = frozenset({"read_only", "reset_required", "unique"})
_NUMBERS = frozenset({"lower_bound", "upper_bound", "min_length", "max_length"})
_PASSWORD = "Password"
_TEXTS = frozenset({None, "String"})
"""Types of settings that may be passwords; None: the BMC reports no type."""
_STATES = frozenset(
    {"clear", "disable", "disabled", "enable", "enabled", "false", "installed", "locked", "no"}
    | {"none", "notinstalled", "notset", "off", "on", "required", "set", "setup", "true"}
    | {"unlocked", "yes"}
)
"""Values that state something about a password and cannot be one, as in ``PasswordStatus``."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of interface with firmware facts: its query, conversion and storage."""

    ask: Callable[[Task], Iterable[Any]]
    row: Callable[[Any], Row | None]
    key: str
    put: Callable[..., None]


def after(task: Task, step: StoredStep) -> None:
    """Ask again for facts that a step may have changed; an empty reply counts, too.

    Steps of management may import a whole configuration.
    """
    if step["interface"] in _KINDS:
        _read_kind(task, step["interface"], empty=True)
        note_boot(task)
    elif step["interface"] == "management":
        refresh(task)


def refresh(task: Task) -> None:
    """Ask for all facts but those of the next boot; an empty reply keeps the stored ones.

    A missing reply ends the queries.
    """
    for kind in _KINDS:
        if not _read_kind(task, kind, empty=False):
            return


def note_boot(task: Task) -> None:
    """Record the boot mode and secure boot that have changed since they were read last."""
    for column, value in boot_changes(task).items():
        before = getattr(task.node, column)
        if before is not None:
            LOG.info("Node %s: %s changed from %s to %s.", task.node.uuid, column, before, value)
        setattr(task.node, column, value)


def boot_changes(task: Task) -> Row:
    """Return what the machine reports otherwise than its node: ``boot_mode``, ``secure_boot``.

    A change of them may wait at the BMC for any boot, and be merged by it.

    :raises errors.LockLost, errors.Stopping: the work ends here.
    """
    told = read_each(task, BOOT)
    known = {name: value for name, value in told.items() if value is not None}
    return {name: value for name, value in known.items() if value != getattr(task.node, name)}


def read_each(task: Task, readers: Mapping[str, Callable[[Task], Any]]) -> Row:
    """Return what the machine answers to each question, without those that it cannot answer.

    A missing reply ends the queries.

    :raises errors.LockLost, errors.Stopping: the work ends here.
    """
    values: Row = {}
    for name, ask in readers.items():
        try:
            values[name] = ask(task)
        except (errors.LockLost, errors.Stopping):
            raise  # no fault of the BMC: the node has another owner, or will have one
        except Exception as why:  # not every BMC reports it; nothing depends on it
            LOG.debug("Node %s: its %s is not known", task.node.uuid, name, exc_info=why)
            if isinstance(why, errors.BmcUnreachable):
                break
    return values


def _read_kind(task: Task, name: str, *, empty: bool) -> bool:
    """Ask one kind and add its facts to the next save; return False without a reply."""
    kind = _KINDS[name]
    try:
        found = [row for one in kind.ask(task) if (row := kind.row(one)) is not None]
    except (errors.LockLost, errors.Stopping):
        raise
    except errors.UnsupportedDriverExtension as why:
        LOG.debug("Node %s: %s", task.node.uuid, why)
        return True
    except Exception as why:  # a driver may raise anything; the flow continues
        text = "Node %s: its firmware facts (%s) could not be read: %s"
        LOG.warning(text, task.node.uuid, name, why)
        return not isinstance(why, errors.BmcUnreachable)
    rows = {row[kind.key]: row for row in found}
    if not rows and not empty:
        return True
    at = clock.now()

    def write(conn: Connection) -> None:
        kind.put(conn, task.node.uuid, list(rows.values()), at=at)

    task.add_write(write)
    return True


# -- rows that every database takes -----------------------------------------------------------


def _stored_setting(setting: base.BiosSetting) -> Row | None:
    """Return a setting as stored; None if its name cannot be a key."""
    name = _column_text(setting.name)
    if not name or name != setting.name:
        LOG.debug("A firmware setting named %.80r cannot be stored.", setting.name)
        return None
    row: Row = {"name": name, "attribute_type": _column_text(setting.attribute_type)}
    by_name = setting.attribute_type in _TEXTS and masking.secret(name)
    secret = setting.attribute_type == _PASSWORD or (by_name and not _is_state(setting.value))
    row["value"] = None if secret else _clean_text(setting.value)
    row |= {flag: _read_flag(getattr(setting, flag)) for flag in _FLAGS}
    row |= {number: _read_number(getattr(setting, number)) for number in _NUMBERS}
    words = setting.allowable_values
    row["allowable_values"] = None if words is None else [str(_clean_text(word)) for word in words]
    return row


def _is_state(value: object) -> bool:
    """Return whether the value of a setting named like a secret only states something."""
    if isinstance(value, str):
        return not value or value.replace(" ", "").lower() in _STATES
    # Intel shows switches such as EnforcedPasswd as 0 and 1, which equal False and True.
    return value is None or value in (False, True)


def _stored_component(part: base.FirmwareComponent) -> Row | None:
    """Return a component as stored; None without a name or a version."""
    row = {"component": _column_text(part.component), "current_version": _column_text(part.version)}
    if not all(row.values()):
        return None
    return {
        **row,
        **{name: _column_text(getattr(part, name)) for name in reports.FIRMWARE_IDENTITY},
    }


def _clean_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        text = value
    else:
        plain = isinstance(value, bool | int | float)
        text = str(value) if plain else json.dumps(value, default=str, sort_keys=True)
    return None if text is None else text.replace("\0", "").encode(errors="replace").decode()


def _column_text(value: object) -> str | None:
    """Return text that fits a column; databases do not distinguish trailing blanks."""
    text = _clean_text(value)
    return None if text is None else text.strip()[:_LONGEST]


def _read_flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _read_number(value: Any) -> int | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    # Compared before int(), which fails on NaN and infinity.
    return int(value) if fits and -_LARGEST <= value <= _LARGEST else None


_KINDS: Mapping[str, _Kind] = {
    "bios": _Kind(
        lambda task: task.driver.bios.cache_bios_settings(task),
        _stored_setting,
        "name",
        reports.put_bios_settings,
    ),
    "firmware": _Kind(
        lambda task: task.driver.firmware.cache_firmware_components(task),
        _stored_component,
        "component",
        reports.put_firmware,
    ),
}

BOOT: Mapping[str, Callable[[Task], Any]] = {
    "boot_mode": lambda task: task.driver.management.get_boot_mode(task),
    "secure_boot": lambda task: task.driver.management.get_secure_boot_state(task),
}
"""Questions for fields of nodes about their next boot."""
