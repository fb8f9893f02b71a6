"""Inspection: read a machine's hardware, and apply the operators' rules to the result.

Requirement S5.8.
"""

from __future__ import annotations

import datetime
import functools
import logging
import urllib.parse
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.conductor.engine import notes, stepper
from ironic_lite.conductor.engine.phases import Checks, Flow
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import error_text, owners
from ironic_lite.core import clock, networks
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes, ports, reports, resources
from ironic_lite.domain import activities, fields, inspection_rules
from ironic_lite.domain.inspection_rules import PHASES, RuleCall, Subject
from ironic_lite.domain.inspection_rules.actions import NODE, PORT
from ironic_lite.domain.steps import WAIT
from ironic_lite.images import download

LOG = logging.getLogger(__name__)

# Inspection: read a machine's hardware and write it into the node's properties.
#
# Requirement S5.8.


def checks(task: Task, _body: JsonView) -> Checks:
    """Return the checks of an inspection while the client waits."""
    driver = task.driver
    return (lambda: driver.power.validate(task), lambda: driver.inspect.validate(task))


def start(task: Task) -> None:
    """Ask the inspect interface; a waiting inspection ends with a report or a poll."""
    task.node.inspection_started_at = clock.now()
    if task.driver.inspect.inspect_hardware(task) is WAIT:
        task.move("wait", last=True)
    else:
        finish(task)


def resume(task: Task, *, poll: bool) -> None:
    """Continue from inspect wait."""
    task.node.wake_at = None
    if poll and task.driver.inspect.poll_inspection(task) is WAIT:
        stepper.note_still_running(task)
        task.save_on_release = True
    else:
        finish(task)


def report(task: Task, inventory: Json, plugin_data: Json) -> None:
    """Process the ramdisk's report; the node has left inspect wait."""
    if task.driver.inspect.continue_inspection(task, inventory, plugin_data) is WAIT:
        task.move("wait", last=True)
    else:
        finish(task)


def discover(task: Task, inventory: Json, plugin_data: Json) -> None:
    """Run hooks and rules for a machine that an API process has just enrolled; it stays there."""
    run = task.node.run_uuid
    if run is None:
        return
    task.journal.run(run, conductor=task.runtime.host)
    task.keep_result(task.run_hooks(task.runtime.conf.inspector.hooks, inventory, plugin_data))
    apply_rules(task)
    task.run_record.end(run)
    task.save()


def finish(task: Task) -> None:
    """Compare disks with the erasure record, apply the rules, and move to manageable."""
    for listener in task.runtime.inspected:
        listener(task)
    apply_rules(task)
    task.node.inspection_finished_at = clock.now()
    task.node.inspection_started_at = None
    task.move("done", last=True)


def give_up(task: Task, why: errors.Error) -> None:
    """Fail with the reason; remove the inspection's traces from the machine."""
    error = error_text.led_by(f"Failed to inspect node {task.node.uuid}", why)
    what = "putting away the inspection"
    error = error_text.clean_up_after(task, error, what, task.driver.inspect.clean_up)
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort a waiting inspection."""
    task.move("abort", error=errors.Aborted(action="inspect", where=""), aborted=True)


def tidy(task: Task) -> None:
    """Stop a running inspection after the state has been set."""
    error = errors.Aborted(task.node.last_error, action="inspect", where="")
    stop = task.driver.inspect.abort
    task.node.last_error = error_text.clean_up_after(task, error, "stopping it", stop).message
    task.save()


FLOW = Flow(
    activity=activities.INSPECT,
    checks=checks,
    prepare=start,
    resume=resume,
    give_up=give_up,
    call_off=call_off,
    tidy=tidy,
)


# Application of the operators' inspection rules to the result of an inspection.
#
# The result is saved before, so that it stays readable if a rule fails the inspection. Changes by
# rules are only written if all rules have been applied.


# A console interface cannot stop what another one has started.
_CONSOLE = ("driver", "console_interface")
_HANDS = ("owner", "lessee")
_INTERFACES = {f"{kind}_interface": kind for kind in fields.INTERFACE_KINDS}
_DRIVING = frozenset({"driver", *_INTERFACES})


def apply_rules(task: Task) -> None:
    """Run all rules; the next save writes their changes.

    Without rules this costs one statement.

    :raises errors.HardwareError: a rule fails the inspection, or cannot be carried out.
    :raises errors.LocalFileError: the file of built-in rules cannot be read.
    """
    database, phase = task.runtime.database, PHASES[0]
    known = database.read(lambda conn: resources.rules_of_phase(conn, phase))
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
        found = reports.get_inventory(conn, task.node.uuid)
    except errors.NotFound:
        found = {"inventory": {}, "plugin_data": {}}
    return Subject(
        node={
            field.name: _plain_value(node[field.stored]) for field in fields.NODE if field.stored
        },
        inventory=found["inventory"],
        plugin_data=found["plugin_data"],
        ports={port.uuid: dict(port.as_dict()) for port in ports.of_node(conn, task.node.uuid)},
        traits=set(nodes.get_traits(conn, task.node.uuid)),
        call=functools.partial(_make_rule_call, task),
    )


def _plain_value(value: object) -> Any:
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def _write_changes(task: Task, subject: Subject, held: set[str]) -> None:
    uuid, at = task.node.uuid, clock.now()
    if subject.changed & _DRIVING:
        _complete_interfaces(task, subject)
    changed = subject.changed & NODE.keys()
    notes.check_size(
        **{name: subject.node[name] for name in changed}, plugin_data=subject.plugin_data
    )
    values = errors.cleaned({name: subject.node[name] for name in changed})
    for name in changed - set(_HANDS):
        setattr(task.node, name, values[name])
    owner, lessee = (values.get(name, subject.node[name]) for name in _HANDS)
    owners.change(task, (owner, lessee))
    if "traits" in subject.changed:
        added, removed = subject.traits - held, held - subject.traits
        task.add_write(
            functools.partial(nodes.settle_traits, node_uuid=uuid, added=added, removed=removed)
        )
    if "plugin_data" in subject.changed:
        data = errors.cleaned(subject.plugin_data)
        task.add_write(
            lambda conn: reports.put_inventory(conn, uuid, subject.inventory, data, at=at)
        )
    for port in subject.changed & subject.ports.keys():
        values = errors.cleaned({name: subject.ports[port][name] for name in PORT})
        task.add_write(functools.partial(ports.update, uuid=port, values=values))


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


# HTTP calls of inspection rules: GET requests, with retries.

_LONGEST_PAUSE = 60.0  # seconds
_REPLY_SIZE = 1024 * 1024  # bytes of a reply, which is not used
_RETRY_STATUSES = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


def _make_rule_call(task: Task, call: RuleCall) -> None:
    """Make a call while this conductor has the node.

    A conductor that takes over the inspection makes the call again.

    :raises errors.HardwareError: the server does not reply, or replies with an error.
    :raises errors.LockLost: another conductor now has the node.
    :raises errors.Stopping: this conductor stops.
    """
    said = ""
    for left in range(call.retries, -1, -1):
        task.renew_lock()
        again, said = _try_rule_call(task, call)
        if not said:
            return
        if not again or not left:
            break
        task.pause(min(_LONGEST_PAUSE, call.backoff * 2 ** (call.retries - left)))
    place = urllib.parse.urlsplit(call.url)
    # Without the path, which may be the only secret of a webhook.
    where = f"{place.scheme}://{place.netloc.rpartition('@')[2]}"
    raise errors.HardwareError(f"{where} cannot be called: {said}")


def _try_rule_call(task: Task, call: RuleCall) -> tuple[bool, str]:
    """Return whether a retry may help, and the error, "" if there is no error."""
    conf = task.runtime.conf
    terms = download.Terms(
        blocked=networks.parse(conf.conductor.image_blocked_networks),
        tls=download.trusted_tls(conf.webserver_verify_ca),
        connect=call.timeout,
        silence=call.timeout,
        seconds=call.timeout,
        size=_REPLY_SIZE,
    )
    try:
        with download.get(call.url, terms, dict(call.headers)) as answer:
            status = answer.status
    except download.FetchFailed as why:
        return True, str(why)
    if status < HTTPStatus.BAD_REQUEST:
        return False, ""
    return status in _RETRY_STATUSES, f"the server replies {status}"
