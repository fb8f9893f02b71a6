"""The actions of rules: a table of operations on a `Subject`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import capabilities, names
from ironic_lite.domain.inspection_rules import calls, templates
from ironic_lite.domain.inspection_rules.conditions import Operation, arguments, looped
from ironic_lite.domain.inspection_rules.subject import (
    NODE,
    OBJECT,
    PORT,
    Subject,
    fitting,
    path,
    writable,
)

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
    call = calls.made(
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
    if not names.TRAIT.fullmatch(str(name)):
        reason = f"{str(name)[:80]!r} is not a trait: use CUSTOM_A, or a standard one"
        raise errors.InvalidParameter(path="name", reason=reason)
    subject.traits.add(str(name))
    subject.changed.add("traits")


def _remove_trait(subject: Subject, *, name: object) -> None:
    subject.traits.discard(str(name))
    subject.changed.add("traits")


def _set_capability(subject: Subject, *, name: object, value: object) -> None:
    held = subject.node.get("properties") or {}
    put = capabilities.put(held.get("capabilities"), str(name), str(value))
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
ACTIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "fail": Operation(_fail_inspection, ("msg",)),
        "log": Operation(_log_message, ("msg",), ("level",)),
        "set-attribute": Operation(_set_attribute, _SET),
        "extend-attribute": Operation(_extend_attribute, _SET, _EXTEND),
        "del-attribute": Operation(_del_attribute, ("path",)),
        "add-trait": Operation(_add_trait, ("name",)),
        "remove-trait": Operation(_remove_trait, ("name",)),
        "set-capability": Operation(_set_capability, ("name", "value")),
        "unset-capability": Operation(_unset_capability, ("name",)),
        "set-plugin-data": Operation(_set_plugin_data, _SET),
        "extend-plugin-data": Operation(_extend_plugin_data, _SET, _EXTEND),
        "unset-plugin-data": Operation(_unset_plugin_data, ("path",)),
        "set-port-attribute": Operation(_set_port_attribute, ("port_id", *_SET)),
        "extend-port-attribute": Operation(_extend_port_attribute, ("port_id", *_SET), _EXTEND),
        "del-port-attribute": Operation(_del_port_attribute, ("port_id", "path")),
        "api-call": Operation(_call_url, ("url",), tuple(calls.JUDGES)[1:]),
    }
)


def act(action: JsonView, subject: Subject, *, secrets: bool) -> None:
    """Run an action, for each item of its loop.

    :raises errors.Error: it is invalid, or it makes the inspection fail.
    """
    operation = ACTIONS[action["op"].strip()]
    items = looped(action)
    for item in [None] if items is None else items:
        view = subject.view(secrets=secrets)
        if items is not None:
            view["item"] = templates.fill(item, view)
        told = templates.fill(arguments(operation, action["args"]), view)
        operation.act(subject, **told)
