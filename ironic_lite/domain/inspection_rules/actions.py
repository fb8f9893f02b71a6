"""The actions of rules: a table of operations on a `Subject`."""

from __future__ import annotations

import dataclasses
import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields, vocabulary
from ironic_lite.domain.inspection_rules import conditions
from ironic_lite.domain.inspection_rules.conditions import RuleOperation, arguments, looped

# The action ``api-call``: one GET of an address, made by the caller of the rules.

_LONGEST = 2048  # characters of an address, or of the value of a header
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")  # RFC 9110, 5.6.2
_NO_VALUE = re.compile(r"[^\t\x20-\x7e]")


class RuleCall(NamedTuple):
    """One call.

    It has an address, headers, seconds that a try may take, the number of retries, and the seconds
    before the first retry, which double with each.
    """

    url: str
    headers: Mapping[str, str]
    timeout: float
    retries: int
    backoff: float


def _read_url(value: object) -> str:
    text = str(value)
    try:
        place = urllib.parse.urlsplit(text)
        good = place.scheme in ("http", "https") and bool(place.hostname)
    except ValueError:
        good = False
    if not good or len(text) > _LONGEST or _NO_VALUE.search(text) or " " in text:
        raise _call_refused("url", "is not an address that begins with http:// or https://")
    return text


def _read_headers(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _call_refused("headers", "must be an object")
    told = {str(name): str(held) for name, held in value.items()}
    for name, held in told.items():
        if not _HEADER.fullmatch(name) or _NO_VALUE.search(held) or len(held) > _LONGEST:
            raise _call_refused(
                "headers", f"{name[:80]!r} is not a valid header, or has a bad value"
            )
    return told


def _number_reader(name: str, most: float, *, positive: bool = False) -> Callable[[Any], float]:
    def number(value: Any) -> float:
        try:
            found = float(value)
        except (TypeError, ValueError):
            raise _call_refused(name, "must be a number") from None
        if not 0 <= found <= most or (positive and not found):
            least = "more than 0" if positive else "0 or more"
            raise _call_refused(name, f"must be {least}, and {most:g} at most")
        return found

    return number


def _call_refused(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)


CALL_JUDGES: Mapping[str, Callable[[Any], Any]] = {
    "url": _read_url,
    "headers": _read_headers,
    "timeout": _number_reader("timeout", 60, positive=True),
    "retries": _number_reader("retries", 10),
    "backoff_factor": _number_reader("backoff_factor", 60),
}
"""Checks of the arguments; they return the value or raise InvalidParameter."""


def made_call(**told: object) -> RuleCall:
    """Return the call of an action's arguments.

    :raises errors.InvalidParameter: one of them is invalid.
    """
    url, headers, timeout, retries, backoff = (
        judge(told[key]) for key, judge in CALL_JUDGES.items()
    )
    return RuleCall(url, headers, timeout, int(retries), backoff)


# The data that rules read, and the changes they may make.

PHASES = ("main",)
"""Phases in which rules are applied: after all hooks, before the inspection ends."""

OBJECT, NAME, WORD = "object", "name", "word"
FLAG, ANSWER = "flag", "answer"
"""Kinds of attributes besides texts: a flag cannot be null, an answer can.

An answer may be true, false, or null.
"""

NODE: Mapping[str, str | int] = {
    # attribute of a node that rules may write -> its kind, or the length of a text
    "automated_clean": ANSWER,
    "description": 4096,
    "driver": WORD,
    "driver_info": OBJECT,
    "extra": OBJECT,
    "lessee": 255,
    "name": NAME,
    "owner": 255,
    "properties": OBJECT,
    "resource_class": 80,
    "shard": 255,
    **{f"{kind}_interface": WORD for kind in fields.INTERFACE_KINDS},
}
PORT: Mapping[str, str | int] = {
    "category": 80,
    "description": 255,
    "extra": OBJECT,
    "physical_network": 64,
    "pxe_enabled": FLAG,
    "vendor": 32,
}
_FLAGS = {True: True, False: False, "true": True, "yes": True, "false": False, "no": False}
_PATH = re.compile(r"/?([^/]+(?:/[^/]+)*)")


@dataclasses.dataclass(slots=True)
class Subject:
    """A node during its inspection.

    :ivar node: its public fields; those of `NODE` may be changed.
    :ivar plugin_data: the results of hooks; changed in place.
    :ivar ports: UUID -> the fields of a port, with ``address``; those of `PORT` may be changed.
    :ivar traits: the node's.
    :ivar changed: names of the changes: fields of the node, ``traits``, ``plugin_data``, and for a
        port its UUID.
    :ivar said: (level, sentence) for the log.
    :ivar call: makes a call that a rule requests; None: calls are not possible.
    """

    node: Json
    inventory: JsonView
    plugin_data: Json
    ports: dict[str, Json] = dataclasses.field(default_factory=dict)
    traits: set[str] = dataclasses.field(default_factory=set)
    changed: set[str] = dataclasses.field(default_factory=set)
    said: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    call: Callable[[RuleCall], None] | None = None

    def view(self, *, secrets: bool) -> Json:
        """Return the names for templates: ``node``, ``inventory``, ``plugin_data``.

        :param secrets: False masks them, as everywhere.
        """
        whole = {
            "node": {**self.node, "traits": sorted(self.traits)},
            "inventory": self.inventory,
            "plugin_data": self.plugin_data,
        }
        return whole if secrets else {name: masking.mask(part) for name, part in whole.items()}


def path(text: object) -> list[str]:
    """Return the words of a path such as ``/properties/cpus``, or ``properties.cpus``.

    Dots separate words only in a path without slashes.

    :raises errors.InvalidParameter: it is not a path.
    """
    found = _PATH.fullmatch(text) if isinstance(text, str) else None
    words = found[1].split("/" if "/" in found[0] else ".") if found else [""]
    if not all(words):
        reason = f"{str(text)[:80]!r} is no path such as /properties/key"
        raise errors.InvalidParameter(path="path", reason=reason)
    return words


def writable(text: object, table: Mapping[str, str | int]) -> list[str]:
    """Return the words of a path that rules may write.

    :raises errors.InvalidParameter: it is not a path, or leads elsewhere.
    """
    words = path(text)
    if words[0] not in table:
        reason = f"{words[0]!r} cannot be written by a rule; these can: {', '.join(table)}"
        raise errors.InvalidParameter(path="path", reason=reason)
    if table[words[0]] != OBJECT and len(words) > 1:
        raise errors.InvalidParameter(path="path", reason=f"of {words[0]!r}, name it alone")
    return words


def fitting(root: str, value: object, kind: str | int) -> Any:
    """Return a value in the form of an attribute.

    :param kind: of `NODE` or `PORT`.
    :raises errors.InvalidParameter: the attribute cannot hold it.
    """
    if kind == OBJECT:
        return dict(_checked_value(root, value, isinstance(value, Mapping), "must be an object"))
    if kind in (FLAG, ANSWER):
        word = value.lower() if isinstance(value, str) else value
        known = word in _FLAGS if isinstance(word, bool | str) else word is None and kind == ANSWER
        return _FLAGS.get(_checked_value(root, word, known, "must be true or false"))
    if value is None:
        return _checked_value(root, None, kind != WORD, "must not be null")
    text = str(value)
    if kind == NAME:
        return _checked_value(
            root, text, vocabulary.is_node_name(text), "is no name that a node can have"
        )
    room = 255 if kind == WORD else int(kind)
    return _checked_value(root, text, len(text) <= room, f"is longer than {room} characters")


def _checked_value(root: str, value: object, good: bool, reason: str) -> Any:
    if not good:
        raise errors.InvalidParameter(path=root, reason=reason)
    return value


LEVELS = ("debug", "info", "warning", "error", "critical")
_PLUGIN_DATA = "plugin_data"
_LOGIN = "driver_info"
"""The attribute with the login of the BMC; a mask in it would lock the service out."""


def _fail_inspection(_subject: Subject, *, msg: object) -> None:
    raise errors.HardwareError(str(msg))


def _log_message(subject: Subject, *, msg: object, level: str = "info") -> None:
    word = str(level).lower()
    subject.said.append((word if word in LEVELS else "info", str(msg)))


def _call_url(
    subject: Subject,
    *,
    url: object,
    headers: object = None,
    timeout: object = 5,
    retries: object = 3,
    backoff_factor: object = 0.3,
) -> None:
    call = made_call(
        url=url, headers=headers, timeout=timeout, retries=retries, backoff_factor=backoff_factor
    )
    if subject.call is not None:
        subject.call(call)


# -- attributes ------------------------------------------------------------------------------


def _set_value(
    target: Json, words: list[str], value: object, table: Mapping[str, str | int]
) -> None:
    root = words[0]
    whole = _with_value(target.get(root), words[1:], value)
    target[root] = fitting(root, whole, table[root])


def _with_value(whole: object, words: list[str], value: object) -> Any:
    """Return an object with a value at a path; changed parts are copies."""
    if not words:
        return value
    held = dict(whole) if isinstance(whole, Mapping) else {}
    held[words[0]] = _with_value(held.get(words[0]), words[1:], value)
    return held


def _without_value(whole: object, words: list[str]) -> Any:
    """Return an object without the value at a path, if any."""
    if not isinstance(whole, Mapping) or words[0] not in whole:
        return whole
    held = dict(whole)
    if len(words) == 1:
        del held[words[0]]
    else:
        held[words[0]] = _without_value(held[words[0]], words[1:])
    return held


def _value_at(whole: object, words: list[str]) -> Any:
    for word in words:
        whole = whole.get(word) if isinstance(whole, Mapping) else None
    return whole


def _longer_list(held: object, value: object, unique: object) -> list[Any]:
    """Return a list with one more value.

    :raises errors.InvalidParameter: the existing value is not a list.
    """
    if held is not None and not isinstance(held, list):
        raise errors.InvalidParameter(path="path", reason="is not the path of a list")
    listed = list(held or ())
    return listed if unique and value in listed else [*listed, value]


def _drop_value(target: Json, words: list[str], table: Mapping[str, str | int]) -> None:
    root = words[0]
    if len(words) > 1:
        target[root] = _without_value(target.get(root), words[1:])
    else:
        target[root] = fitting(root, {} if table[root] == OBJECT else None, table[root])


def _joined_path(words: list[str]) -> str:
    return "/" + "/".join(words)


def _set_attribute(subject: Subject, *, path: object, value: object) -> None:
    words = writable(path, NODE)
    masked = masking.mask_path(value, _joined_path(words)) if words[0] == _LOGIN else None
    if masked is not None:
        reason = (
            f"would become {masking.MASK}, which a rule sees in place of a secret; a rule that is "
            "declared sensitive sees the secret"
        )
        raise errors.InvalidParameter(path=masked, reason=reason)
    _set_value(subject.node, words, value, NODE)
    subject.changed.add(words[0])


def _extend_attribute(
    subject: Subject, *, path: object, value: object, unique: object = False
) -> None:
    words = writable(path, NODE)
    listed = _longer_list(_value_at(subject.node, words), value, unique)
    _set_attribute(subject, path=_joined_path(words), value=listed)


def _del_attribute(subject: Subject, *, path: object) -> None:
    words = writable(path, NODE)
    _drop_value(subject.node, words, NODE)
    subject.changed.add(words[0])


# -- traits and capabilities -----------------------------------------------------------------


def _add_trait(subject: Subject, *, name: object) -> None:
    if not vocabulary.TRAIT.fullmatch(str(name)):
        reason = f"{str(name)[:80]!r} is not a trait: use CUSTOM_A, or a standard one"
        raise errors.InvalidParameter(path="name", reason=reason)
    subject.traits.add(str(name))
    subject.changed.add("traits")


def _remove_trait(subject: Subject, *, name: object) -> None:
    subject.traits.discard(str(name))
    subject.changed.add("traits")


def _set_capability(subject: Subject, *, name: object, value: object) -> None:
    held = subject.node.get("properties") or {}
    put = vocabulary.put_capability(held.get("capabilities"), str(name), str(value))
    _set_attribute(subject, path="properties/capabilities", value=put)


def _unset_capability(subject: Subject, *, name: object) -> None:
    held = (subject.node.get("properties") or {}).get("capabilities")
    if isinstance(held, Mapping):
        kept: Any = {key: value for key, value in held.items() if key != name}
    else:
        words = str(held or "").split(",")
        kept = ",".join(word for word in words if word and word.split(":")[0].strip() != name)
    _set_attribute(subject, path="properties/capabilities", value=kept)


# -- plugin data -----------------------------------------------------------------------------


def _set_plugin_data(subject: Subject, *, path: object, value: object) -> None:
    words = _words(path)
    subject.plugin_data[words[0]] = _with_value(subject.plugin_data.get(words[0]), words[1:], value)
    subject.changed.add(_PLUGIN_DATA)


def _extend_plugin_data(
    subject: Subject, *, path: object, value: object, unique: object = False
) -> None:
    words = _words(path)
    listed = _longer_list(_value_at(subject.plugin_data, words), value, unique)
    _set_plugin_data(subject, path=_joined_path(words), value=listed)


def _unset_plugin_data(subject: Subject, *, path: object) -> None:
    words = _words(path)
    if len(words) > 1:
        held = subject.plugin_data
        held[words[0]] = _without_value(held.get(words[0]), words[1:])
    else:
        subject.plugin_data.pop(words[0], None)
    subject.changed.add(_PLUGIN_DATA)


_words = path

# -- ports -----------------------------------------------------------------------------------


def _port_of(subject: Subject, ident: object) -> tuple[str, Json]:
    """Return a port of the node by its UUID or its address.

    :raises errors.PortNotFound: the node does not have it.
    """
    wanted = str(ident).lower()
    for uuid, port in subject.ports.items():
        if wanted in (uuid, port["address"]):
            return uuid, port
    raise errors.PortNotFound(port=wanted[:64])


def _set_port_attribute(subject: Subject, *, port_id: object, path: object, value: object) -> None:
    uuid, port = _port_of(subject, port_id)
    _set_value(port, writable(path, PORT), value, PORT)
    subject.changed.add(uuid)


def _extend_port_attribute(
    subject: Subject, *, port_id: object, path: object, value: object, unique: object = False
) -> None:
    _uuid, port = _port_of(subject, port_id)
    words = writable(path, PORT)
    listed = _longer_list(_value_at(port, words), value, unique)
    _set_port_attribute(subject, port_id=port_id, path=_joined_path(words), value=listed)


def _del_port_attribute(subject: Subject, *, port_id: object, path: object) -> None:
    uuid, port = _port_of(subject, port_id)
    _drop_value(port, writable(path, PORT), PORT)
    subject.changed.add(uuid)


_SET, _EXTEND = ("path", "value"), ("unique",)
ACTIONS: Mapping[str, RuleOperation] = {
    "fail": RuleOperation(_fail_inspection, ("msg",)),
    "log": RuleOperation(_log_message, ("msg",), ("level",)),
    "set-attribute": RuleOperation(_set_attribute, _SET),
    "extend-attribute": RuleOperation(_extend_attribute, _SET, _EXTEND),
    "del-attribute": RuleOperation(_del_attribute, ("path",)),
    "add-trait": RuleOperation(_add_trait, ("name",)),
    "remove-trait": RuleOperation(_remove_trait, ("name",)),
    "set-capability": RuleOperation(_set_capability, ("name", "value")),
    "unset-capability": RuleOperation(_unset_capability, ("name",)),
    "set-plugin-data": RuleOperation(_set_plugin_data, _SET),
    "extend-plugin-data": RuleOperation(_extend_plugin_data, _SET, _EXTEND),
    "unset-plugin-data": RuleOperation(_unset_plugin_data, ("path",)),
    "set-port-attribute": RuleOperation(_set_port_attribute, ("port_id", *_SET)),
    "extend-port-attribute": RuleOperation(_extend_port_attribute, ("port_id", *_SET), _EXTEND),
    "del-port-attribute": RuleOperation(_del_port_attribute, ("port_id", "path")),
    "api-call": RuleOperation(_call_url, ("url",), tuple(CALL_JUDGES)[1:]),
}


def act(action: JsonView, subject: Subject, *, secrets: bool) -> None:
    """Run an action, for each item of its loop.

    :raises errors.Error: it is invalid, or it makes the inspection fail.
    """
    operation = ACTIONS[action["op"].strip()]
    items = looped(action)
    for item in [None] if items is None else items:
        view = subject.view(secrets=secrets)
        if items is not None:
            view["item"] = conditions.fill_template(item, view)
        told = conditions.fill_template(arguments(operation, action["args"]), view)
        operation.act(subject, **told)
