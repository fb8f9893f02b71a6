"""Applies the rules that operators have made to what an inspection has found.

What was found is saved before, so that a rule which fails the inspection leaves it to be looked at.
Of what the rules themselves change, nothing is written unless all have been applied.
"""

from __future__ import annotations

import datetime
import functools
import logging
from typing import Any

from ironic_lite import clock, errors, fields, inspection_rules, texts
from ironic_lite.conductor.flows import calls
from ironic_lite.conductor.task import Task
from ironic_lite.db import inspection_rules as db
from ironic_lite.db import inventories, ports, traits
from ironic_lite.db.session import Connection
from ironic_lite.inspection_rules import PHASES, Subject
from ironic_lite.inspection_rules.subject import NODE, PORT

LOG = logging.getLogger(__name__)

Json = dict[str, Any]

# What was started by one console could not be stopped by another.
_CONSOLE = ("driver", "console_interface")
_DRIVING = frozenset({"driver", *(f"{kind}_interface" for kind in fields.INTERFACE_KINDS)})


def apply(task: Task) -> None:
    """Run all rules; their changes are written with the next save. No rules: one statement.

    :raises errors.HardwareError: a rule says that the inspection fails, or cannot be carried out.
    :raises errors.LocalFileError: the file of built-in rules cannot be read.
    """
    database, phase = task.desk.database, PHASES[0]
    known = database.read(lambda conn: db.of_phase(conn, phase))
    rules = sorted(
        [*known, *task.desk.rulebook.rules(phase)], key=lambda rule: rule["priority"], reverse=True
    )
    if not rules:
        return
    task.save()
    subject = database.read(lambda conn: _subject(conn, task))
    held = set(subject.traits)
    mask_secrets = task.desk.conf.inspection_rules.mask_secrets
    inspection_rules.run(rules, subject, mask_secrets=mask_secrets)
    for level, sentence in subject.said:
        LOG.log(logging.getLevelName(level.upper()), "Node %s: %s", task.node.uuid, sentence)
    _write(task, subject, held)


def _subject(conn: Connection, task: Task) -> Subject:
    node = task.node.as_dict()
    try:
        found = inventories.get(conn, task.node.uuid)
    except errors.NotFound:
        found = {"inventory": {}, "plugin_data": {}}
    return Subject(
        node={field.name: _plain(node[field.stored]) for field in fields.NODE if field.stored},
        inventory=found["inventory"],
        plugin_data=found["plugin_data"],
        ports={port.uuid: dict(port.as_dict()) for port in ports.of_node(conn, task.node.uuid)},
        traits=set(traits.get(conn, task.node.uuid)),
        call=functools.partial(calls.make, task),
    )


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def _write(task: Task, subject: Subject, held: set[str]) -> None:
    uuid, at = task.node.uuid, clock.now()
    if subject.changed & _DRIVING:
        _check_driver(task, subject.node)
    for name in subject.changed & NODE.keys():
        setattr(task.node, name, texts.cleaned({name: subject.node[name]})[name])
    if "traits" in subject.changed:
        change = {"added": subject.traits - held, "removed": held - subject.traits}
        task.add_write(functools.partial(_settle_traits, uuid, change))
    if "plugin_data" in subject.changed:
        data = texts.cleaned(subject.plugin_data)
        task.add_write(lambda conn: inventories.put(conn, uuid, subject.inventory, data, at=at))
    for port in subject.changed & subject.ports.keys():
        values = texts.cleaned({name: subject.ports[port][name] for name in PORT})
        task.add_write(functools.partial(_update_port, port, values))


def _check_driver(task: Task, wanted: Json) -> None:
    """Refuse a driver, or interfaces, that this conductor cannot drive the node with.

    :raises errors.HardwareError: naming what is missing; or a console that runs would be left over.
    """
    driver = str(wanted["driver"])
    kinds = {kind: wanted[f"{kind}_interface"] for kind in fields.INTERFACE_KINDS}
    moved = [name for name in _CONSOLE if wanted[name] != getattr(task.node, name)]
    try:
        if moved and task.node.console_enabled:
            reason = "cannot be changed while the console is enabled"
            raise errors.InvalidParameter(path=moved[0], reason=reason)
        task.desk.registry.driver_for(driver, kinds)
    except errors.Error as why:
        text = f"A rule wants the driver {driver[:64]!r}: {why.message}"
        raise errors.HardwareError(text, reason=text) from None


def _settle_traits(uuid: str, change: dict[str, set[str]], conn: Connection) -> None:
    traits.settle(conn, uuid, added=change["added"], removed=change["removed"])


def _update_port(uuid: str, values: Json, conn: Connection) -> None:
    ports.update(conn, uuid, values)
