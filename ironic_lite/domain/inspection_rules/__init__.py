"""Rules on the results of an inspection: conditions, and actions if they hold.

A pure core without I/O: the caller makes the calls that rules request. ``templates`` fill in texts
such as ``{inventory[cpu][count]}``; ``conditions`` and ``actions`` are tables of operations by
name, each with its arguments; ``checks`` refuses unknown ones; ``engine`` runs rules over a
`Subject`, which records the changes for the caller to save. ``built_in`` reads rules out of a file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain.inspection_rules import actions as rule_actions
from ironic_lite.domain.inspection_rules import conditions as rule_conditions
from ironic_lite.domain.inspection_rules.actions import (
    ACTIONS,
    LEVELS,
    NODE,
    PHASES,
    PORT,
    RuleCall,
    Subject,
    path,
    writable,
)
from ironic_lite.domain.inspection_rules.conditions import (
    MULTIPLE,
    OPERATORS,
    REGEX,
    RuleOperation,
    arguments,
    named,
)

__all__ = ["PHASES", "RuleCall", "Subject", "check", "parse", "run"]


# Checks of rules that refuse impossible ones, by the paths of their faults.


def check(conditions: Any, actions: Any) -> None:
    """Check the conditions and actions of a rule, which match the schema.

    :raises errors.InvalidParameter: an unknown operation, or arguments that it does not take.
    """
    for place, condition in enumerate(conditions or ()):
        name, _inverted = named(condition["op"])
        _check_operation(OPERATORS, name, condition, f"conditions/{place}")
    for place, action in enumerate(actions or ()):
        _check_operation(ACTIONS, action["op"].strip(), action, f"actions/{place}")


def _check_operation(table: Mapping[str, RuleOperation], name: str, one: Json, where: str) -> None:
    operation = table.get(name)
    if operation is None:
        reason = f"{name[:80]!r} is not one of {', '.join(table)}"
        raise errors.InvalidParameter(path=f"{where}/op", reason=reason)
    given = one["args"]
    most = len(operation.needs) + len(operation.takes)
    if isinstance(given, list) and len(given) > most:
        reason = f"{name} takes {most} arguments at most"
        raise errors.InvalidParameter(path=f"{where}/args", reason=reason)
    told = arguments(operation, given)
    for key in operation.needs:
        if key not in told:
            raise errors.InvalidParameter(path=f"{where}/args/{key}", reason="is required")
    for key, value in told.items():
        if key not in (*operation.needs, *operation.takes):
            reason = f"{name} has no such argument"
            raise errors.InvalidParameter(path=f"{where}/args/{key}", reason=reason)
        _check_value(name, key, value, f"{where}/args/{key}")


def _check_value(name: str, key: str, value: object, where: str) -> None:
    """Refuse a value that is wrong before it is filled in."""
    judge = _JUDGES.get(key)
    if judge is None or (isinstance(value, str) and "{" in value and key != REGEX):
        return
    try:
        judge(name, value)
    except errors.InvalidParameter as why:
        raise errors.InvalidParameter(path=where, reason=why.facts["reason"]) from None


def _check_regex(_name: str, value: object) -> None:
    rule_conditions.check_expression(value)


def _check_level(_name: str, value: object) -> None:
    if str(value).lower() not in LEVELS:
        raise errors.InvalidParameter(path="level", reason=f"is not one of {', '.join(LEVELS)}")


def _check_path(name: str, value: object) -> None:
    if name.endswith("plugin-data"):
        path(value)
    else:
        writable(value, PORT if "port" in name else NODE)


def _of_call(judge: Callable[[Any], object], _name: str, value: object) -> None:
    judge(value)


_JUDGES: Mapping[str, Callable[[str, Any], None]] = {
    REGEX: _check_regex,
    "level": _check_level,
    "path": _check_path,
    **{key: functools.partial(_of_call, judge) for key, judge in rule_actions.CALL_JUDGES.items()},
}


# Evaluation of rules on the results of an inspection.

_MASKED = {"always": False, "never": True}  # whether all rules see secrets


def run(rules: Iterable[JsonView], subject: Subject, *, mask_secrets: str = "sensitive") -> None:
    """Apply rules in their order: all actions of each rule whose conditions all hold.

    Each rule sees the changes of the previous ones.

    :param rules: checked: uuid, conditions, actions, sensitive.
    :param mask_secrets: ``always``, ``never``, or in all rules that are not ``sensitive``.
    :raises errors.HardwareError: a rule makes the inspection fail, or cannot be run; the sentence
        names it.
    :raises errors.LockLost, errors.Stopping: the caller of the calls must end.
    """
    for rule in rules:
        secrets = _MASKED.get(mask_secrets, bool(rule["sensitive"]))
        view = subject.view(secrets=secrets)
        if all(
            _carry_out(rule_conditions.holds, rule, one, view) for one in rule["conditions"] or ()
        ):
            for action in rule["actions"]:
                _carry_out(rule_actions.act, rule, action, subject, secrets=secrets)


def _carry_out(
    act: Callable[..., object],
    rule: JsonView,
    one: JsonView,
    *args: object,
    **more: object,
) -> Any:
    try:
        return act(one, *args, **more)
    except (errors.LockLost, errors.Stopping):
        raise  # not the rule's fault: the next owner of the node inspects it
    except errors.Error as why:
        said = f"Inspection rule {rule['uuid']}: {one['op']}: {why.message}"
        raise errors.HardwareError(said) from why


# Rules read from a file, in the form of requests.


class _Key(NamedTuple):
    good: Callable[[Any], bool]
    must: str
    otherwise: Any = None


def _kind_check(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


_WHOLE = "must be a whole number"
_ARGS = _Key(_kind_check(list, dict), "must be a list or an object")
_RULE: Mapping[str, _Key] = {
    "uuid": _Key(_kind_check(str, type(None)), "must be a text"),
    "description": _Key(_kind_check(str, type(None)), "must be a text"),
    "priority": _Key(_kind_check(int), _WHOLE, 0),
    "sensitive": _Key(_kind_check(bool), "must be true or false", False),
    "phase": _Key(lambda value: value in PHASES, f"must be one of {', '.join(PHASES)}", PHASES[0]),
    "conditions": _Key(_kind_check(list), "must be a list", ()),
    "actions": _Key(lambda value: type(value) is list and value != [], "must be a list with items"),
}
_ACTION: Mapping[str, _Key] = {
    "op": _Key(_kind_check(str), "must be a text"),
    "args": _ARGS,
    "loop": _ARGS,
}
_CONDITION: Mapping[str, _Key] = {
    **_ACTION,
    "multiple": _Key(lambda value: value in MULTIPLE, f"must be one of {', '.join(MULTIPLE)}"),
}


def parse(found: object) -> list[Json]:
    """Return the rules of a file with all their keys; UUIDs derive from the place.

    A priority may be below 0 and above those of other rules.

    :param found: the content of the file: a list of rules.
    :raises errors.InvalidParameter: naming the place, such as ``0/actions/1/op``.
    """
    if not isinstance(found, list):
        raise errors.InvalidParameter(path="file", reason="must be a list of rules")
    return [_read_rule(one, place) for place, one in enumerate(found)]


def _read_rule(given: Any, place: int) -> Json:
    _check_form(given, _RULE, str(place), needs=("actions",))
    rule = {key: given.get(key, known.otherwise) for key, known in _RULE.items()}
    rule["uuid"] = rule["uuid"] or f"00000000-0000-0000-0000-{place:012x}"
    for key, form in (("conditions", _CONDITION), ("actions", _ACTION)):
        for number, one in enumerate(rule[key]):
            _check_form(one, form, f"{place}/{key}/{number}", needs=("op", "args"))
    try:
        check(rule["conditions"], rule["actions"])
    except errors.InvalidParameter as why:
        path = f"{place}/{why.facts['path']}"
        raise errors.InvalidParameter(path=path, reason=why.facts["reason"]) from None
    return rule


def _check_form(
    given: object, known: Mapping[str, _Key], where: str, *, needs: tuple[str, ...]
) -> None:
    if not isinstance(given, dict):
        raise errors.InvalidParameter(path=where, reason="must be an object")
    for key in needs:
        if key not in given:
            raise errors.InvalidParameter(path=f"{where}/{key}", reason="is required")
    for key, value in given.items():
        if key not in known:
            reason = f"unknown key; known are {', '.join(known)}"
            raise errors.InvalidParameter(path=f"{where}/{str(key)[:80]}", reason=reason)
        if not known[key].good(value):
            raise errors.InvalidParameter(path=f"{where}/{key}", reason=known[key].must)
