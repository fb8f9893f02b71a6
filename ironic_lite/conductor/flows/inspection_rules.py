"""Application of the operators' inspection rules to the result of an inspection.

The result is saved before, so that it stays readable if a rule fails the inspection. Changes by
rules are only written if all rules have been applied.
"""

from __future__ import annotations

import datetime
import functools
import logging
from typing import Any

from ironic_lite import errors
from ironic_lite.conductor.flows import hands, rule_calls
from ironic_lite.conductor.work import bounds
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import inspection_rules as db
from ironic_lite.db.queries import inventories, ports, traits
from ironic_lite.domain import fields, inspection_rules
from ironic_lite.domain.inspection_rules import PHASES, Subject
from ironic_lite.domain.inspection_rules.subject import NODE, PORT
from ironic_lite.errors import unicode_text

LOG = logging.getLogger(__name__)

# A console interface cannot stop what another one has started.
_CONSOLE = ("driver", "console_interface")
_HANDS = ("owner", "lessee")
_INTERFACES = {f"{kind}_interface": kind for kind in fields.INTERFACE_KINDS}
_DRIVING = frozenset({"driver", *_INTERFACES})


def apply(task: Task) -> None:
    """Run all rules; the next save writes their changes.

    Without rules this costs one statement.

    :raises errors.HardwareError: a rule fails the inspection, or cannot be carried out.
    :raises errors.LocalFileError: the file of built-in rules cannot be read.
    """
    database, phase = task.runtime.database, PHASES[0]
    known = database.read(lambda conn: db.of_phase(conn, phase))
    rules = sorted(
        [*known, *task.runtime.rulebook.rules(phase)],
        key=lambda rule: rule["priority"],
        reverse=True,
    )
    if not rules:
        return
    task.save()
    subject = database.read(lambda conn: _subject_of(conn, task))
    held = set(subject.traits)
    mask_secrets = task.runtime.conf.inspection_rules.mask_secrets
    inspection_rules.run(rules, subject, mask_secrets=mask_secrets)
    for level, sentence in subject.said:
        LOG.log(logging.getLevelName(level.upper()), "Node %s: %s", task.node.uuid, sentence)
    _write_changes(task, subject, held)


def _subject_of(conn: Connection, task: Task) -> Subject:
    node = task.node.as_dict()
    try:
        found = inventories.get(conn, task.node.uuid)
    except errors.NotFound:
        found = {"inventory": {}, "plugin_data": {}}
    return Subject(
        node={
            field.name: _plain_value(node[field.stored]) for field in fields.NODE if field.stored
        },
        inventory=found["inventory"],
        plugin_data=found["plugin_data"],
        ports={port.uuid: dict(port.as_dict()) for port in ports.of_node(conn, task.node.uuid)},
        traits=set(traits.get(conn, task.node.uuid)),
        call=functools.partial(rule_calls.make, task),
    )


def _plain_value(value: object) -> Any:
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def _write_changes(task: Task, subject: Subject, held: set[str]) -> None:
    uuid, at = task.node.uuid, clock.now()
    if subject.changed & _DRIVING:
        _complete_interfaces(task, subject)
    changed = subject.changed & NODE.keys()
    bounds.check(**{name: subject.node[name] for name in changed}, plugin_data=subject.plugin_data)
    values = unicode_text.cleaned({name: subject.node[name] for name in changed})
    for name in changed - set(_HANDS):
        setattr(task.node, name, values[name])
    owner, lessee = (values.get(name, subject.node[name]) for name in _HANDS)
    hands.change(task, (owner, lessee))
    if "traits" in subject.changed:
        change = {"added": subject.traits - held, "removed": held - subject.traits}
        task.add_write(functools.partial(_settle_traits, uuid, change))
    if "plugin_data" in subject.changed:
        data = unicode_text.cleaned(subject.plugin_data)
        task.add_write(lambda conn: inventories.put(conn, uuid, subject.inventory, data, at=at))
    for port in subject.changed & subject.ports.keys():
        values = unicode_text.cleaned({name: subject.ports[port][name] for name in PORT})
        task.add_write(functools.partial(_update_port, port, values))


def _complete_interfaces(task: Task, subject: Subject) -> None:
    """Check the driver and its interfaces; with a new driver, reset those that no rule has set.

    :raises errors.HardwareError: naming the missing part, or a console that would keep running.
    """
    wanted = subject.node
    driver = str(wanted["driver"])
    if driver != task.node.driver:
        kept = {name for name in _INTERFACES if name not in subject.changed}
        wanted.update(dict.fromkeys(kept))
        subject.changed |= kept
    kinds = {kind: wanted[name] for name, kind in _INTERFACES.items()}
    try:
        names = task.runtime.registry.resolve(driver, kinds)
        wanted.update({name: names[kind] for name, kind in _INTERFACES.items()})
        moved = [name for name in _CONSOLE if wanted[name] != getattr(task.node, name)]
        if moved and task.node.console_enabled:
            reason = "cannot be changed while the console is enabled"
            raise errors.InvalidParameter(path=moved[0], reason=reason)
    except errors.Error as why:
        text = f"A rule sets the driver {driver[:64]!r}: {why.message}"
        raise errors.HardwareError(text, reason=text) from None


def _settle_traits(uuid: str, change: dict[str, set[str]], conn: Connection) -> None:
    traits.settle(conn, uuid, added=change["added"], removed=change["removed"])


def _update_port(uuid: str, values: Json, conn: Connection) -> None:
    ports.update(conn, uuid, values)
