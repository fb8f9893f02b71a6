"""Rules read from a file, in the form of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.domain.inspection_rules.checks import check
from ironic_lite.domain.inspection_rules.conditions import MULTIPLE
from ironic_lite.domain.inspection_rules.subject import PHASES


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
